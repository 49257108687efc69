// SPDX-License-Identifier: Apache-2.0
// The statistics of records/statistics.py for a choice of tasks made in the page: IQM and seeded bootstrap.
function iqm(values) {
  const sorted = Float64Array.from(values).sort(), cut = Math.floor(sorted.length / 4);
  let sum = 0;
  for (let i = cut; i < sorted.length - cut; i++) sum += sorted[i];
  return sum / (sorted.length - 2 * cut);
}

function generator(seed) { // mulberry32
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function percentile(sorted, p) {
  const at = (sorted.length - 1) * p, low = Math.floor(at), high = Math.ceil(at);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
}

const interval = samples => { samples.sort(); return [percentile(samples, 0.025), percentile(samples, 0.975)]; };

function bootstrap(strata, resamples = 2000) {
  const random = generator(1), pooled = new Float64Array(strata.reduce((n, s) => n + s.length, 0));
  const cut = Math.floor(pooled.length / 4), samples = new Float64Array(resamples);
  for (let b = 0; b < resamples; b++) {
    let k = 0, sum = 0;
    for (const s of strata) for (let i = 0; i < s.length; i++) pooled[k++] = s[Math.floor(random() * s.length)];
    pooled.sort();
    for (let i = cut; i < k - cut; i++) sum += pooled[i];
    samples[b] = sum / (k - 2 * cut);
  }
  return [iqm(strata.flat()), ...interval(samples)];
}

// P(x beats y), averaged over tasks; wins[task][i][j] is 1, 1/2 or 0.
function improvement(xs, ys, sign, resamples = 1000) {
  const random = generator(2), samples = new Float64Array(resamples);
  const wins = xs.map((x, t) => x.map(a => ys[t].map(b => (Math.sign(sign * (a - b)) + 1) / 2)));
  const mean = rows => rows.flat().reduce((a, b) => a + b, 0) / rows.flat().length;
  const value = wins.reduce((sum, w) => sum + mean(w), 0) / wins.length;
  for (let b = 0; b < resamples; b++) {
    let total = 0;
    for (const w of wins) {
      const n = w.length, m = w[0].length, columns = Array.from({length: m}, () => Math.floor(random() * m));
      let sum = 0;
      for (let i = 0; i < n; i++) { const row = w[Math.floor(random() * n)]; for (const j of columns) sum += row[j]; }
      total += sum / (n * m);
    }
    samples[b] = total / wins.length;
  }
  return [value, ...interval(samples)];
}

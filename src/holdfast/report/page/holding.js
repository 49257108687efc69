// SPDX-License-Identifier: Apache-2.0
// How the limit was held on the way, and the worst seed beside the means: one row per algorithm and task.
// Two digits are enough to compare twenty columns on one screen; pointing at one shows more.
function brief(v) {
  if (!isFinite(v)) return v > 0 ? "∞" : "–";
  const a = Math.abs(v), sign = v < 0 ? "−" : "";
  if (a >= 1e6) return sign + +(a / 1e6).toPrecision(2) + "M";
  if (a >= 1e3) return sign + +(a / 1e3).toPrecision(2) + "k";
  return sign + (a >= 10 ? a.toFixed(0) : a >= 1 ? +a.toFixed(1) : +a.toFixed(2));
}
const share = v => brief(100 * v) + "\u202f%", times = v => brief(v) + "\u202f×";
// The first are those that answer: how often, how far, until when, and what of the worst seed? The rest is folded.
const HELD = [
  ["rate", "Epochs above the limit", share, "share of epochs above the limit, mean over seeds"],
  ["distance_violating", "How far above, then", share, "mean of cost / limit − 1 over the epochs above the limit; – if there is none"],
  ["safe_for_good", "Safe from step on", brief, "steps after which no epoch is above the limit, the slowest seed; – if some seed ended above"],
  ["sampled_rate", "Final policy: episodes above", share, "share of fresh episodes above a limit, actions sampled (holdfast evaluate RUN --save)"],
  ["mean", "Mean cost", brief, "final mean cost of an episode, mean over seeds; shown where a limit is on a tail or a chance"],
  ["tail", "Worst episodes: mean cost", brief, "last mean of the worst share of episodes that the limit is on, mean over seeds"],
  ["chance", "Episodes above, while learning", share, "last share of episodes above the amount of the limit, mean over seeds"],
  ["sampled_tail", "Final policy: worst 5 %", brief, "mean cost of the worst 5 % of fresh episodes, actions sampled (holdfast evaluate RUN --save)"],
  ["worst_cost", "Worst seed: final cost", brief, "the highest final cost of a seed"],
  ["worst_regret", "Worst seed: regret", brief, "the highest regret of a seed"],
];
const REST = [
  ["excursions", "Stretches above", brief, "stretches of epochs above the limit, mean over seeds"],
  ["length", "… epochs of one", brief, "mean length of a stretch"],
  ["area", "… cost of one", brief, "mean cost above the limit, summed over a stretch"],
  ["growth", "Growth of regret", brief, "p in regret ∝ steps^p, median over seeds; below 1 the regret is sublinear"],
  ["distance", "Cost / limit − 1", share, "mean over all epochs; negative is a margin"],
  ["first_safe", "First within, at step", brief, "steps to the first epoch within the limit, the slowest seed"],
  ["realised", "Realised / pre\u00addicted", times, "slope of the realised on the predicted change of the cost, median over seeds"],
  ["sampled_distance", "Final policy: cost / limit − 1", share, "mean over fresh episodes, actions sampled"],
  ["sampled_violating", "… when above", share, "the same over the episodes above the limit"],
  ["greedy_rate", "Most likely actions: episodes above", share, "share of fresh episodes above a limit (holdfast evaluate RUN --greedy --save)"],
  ["greedy_distance", "… cost / limit − 1", share, "mean over these episodes"],
  ["greedy_violating", "… when above", share, "the same over the episodes above the limit"],
  ["worst_return", "Worst seed: return", brief, "the lowest final return of a seed"],
];
// With several constraints these are of the worst one, in units of its limit.
const IN_LIMITS = new Set(["worst_cost", "mean", "tail", "sampled_tail"]);

function holding() {
  const rows = chosenLabels().flatMap(l => chosenTasks().filter(t => data.held[`${l},${t}`]).map(t => ({l, t, held: data.held[`${l},${t}`]})));
  const columns = list => list.filter(([key]) => rows.some(row => row.held[key] !== null)).map(([key, title, text, help]) => ({title, help, value: row => row.held[key], cell: row => {
    const value = row.held[key], cost = key === "worst_cost", over = cost && tasks[row.t].limits.length === 1 && value > tasks[row.t].limits[0];
    return make("span", {title: value === null ? help : `${format(value)}: ${help}`, className: over ? "over" : "", textContent: value === null ? "–" : IN_LIMITS.has(key) && several(row.t) ? share(value) : text(value)});
  }}));
  const who = {title: "Algorithm", value: row => names[row.l], cell: row => named.cell(row.l)};
  const where = {title: "Task", value: row => tasks[row.t].short, text: true};
  sortable(at("held"), "held", [who, where, ...columns(HELD)], rows);
  sortable(at("held-rest"), "held-rest", [who, where, ...columns(REST)], rows);
  at("holding-note").textContent = "Costs are those of " + (data.smoothed ? "the smoothed logs, since not every run has the raw ones" : "each epoch's own episodes") +
    ". A mean hides the seed that failed, so the worst one stands at the end of each row; costs above the limit are coloured. Point at a heading or a number for what it is.";
  predictedVsRealised();
}

// Predicted cost changes of updates, and the changes that the next epoch measured.
function predictedVsRealised() {
  const shown = chosenTasks().map(t => [t, chosenLabels().filter(l => data.predicted_vs_realised[`${l},${t}`]).map(l => ({i: l, name: names[l], points: data.predicted_vs_realised[`${l},${t}`]}))]).filter(([, series]) => series.length);
  at("predicted").replaceChildren();
  at("predicted-note").hidden = !shown.length;
  for (const [t, series] of shown) {
    const host = make("div", {className: "card"});
    at("predicted").append(host);
    cloudChart(host, tasks[t].short, series, "predicted change of the cost", "realised, one epoch later");
  }
}

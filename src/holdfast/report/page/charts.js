// SPDX-License-Identifier: Apache-2.0
// Small SVG charts: bars with intervals, lines with bands, a scatter. Each draws into `host` anew.
const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];
const COLOURS = 16;
let tint = i => i; // the page gives complete algorithms the first colours
const colour = i => `var(--c${tint(i) % COLOURS})`, dash = i => DASHES[Math.floor(tint(i) / COLOURS) % 4];

function draw(tag, attributes, parent, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== "") node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

function format(v) {
  if (v === null || v === undefined || !isFinite(v)) return "–";
  const a = Math.abs(v), sign = v < 0 ? "−" : "";
  if (a >= 1e6) return sign + +(a / 1e6).toPrecision(3) + "M";
  if (a >= 1e4) return sign + (a / 1e3).toFixed(a < 1e5 ? 1 : 0) + "k";
  return sign + (a >= 1000 ? a.toFixed(0) : a >= 10 ? a.toFixed(1) : a >= 0.995 || a === 0 ? a.toFixed(2) : a.toPrecision(2));
}
const plain = v => { const a = Math.abs(v), s = v < 0 ? "−" : ""; return a >= 1e6 ? s + +(a / 1e6).toFixed(2) + "M" : a >= 1e4 ? s + +(a / 1e3).toFixed(1) + "k" : s + +a.toFixed(4); };
const triple = ([v, low, high]) => `${format(v)} [${format(low)}, ${format(high)}]`;

function ticks(low, high, count) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find(m => m * power >= raw * 0.999) * power, found = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) found.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return found;
}

// The largest value worth showing: up to a quarter of the values may be cut off, but only where a
// wide gap (threefold) sets them apart, since a single wild one would flatten all others.
function reach(values) {
  const sorted = values.filter(isFinite).sort((a, b) => b - a), most = Math.floor(sorted.length / 4);
  if (!sorted.length) return 1;
  for (let k = most; k > 0; k--) if (sorted[k] > 0 && sorted[k - 1] > 3 * sorted[k]) return sorted[k] * 1.12;
  return sorted[0];
}

const tip = document.getElementById("tip");
function showTip(event, title, rows) {
  tip.replaceChildren(make("b", {textContent: title}));
  const table = make("table");
  for (const [i, name, value] of rows) {
    const mark = make("td"), dot = make("span", {className: "dot"});
    if (i !== null) { dot.style.background = colour(i); mark.append(dot); }
    mark.append(name);
    table.append(make("tr", {}, mark, make("td", {textContent: value})));
  }
  tip.append(table);
  tip.hidden = false;
  const box = tip.getBoundingClientRect(), x = event.clientX + 16, y = event.clientY + 14;
  tip.style.left = Math.max(4, x + box.width > innerWidth - 6 ? event.clientX - box.width - 14 : x) + "px";
  tip.style.top = Math.max(4, Math.min(y, innerHeight - box.height - 6)) + "px";
}
const hideTip = () => { tip.hidden = true; };

function canvas(host, height, label) {
  const width = Math.max(240, host.clientWidth - 30);
  const root = draw("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "chart"});
  host.append(root);
  root.addEventListener("pointerleave", hideTip);
  return [root, width];
}

// groups: [{title, tone, rows: [{i, name, est: [v, low, high]}]}]
function barChart(host, title, groups, {zero = 0, unsafe = false, domain = null, note = ""} = {}) {
  host.replaceChildren(make("h3", {textContent: title}));
  const rows = groups.flatMap(g => g.rows);
  if (!rows.length) { host.append(make("div", {className: "empty", textContent: "nothing chosen"})); return; }
  const longest = Math.max(...rows.map(r => r.name.length)), space = Math.max(150, 0.46 * Math.max(240, host.clientWidth - 30));
  const above = 14 + 6.6 * longest > space, each = above ? 40 : 23; // a name that does not fit beside its bar stands above it
  const height = 26 + groups.reduce((h, g) => h + (g.rows.length ? 22 + g.rows.length * each : 0), 0);
  const [root, width] = canvas(host, height, title);
  const left = above ? 16 : 14 + 6.6 * longest, right = width - 46, letters = Math.floor(width / 6.6);
  const high = domain ? domain[1] : Math.max(zero, reach(rows.map(r => r.est[2]))), low = domain ? domain[0] : Math.min(zero, ...rows.map(r => r.est[1]));
  const span = high - low || 1, x = v => left + Math.max(0, Math.min(1.02, (v - low) / span)) * (right - left);
  if (unsafe) draw("rect", {x: x(zero), y: 0, width: Math.max(0, right - x(zero)), height: height - 22, style: "fill:var(--shade)"}, root);
  for (const v of ticks(low, high, Math.max(2, (right - left) / 48))) {
    draw("line", {x1: x(v), x2: x(v), y1: 0, y2: height - 22, class: "gridline"}, root);
    draw("text", {x: x(v), y: height - 8, "text-anchor": "middle"}, root, plain(v));
  }
  draw("line", {x1: x(zero), x2: x(zero), y1: 0, y2: height - 22, class: unsafe ? "limit" : "axis"}, root);
  let y = 0;
  for (const group of groups) {
    if (!group.rows.length) continue;
    if (group.title) draw("text", {x: 0, y: y + 15, class: "group", style: `fill:var(--${group.tone})`}, root, group.title);
    y += 22;
    for (const row of group.rows) {
      const [v, a, b] = row.est, middle = y + each - 12, beyond = v > high, line = draw("g", {}, root);
      draw("rect", {x: 0, y, width, height: each, fill: "transparent"}, line);
      const name = row.name.length > letters ? row.name.slice(0, letters - 1) + "…" : row.name;
      draw("text", above ? {x: 0, y: y + 13, class: "strong"} : {x: left - 8, y: middle + 4, "text-anchor": "end", class: "strong"}, line, name);
      draw("rect", {x: Math.min(x(zero), x(v)), y: middle - 7, width: Math.max(1, Math.abs(x(v) - x(zero))), height: 14, rx: 2, style: `fill:${colour(row.i)};opacity:${{unsafe: 0.45, undecided: 0.65, partly: 0.75}[group.tone] ?? 0.85}`}, line);
      if (!beyond) {
        draw("line", {x1: x(a), x2: x(b), y1: middle, y2: middle, style: "stroke:var(--ink);stroke-width:1.5"}, line);
        for (const end of [a, b]) if (end <= high) draw("line", {x1: x(end), x2: x(end), y1: middle - 4, y2: middle + 4, style: "stroke:var(--ink);stroke-width:1.5"}, line);
      }
      draw("text", {x: width, y: middle + 4, "text-anchor": "end", class: "strong"}, line, format(v) + (beyond ? " ▸" : ""));
      line.addEventListener("pointermove", event => showTip(event, row.name, [[row.i, title, triple(row.est)], ...(row.more || [])]));
      y += each;
    }
  }
  if (note) host.append(make("p", {className: "note", textContent: note}));
}

// series: [{i, name, x, y, low, high}]; refs: [[y, text]]
function lineChart(host, title, series, {refs = [], marks = [], band = true, log = false, xText = plain, top = null, bottom = null, height = 200, xTitle = "", from = null} = {}) {
  host.replaceChildren(make("h3", {textContent: title}));
  const shown = series.filter(s => s.y.some(isFinite));
  if (!shown.length) { host.append(make("div", {className: "empty", textContent: "no data for this choice"})); return; }
  const [root, width] = canvas(host, height, title);
  const scale = v => log ? Math.log10(1 + Math.max(0, v)) : v;
  const upper = s => band && s.high ? s.high : s.y, lower = s => band && s.low ? s.low : s.y; // the worst seed is on the chart
  const peaks = shown.map(s => Math.max(...upper(s).filter(isFinite))), floors = shown.map(s => Math.min(...lower(s).filter(isFinite)));
  const most = Math.max(0, log ? Math.max(...peaks) : reach(peaks), ...refs.map(r => r[0] * 1.15)), least = -reach(floors.map(v => -v));
  const yTop = scale(top ?? most + 0.04 * (most - Math.min(0, least))) || 1, yLow = scale(bottom ?? Math.min(0, least));
  const xs = shown.flatMap(s => [s.x[0], s.x[s.x.length - 1]]), xLow = from ?? Math.min(...xs), xHigh = Math.max(...xs);
  const left = 44, right = width - 10, base = height - (xTitle ? 34 : 22), up = 8;
  const X = v => left + (v - xLow) / (xHigh - xLow || 1) * (right - left), Y = v => base - (scale(v) - yLow) / (yTop - yLow || 1) * (base - up);
  const levels = log ? [0, 1, 10, 100, 1e3, 1e4, 1e5, 1e6].filter(v => scale(v) <= yTop) : ticks(yLow, yTop, 4);
  for (const v of levels) {
    draw("line", {x1: left, x2: right, y1: Y(v), y2: Y(v), class: "gridline"}, root);
    draw("text", {x: left - 6, y: Y(v) + 4, "text-anchor": "end"}, root, plain(v));
  }
  for (const v of ticks(xLow, xHigh, Math.max(2, (right - left) / 62))) draw("text", {x: X(v), y: base + 16, "text-anchor": "middle"}, root, xText(v));
  if (xTitle) draw("text", {x: (left + right) / 2, y: height - 4, "text-anchor": "middle"}, root, xTitle);
  const id = "clip" + (lineChart.count = (lineChart.count || 0) + 1);
  draw("rect", {x: left, y: up, width: right - left, height: base - up}, draw("clipPath", {id}, draw("defs", {}, root)));
  const plot = draw("g", {"clip-path": `url(#${id})`, class: "plot"}, root);
  const path = (s, values, back) => { // pieces between missing values
    let text = "", pen = false;
    const order = back ? [...s.x.keys()].reverse() : s.x.keys();
    for (const k of order) { if (isFinite(values[k])) { text += `${pen ? "L" : back ? "L" : "M"}${X(s.x[k]).toFixed(1)} ${Y(values[k]).toFixed(1)}`; pen = true; } else if (!back) pen = false; }
    return text;
  };
  if (band) for (const s of shown) if (s.low) draw("path", {d: path(s, s.high, false) + path(s, s.low, true) + "Z", "data-i": s.i, style: `fill:${colour(s.i)};opacity:${shown.length > 7 ? 0.07 : 0.14}`}, plot);
  for (const s of shown) draw("path", {d: path(s, s.y, false), fill: "none", "data-i": s.i, "stroke-dasharray": dash(s.i), style: `stroke:${colour(s.i)};stroke-width:1.7;stroke-linejoin:round`}, plot);
  // A value between two missing ones, such as that of the only epoch, is no line.
  for (const s of shown) s.y.forEach((v, k) => { if (isFinite(v) && !isFinite(s.y[k - 1]) && !isFinite(s.y[k + 1])) draw("circle", {cx: X(s.x[k]).toFixed(1), cy: Y(v).toFixed(1), r: 3, class: "single", "data-i": s.i, style: `fill:${colour(s.i)}`}, plot); });
  // Evaluations while training: a filled dot was safe by its own fresh episodes.
  for (const m of marks) if (m.y !== null) draw("title", {}, draw("circle", {cx: X(m.x), cy: Y(m.y), r: 3, class: "evaluated", style: `stroke:${colour(m.i)};fill:${m.safe ? colour(m.i) : "var(--card, white)"}`}, plot), `fresh episodes: ${format(m.y)}${m.safe ? ", safe" : ""}`);
  // What a wild seed would flatten the others for is cut off, and marked at the frame.
  const cut = (s, values, beyond, edge, d) => {
    const worst = values.reduce((best, v, k) => isFinite(v) && beyond(scale(v)) && (best < 0 || Math.abs(v) > Math.abs(values[best])) ? k : best, -1);
    if (worst >= 0) draw("title", {}, draw("path", {d: `M${X(s.x[worst]).toFixed(1)} ${edge}${d}z`, class: "off", style: `fill:${colour(s.i)}`}, root), `${s.name}: off the chart, ${format(values[worst])}`);
  };
  for (const s of shown) {
    cut(s, upper(s), v => v > yTop * 1.0001, up - 7, "l-4 6h8");
    cut(s, lower(s), v => v < yLow - 1e-4 * Math.abs(yTop - yLow), base + 7, "l-4 -6h8");
  }
  for (const [v, text] of refs) {
    draw("line", {x1: left, x2: right, y1: Y(v), y2: Y(v), class: "limit"}, root);
    draw("text", {x: right, y: Y(v) - 4, "text-anchor": "end", class: "limit-text"}, root, text);
  }
  draw("line", {x1: left, x2: right, y1: base, y2: base, class: "axis"}, root);
  const cross = draw("line", {y1: up, y2: base, class: "axis", visibility: "hidden"}, root), dots = draw("g", {}, root);
  root.addEventListener("pointermove", event => {
    const box = root.getBoundingClientRect(), at = xLow + (event.clientX - box.left - left) / (right - left) * (xHigh - xLow);
    const near = s => { let best = 0; s.x.forEach((v, k) => { if (Math.abs(v - at) < Math.abs(s.x[best] - at)) best = k; }); return best; };
    const rows = shown.map(s => [s, near(s)]).filter(([s, k]) => isFinite(s.y[k])).sort((a, b) => b[0].y[b[1]] - a[0].y[a[1]]);
    if (!rows.length) return;
    const where = X(rows[0][0].x[rows[0][1]]);
    cross.setAttribute("x1", where); cross.setAttribute("x2", where); cross.setAttribute("visibility", "visible");
    dots.replaceChildren();
    for (const [s, k] of rows) if (Y(s.y[k]) >= up) draw("circle", {cx: X(s.x[k]), cy: Y(s.y[k]), r: 3, style: `fill:${colour(s.i)}`}, dots);
    showTip(event, `${title} at ${xText(rows[0][0].x[rows[0][1]])}`, rows.map(([s, k]) => [s.i, s.name, s.low ? triple([s.y[k], s.low[k], s.high[k]]) : format(s.y[k])]));
  });
  root.addEventListener("pointerleave", () => { cross.setAttribute("visibility", "hidden"); dots.replaceChildren(); });
}

// points: [{i, name, x: [v, low, high], y: [...], safe, label}]
function scatterChart(host, points, xTitle, yTitle) {
  host.replaceChildren();
  if (!points.length) { host.append(make("div", {className: "empty", textContent: "nothing chosen"})); return; }
  const height = 400, [root, width] = canvas(host, height, "Return against regret");
  const tiny = 1e-3, scale = v => Math.log10(Math.max(v, tiny)), left = 46, right = width - 14, base = height - 44, up = 12;
  const lows = points.map(p => scale(p.x[1])), highs = points.map(p => scale(p.x[2]));
  const xLow = Math.min(...lows) - 0.08, xHigh = Math.max(...highs) + 0.12;
  const yMin = Math.min(...points.map(p => p.y[1])), yMax = Math.max(...points.map(p => p.y[2])), pad = (yMax - yMin || 1) * 0.1;
  const yLow = yMin - pad, yHigh = yMax + pad;
  const X = v => left + (scale(v) - xLow) / (xHigh - xLow || 1) * (right - left), Y = v => base - (v - yLow) / (yHigh - yLow || 1) * (base - up);
  for (const v of ticks(yLow, yHigh, 5)) {
    draw("line", {x1: left, x2: right, y1: Y(v), y2: Y(v), class: "gridline"}, root);
    draw("text", {x: left - 6, y: Y(v) + 4, "text-anchor": "end"}, root, plain(v));
  }
  const steps = (right - left) / (xHigh - xLow) > 130 ? [1, 2, 5] : [1];
  for (let e = Math.floor(xLow); e <= xHigh; e++) for (const m of steps) {
    const v = m * 10 ** e;
    if (v < 0.99 * tiny || scale(v) < xLow || scale(v) > xHigh) continue;
    draw("line", {x1: X(v), x2: X(v), y1: up, y2: base, class: "gridline"}, root);
    draw("text", {x: X(v), y: base + 16, "text-anchor": "middle"}, root, v <= tiny ? "≤ " + plain(v) : plain(v));
  }
  draw("text", {x: (left + right) / 2, y: height - 6, "text-anchor": "middle"}, root, xTitle);
  draw("text", {x: 12, y: (up + base) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(up + base) / 2})`}, root, yTitle);
  const front = points.filter(p => p.safe && !points.some(q => q.safe && q !== p && q.x[0] <= p.x[0] && q.y[0] >= p.y[0])).sort((a, b) => a.x[0] - b.x[0]);
  if (front.length > 1) draw("path", {d: front.map((p, k) => `${k ? "L" : "M"}${X(p.x[0])} ${Y(p.y[0])}`).join(""), fill: "none", style: "stroke:var(--safe);stroke-width:1.5;stroke-dasharray:3 3"}, root);
  // Each name goes where it covers the fewest markers and names placed before.
  const taken = points.map(p => [X(p.x[0]) - 7, Y(p.y[0]) - 7, 14, 14]);
  const cover = (x, y, w, h) => taken.reduce((n, [a, b, c, d]) => n + Math.max(0, Math.min(x + w, a + c) - Math.max(x, a)) * Math.max(0, Math.min(y + h, b + d) - Math.max(y, b)), 0) + (x < left || x + w > right ? 1e4 : 0);
  for (const p of [...points].sort((a, b) => Y(a.y[0]) - Y(b.y[0]))) {
    const g = draw("g", {}, root), [x, y] = [X(p.x[0]), Y(p.y[0])], c = colour(p.i);
    draw("line", {x1: X(p.x[1]), x2: X(p.x[2]), y1: y, y2: y, style: `stroke:${c};opacity:.5`}, g);
    draw("line", {x1: x, x2: x, y1: Y(p.y[1]), y2: Y(p.y[2]), style: `stroke:${c};opacity:.5`}, g);
    draw("circle", {cx: x, cy: y, r: 6, style: `fill:${p.safe ? c : "var(--card)"};stroke:${c};stroke-width:2`}, g);
    const size = 6.8 * p.name.length, spots = [];
    for (const dy of [-16, 3, -30, 18, -44, 32]) for (const dx of [9, -9 - size, -size / 2]) spots.push([x + dx, y + dy]);
    const [tx, ty] = spots.map(([a, b], k) => [a, b, cover(a, b, size, 13) + k]).sort((a, b) => a[2] - b[2])[0];
    taken.push([tx, ty, size, 13]);
    draw("text", {x: tx, y: ty + 11, class: "strong halo"}, g, p.name);
    g.addEventListener("pointermove", event => showTip(event, p.name, [[p.i, "return", triple(p.y)], [p.i, "regret", triple(p.x)], [null, p.label, ""]]));
  }
}

// series: [{i, name, points: [[x, y], …]}]; both axes alike, so that the diagonal is x = y.
function cloudChart(host, title, series, xTitle, yTitle) {
  host.replaceChildren(make("h3", {textContent: title}));
  const height = 240, [root, width] = canvas(host, height, `${title}: ${yTitle} against ${xTitle}`);
  const sizes = series.flatMap(s => s.points.flat()).map(Math.abs).sort((a, b) => a - b);
  const most = 1.08 * percentile(sizes, 0.99) || 1, left = 44, right = width - 10, base = height - 34, up = 8;
  const X = v => left + (v + most) / (2 * most) * (right - left), Y = v => base - (v + most) / (2 * most) * (base - up);
  const inside = v => Math.max(-most, Math.min(most, v)); // the last hundredth lies on the frame
  for (const v of ticks(-most, most, 4)) {
    draw("line", {x1: left, x2: right, y1: Y(v), y2: Y(v), class: "gridline"}, root);
    draw("text", {x: left - 6, y: Y(v) + 4, "text-anchor": "end"}, root, plain(v));
  }
  for (const v of ticks(-most, most, Math.max(2, (right - left) / 62))) draw("text", {x: X(v), y: base + 15, "text-anchor": "middle"}, root, plain(v));
  draw("text", {x: (left + right) / 2, y: height - 3, "text-anchor": "middle"}, root, xTitle);
  draw("line", {x1: left, x2: right, y1: Y(0), y2: Y(0), class: "axis"}, root);
  draw("line", {x1: X(0), x2: X(0), y1: up, y2: base, class: "axis"}, root);
  draw("line", {x1: X(-most), x2: X(most), y1: Y(-most), y2: Y(most), class: "limit diagonal"}, root);
  const plot = draw("g", {class: "plot"}, root);
  for (const s of series) for (const [x, y] of s.points) draw("circle", {"data-i": s.i, cx: X(inside(x)).toFixed(1), cy: Y(inside(y)).toFixed(1), r: 2.2, style: `fill:${colour(s.i)};opacity:.45`}, plot);
  draw("text", {x: left + 4, y: up + 10, class: "halo"}, root, yTitle);
  root.addEventListener("pointermove", event => showTip(event, title, series.map(s => [s.i, s.name, `${s.points.length} changes drawn`])));
}

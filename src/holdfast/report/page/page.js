// SPDX-License-Identifier: Apache-2.0
// The page: state (what is chosen), one function per section, and the controls that change state.
const data = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);
const names = data.labels, tasks = data.tasks;
const final = (l, t) => data.finals[`${l},${t}`];
// Where final values are taken: at the steps that all have in common, and where longer runs end.
const ENDS = [
  {steps: null, estimates: data.estimates, seeds: key => data.finals[key].seeds.length, bold: new Set(data.bold), boxed: new Set(data.boxed)},
  ...data.ends.map(end => ({...end, seeds: key => end.seeds[key], bold: new Set(end.bold), boxed: new Set(end.boxed)})),
];
const METRICS = {reward: "Return", cost: "Cost", regret: "Cost regret"};
// With several constraints the cost is that of the worst, in units of its limit; regrets add up.
const several = t => tasks[t].shared > 1;
const heading = (metric, t) => metric === "cost" && several(t) ? `Cost / limit, the worst of ${tasks[t].shared} constraints` : metric === "regret" && several(t) ? `Cost regret, the sum over ${tasks[t].shared} constraints` : METRICS[metric];
const MANY = 6; // methods beyond which raw lines are a thicket
const remember = "holdfast-report:" + data.title + names.join();

const state = {
  labels: new Set(names.keys()), tasks: new Set(tasks.keys()), order: "regret", band: true, smooth: names.length > MANY, log: false,
  metric: "all", sort: {}, reference: 0, theme: null,
};
// Own runs beside published ones: first the tasks that one's own are on.
const own = data.own.length < names.length ? [...tasks.keys()].filter(t => data.own.some(l => final(l, t))) : [];
if (own.length) state.tasks = new Set(own);
const withdrawn = new Set(data.withdrawn); // listed, but no part of any comparison
const covered = l => !withdrawn.has(l) && [...state.tasks].every(t => final(l, t));
// Where no method has results on all of these, first the tasks of one that has most.
if (!names.some((_, l) => covered(l))) {
  const on = l => withdrawn.has(l) ? [] : [...state.tasks].filter(t => final(l, t));
  const most = [...names.keys()].map(on).reduce((a, b) => b.length > a.length ? b : a, []);
  if (most.length) state.tasks = new Set(most);
}
const ranked = [...names.keys()].sort((a, b) => covered(b) - covered(a) || a - b), place = new Map(ranked.map((l, k) => [l, k]));
tint = l => place.get(l);
if (names.length > 10 && names.some((_, l) => covered(l))) for (const l of names.keys()) if (!covered(l) && tasks.some((_, t) => final(l, t))) state.labels.delete(l);

function restore() {
  try {
    const saved = JSON.parse(sessionStorage.getItem(remember) || "null");
    if (saved) Object.assign(state, saved, {labels: new Set(saved.labels), tasks: new Set(saved.tasks)});
  } catch { /* a private window keeps nothing */ }
}
function save() {
  try { sessionStorage.setItem(remember, JSON.stringify({...state, labels: [...state.labels], tasks: [...state.tasks]})); } catch { /* same */ }
}

const chosenLabels = () => [...state.labels].sort((a, b) => a - b), chosenTasks = () => [...state.tasks].sort((a, b) => a - b);
const complete = () => chosenTasks().length ? chosenLabels().filter(l => !withdrawn.has(l) && chosenTasks().every(t => final(l, t))) : [];

// Normalised scores of one label, one array per chosen task.
function scores(l, metric) {
  return chosenTasks().map(t => {
    const unit = metric === "excess" ? 1 : tasks[t].unit[metric];
    return final(l, t)[metric].map(v => v / unit);
  });
}

let cache = new Map();
function aggregate(l, metric) {
  if (state.tasks.size === tasks.length) return data.aggregate[l][metric];
  const key = [l, metric, chosenTasks().join()].join("|");
  if (!cache.has(key)) cache.set(key, bootstrap(scores(l, metric)));
  return cache.get(key);
}

// Whose value is 1: the paper's baseline where it has one, otherwise the largest on the task.
const BASELINES = {reward: "ppo", regret: "cpo"};
function unitText(kind) {
  const by = [...new Set(chosenTasks().map(t => tasks[t].unit[kind + "By"]))];
  const base = by.filter(name => name.split(" (")[0].toLowerCase() === BASELINES[kind]);
  const whose = (base.length === 1 ? base[0] : BASELINES[kind]).replace(/^[^ ]+/, name => name.toUpperCase());
  if (by.length === 1) return base.length ? `${whose}’s` : `${by[0]}’s, the largest`;
  return base.length ? `${whose}’s; where that is 0 or missing, the largest` : "the largest of each task";
}

// From one seed nothing is decided, nor where the interval reaches across the limit.
const TONES = {safe: "PROBABLY SAFE", partly: "SAFE ON SOME TASKS", undecided: "UNDECIDED", unsafe: "PROBABLY UNSAFE"};
function tone(l) {
  const [, low, high] = aggregate(l, "excess"), alone = chosenTasks().some(t => final(l, t).seeds.length < 2);
  return alone ? "undecided" : high <= 0 ? (broken(l).length ? "partly" : "safe") : low > 0 ? "unsafe" : "undecided";
}

// Tasks on which the final cost is above the limit, though the mean over all may be below.
const broken = l => chosenTasks().filter(t => iqm(final(l, t).excess) > 0);
const kept = l => `${state.tasks.size - broken(l).length} of ${state.tasks.size}`;
const partly = l => `${names[l]} is safe on ${kept(l)} tasks and above the limit on ${broken(l).map(t => tasks[t].short).join(", ")}`;

// One method is compared with its limit, task by task.
function alone(hosts, l, left) {
  const bars = value => [{title: "", tone: tone(l), rows: chosenTasks().map(t => ({i: l, name: tasks[t].short, est: value(t)}))}];
  const thrice = v => [v, v, v], held = t => data.held[`${l},${t}`];
  barChart(hosts[0], "Final cost relative to the limit", bars(t => data.estimates[`${l},${t}`].excess), {unsafe: true});
  barChart(hosts[1], "… of the worst seed", bars(t => thrice(Math.max(...final(l, t).excess))), {unsafe: true});
  barChart(hosts[2], "Share of epochs above the limit", bars(t => thrice(held(t).rate)));
  at("aggregate-note").textContent = `${names[l]} is the only method with results on every chosen task, so it is shown beside its limit, which its final cost keeps on ${kept(l)} tasks${broken(l).length ? ` and exceeds on ${broken(l).map(t => tasks[t].short).join(", ")}` : ""}. Interquartile means over seeds with 95 % bootstrap intervals.` +
    (left.length ? ` Without results on every chosen task, hence not here: ${left.join(", ")}.` : "");
}

function overview() {
  const shown = complete(), left = chosenLabels().filter(l => !shown.includes(l) && !withdrawn.has(l)).map(l => names[l]);
  const rows = (metric, group) => shown.filter(l => tone(l) === group)
    .sort((a, b) => (state.order === "reward" ? -1 : 1) * (aggregate(a, state.order)[0] - aggregate(b, state.order)[0]))
    .map(l => ({i: l, name: names[l] + (group === "partly" ? `, ${kept(l)}` : ""), est: aggregate(l, metric), more: [[null, "runs", chosenTasks().reduce((n, t) => n + final(l, t).seeds.length, 0)], [null, "tasks within the limit", kept(l)]]}));
  const groups = metric => Object.entries(TONES).map(([key, title]) => ({title, tone: key, rows: rows(metric, key)}));
  const hosts = ["excess", "reward", "regret"].map(() => make("div", {className: "card"}));
  at("bars").replaceChildren(...hosts);
  // A comparison needs several methods.
  for (const id of ["pareto", "profiles", "improvement"]) for (const node of [at(id), document.querySelector(`nav a[href="#${id}"]`)]) node.hidden = shown.length < 2;
  at("order").parentElement.hidden = shown.length < 2;
  if (shown.length === 1) { alone(hosts, shown[0], left); return; }
  barChart(hosts[0], "Final cost relative to the limit", groups("excess"), {unsafe: true});
  barChart(hosts[1], `Return, relative to ${unitText("reward")}`, groups("reward"));
  barChart(hosts[2], `Cost regret, relative to ${unitText("regret")}`, groups("regret"));
  const whole = state.tasks.size === tasks.length;
  at("aggregate-note").textContent = "Interquartile mean over seeds and chosen tasks with its 95 % stratified bootstrap interval" +
    (whole ? "" : " (recomputed here for this choice, 2,000 resamples)") + ". Probably safe: the whole interval of the final cost lies at or below the limit; probably unsafe: all of it above; undecided: across it, or from a single seed. Probably safe also needs that no task is above its limit." +
    shown.filter(l => tone(l) === "partly").map(l => ` ${partly(l)}.`).join("") +
    (shown.some(l => chosenTasks().some(t => final(l, t).seeds.length < 2)) ? " Some cells have a single seed, which does not show chance: no method with such a cell is called safe or unsafe." : "") +
    (left.length ? ` Without results on every chosen task, hence not here: ${left.join(", ")}.` : "") +
    (withdrawn.size ? ` Withdrawn by their authors, hence in tables and curves only: ${[...withdrawn].map(l => names[l]).join(", ")}.` : "");
  scatterChart(at("scatter"), shown.map(l => ({i: l, name: names[l], x: aggregate(l, "regret"), y: aggregate(l, "reward"), safe: tone(l) === "safe", label: TONES[tone(l)].toLowerCase()})), "normalised cost regret", "normalised return");
}

const unpack = text => { const raw = atob(text), bytes = new Uint8Array(raw.length); for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i); return new Float32Array(bytes.buffer); };
const unpacked = new Map();
function curve(l, t, metric) {
  const key = `${l},${t}`, packed = data.curves[key];
  if (!packed) return null;
  if (!unpacked.has(key + metric)) {
    const x = [...unpack(packed.steps)], all = [...unpack(packed[metric])], n = x.length;
    unpacked.set(key + metric, {i: l, name: names[l], x, y: all.slice(0, n), low: all.slice(n, 2 * n), high: all.slice(2 * n)});
  }
  return unpacked.get(key + metric);
}

// For the eye only: a moving mean over nine points; tables and statistics never see it.
function smoothed(series) {
  const y = series.y.map((v, k) => {
    const near = series.y.slice(Math.max(0, k - 4), k + 5).filter(isFinite);
    return isFinite(v) ? near.reduce((a, b) => a + b, 0) / near.length : v;
  });
  return {...series, y};
}

function learning() {
  at("multiples").replaceChildren();
  for (const t of chosenTasks()) {
    const grid = make("div", {className: "grid three"});
    at("multiples").append(make("div", {className: "task"}, make("h3", {textContent: tasks[t].short, title: tasks[t].name}), grid));
    for (const metric of Object.keys(METRICS)) {
      const host = make("div", {className: "card"});
      grid.append(host);
      const logged = chosenLabels().map(l => curve(l, t, metric)).filter(Boolean);
      const series = state.smooth && metric !== "regret" ? logged.map(smoothed) : logged;
      const refs = metric === "cost" ? tasks[t].limits.map(b => [b, `limit ${plain(b)}`]) : [];
      const marks = metric === "regret" ? [] : chosenLabels().flatMap(l => (data.evaluated[`${l},${t}`] || []).map(([x, reward, cost, safe]) => ({i: l, x, y: metric === "cost" ? cost : reward, safe})));
      lineChart(host, heading(metric, t), series, {refs, marks, band: state.band, log: state.log && metric === "regret", from: 0});
    }
  }
  if (!state.tasks.size) at("multiples").append(make("div", {className: "empty", textContent: "no task chosen"}));
}

// A sortable table. columns: [{title, value(row) -> number|string, cell(row) -> Node|string, text}]
function sortable(host, id, columns, rows) {
  const sort = state.sort[id];
  if (sort && columns[sort.column]) {
    const value = columns[sort.column].value, order = v => v === null || v === undefined || Number.isNaN(v);
    rows = [...rows].sort((a, b) => { const [x, y] = [value(a), value(b)]; return order(x) - order(y) || sort.sign * (typeof x === "string" ? x.localeCompare(y) : x - y); });
  }
  const head = make("tr"), body = make("tbody");
  columns.forEach((c, k) => {
    const arrow = sort && sort.column === k ? (sort.sign > 0 ? " ▲" : " ▼") : "";
    const button = make("button", {textContent: c.title + arrow, title: c.help ?? "sort", onclick: () => {
      const first = typeof c.value(rows[0] ?? {}) === "string" ? 1 : -1;
      state.sort[id] = sort && sort.column === k ? {column: k, sign: -sort.sign} : {column: k, sign: first};
      update();
    }});
    const cell = make("th", {scope: "col", className: c.text ? "text" : ""}, button);
    if (arrow) cell.setAttribute("aria-sort", sort.sign > 0 ? "ascending" : "descending");
    head.append(cell);
  });
  for (const row of rows) {
    const line = make("tr");
    columns.forEach((c, k) => line.append(make(k ? "td" : "th", {className: c.text ? "text" : ""}, c.cell ? c.cell(row) : String(c.value(row)))));
    body.append(line);
  }
  host.replaceChildren(rows.length ? make("table", {}, make("thead", {}, head), body) : make("div", {className: "empty", textContent: "nothing chosen"}));
}

const swatch = l => { const dot = make("span", {className: "dot"}); dot.style.background = colour(l); return dot; };
const named = {title: "Algorithm", value: l => names[l], cell: l => make("span", {}, swatch(l), names[l])};

function finalTable() {
  const metrics = state.metric === "all" ? Object.keys(METRICS) : [state.metric];
  at("metric").replaceChildren(...[["all", "All three"], ...Object.entries(METRICS)].map(([key, text]) => {
    const button = make("button", {className: "segment", textContent: text, onclick: () => { state.metric = key; update(); }});
    button.setAttribute("aria-pressed", state.metric === key);
    return button;
  }));
  const cell = ({l, end}, t) => {
    const key = `${l},${t}`, found = end.estimates[key], stack = make("div");
    if (!found) return "–";
    for (const m of metrics) {
      const [v, low, high] = found[m], value = make("span", {textContent: one(v)});
      if (m === "reward" && end.bold.has(key)) value.className = "best";
      if (m === "regret" && end.boxed.has(key)) value.className = "box";
      const part = m === "cost" && several(t), text = part ? share : one;
      if (part) value.textContent = share(v);
      if (m === "cost" && tasks[t].limits.length === 1 && +v.toFixed(part ? 3 : 1) >= tasks[t].limits[0]) value.className = "over";
      const spread = end.seeds(key) > 1 ? `[${text(low)}, ${text(high)}]` : "one seed";
      stack.append(make("div", {}, value, make("span", {className: "ci", textContent: spread})));
    }
    return stack;
  };
  const columns = chosenTasks().map(t => ({title: tasks[t].short, value: ({l, end}) => end.estimates[`${l},${t}`]?.[metrics[0]][0] ?? null, cell: row => cell(row, t)}));
  // Runs that went further than what all have in common stand once more, at their own end.
  const rows = chosenLabels().flatMap(l => ENDS.filter(end => chosenTasks().some(t => end.estimates[`${l},${t}`])).map(end => ({l, end, name: names[l] + (end.steps ? `, at ${plain(end.steps)}` : "")})));
  const who = {title: "Algorithm", value: row => row.name, cell: row => make("span", {}, swatch(row.l), row.name)};
  sortable(at("final"), "final", [who, ...columns], rows);
  at("table-note").textContent = (state.metric === "all" ? "Return, cost and cost regret, one below the other: " : "") +
    "IQM over seeds with the 95 % bootstrap interval. Bold: highest return; boxed: lowest regret, both only among methods whose cost, as printed, is below the limit; coloured costs are not. " +
    (chosenTasks().some(several) ? "With several constraints the cost is that of the worst one, in percent of its limit. " : "") +
    (rows.some(row => row.end.steps) ? "Runs that went further stand once more at their own end, marked “at …” and compared with those of that length only. " : "") +
    (data.smoothed ? "Regrets are of the smoothed costs, since not every run logs the raw ones. " : "Regrets are of the raw costs of each epoch. ") + "Click a task to sort.";
}
const one = v => v < 0 ? "−" + one(-v) : v >= 1e5 ? (v / 1e3).toFixed(0) + "k" : v >= 1e3 ? v.toFixed(0) : v < 0.05 && v > 0 ? v.toPrecision(1) : v.toFixed(1);

function profiles() {
  const shown = complete(), hosts = [make("div", {className: "card"}), make("div", {className: "card"})];
  at("profile").replaceChildren(...hosts);
  ["reward", "regret"].forEach((metric, k) => {
    const all = shown.map(l => [l, scores(l, metric).flat()]), pool = all.flatMap(([, v]) => v).sort((a, b) => a - b);
    if (!pool.length) { lineChart(hosts[k], METRICS[metric], []); return; }
    const high = percentile(pool, metric === "reward" ? 0.97 : 0.85) * 1.05, low = Math.min(0, percentile(pool, 0.02));
    const x = Array.from({length: 121}, (_, i) => low + (high - low) * i / 120);
    const series = all.map(([l, v]) => ({i: l, name: names[l], x, y: x.map(tau => v.filter(s => s > tau).length / v.length)}));
    lineChart(hosts[k], `Share of runs with normalised ${metric === "reward" ? "return" : "regret"} above τ`, series, {top: 1, bottom: 0, height: 280, xTitle: "τ"});
  });
}

function versus() {
  const shown = complete(), select = at("reference");
  if (!shown.includes(state.reference)) state.reference = shown[0] ?? 0;
  select.replaceChildren(...shown.map(l => make("option", {value: l, textContent: names[l], selected: l === state.reference})));
  const hosts = [make("div", {className: "card"}), make("div", {className: "card"})];
  at("versus").replaceChildren(...hosts);
  [["reward", 1, "Higher return than …"], ["regret", -1, "Lower cost regret than …"]].forEach(([metric, sign, title], k) => {
    const own = shown.length ? scores(state.reference, metric) : [];
    const rows = shown.filter(l => l !== state.reference).map(l => {
      const key = ["p", state.reference, l, metric, chosenTasks().join()].join("|");
      if (!cache.has(key)) cache.set(key, improvement(own, scores(l, metric), sign));
      return {i: l, name: names[l], est: cache.get(key)};
    }).sort((a, b) => b.est[0] - a.est[0]);
    barChart(hosts[k], title, [{title: "", tone: "safe", rows}], {zero: 0.5, domain: [0, 1]});
  });
}

function clock() {
  const time = (l, t, k) => data.timing[`${l},${t}`]?.[k] ?? null;
  const typical = k => l => { const all = chosenTasks().map(t => time(l, t, k)).filter(v => v !== null).sort((a, b) => a - b); return all.length ? percentile(all, 0.5) : null; };
  const cell = (l, t) => {
    const hours = time(l, t, 3), note = hours === null ? "" : hours < 1 ? `${format(60 * hours)} min` : `${format(hours)} h`;
    return make("span", {}, format(time(l, t, 2)), make("span", {className: "ci", textContent: note}));
  };
  sortable(at("timing"), "timing", [
    named, ...[["Rollout, s/epoch", 0], ["Update, s/epoch", 1]].map(([title, k]) => ({title, value: typical(k), cell: l => format(typical(k)(l))})),
    ...chosenTasks().map(t => ({title: tasks[t].short, value: l => time(l, t, 2), cell: l => cell(l, t)})),
  ], chosenLabels().filter(l => chosenTasks().some(t => time(l, t, 2) !== null)));
}

function settings() {
  const shown = chosenLabels();
  const rows = data.config.differ.filter(row => new Set(shown.map(l => row[l + 1])).size > 1);
  sortable(at("differ"), "differ", [{title: "Setting", value: r => r[0]}, ...shown.map(l => ({title: names[l], value: r => r[l + 1], text: true}))], rows);
  if (!rows.length) at("differ").replaceChildren(make("div", {className: "empty", textContent: "the shown algorithms share all recorded settings"}));
  sortable(at("same"), "same", [{title: "Setting", value: r => r[0]}, {title: "Value", value: r => r[1], text: true}], data.config.same);
}

const LONG = 8; // lines beyond which a list is folded
function gaps() {
  const list = (title, lines) => {
    if (!lines.length) return [];
    const all = make("ul", {}, ...lines.map(text => make("li", {textContent: text})));
    return lines.length > LONG ? [make("details", {}, make("summary", {textContent: `${title} (${lines.length})`}), all)] : [make("p", {textContent: `${title}:`}), all];
  };
  const lines = [...list("Not part of the statistics above, or missing", data.incomplete), ...list("Cells of suites that have not been started", data.waiting.map(text => text.replace(/: not started$/, ""))), ...list("Files that were not used", data.skipped)];
  at("incomplete").replaceChildren(...(lines.length ? lines : [make("p", {className: "good", textContent: "None: every cell has all its runs, each one finished."})]));
}

// Dim all lines and dots but those of one algorithm while its chip is pointed at.
const lamp = document.head.appendChild(document.createElement("style"));
function spotlight(l) { lamp.textContent = l === null ? "" : `.plot [data-i]:not([data-i="${l}"]){opacity:.06!important}`; }

function chips(host, items, set, key) {
  host.replaceChildren(...items.map(({index, text, title, swatch}) => {
    const chip = make("button", {className: "chip", title, onclick: () => { set.has(index) ? set.delete(index) : set.add(index); update(); }});
    chip.setAttribute("aria-pressed", set.has(index));
    chip.dataset[key] = index;
    if (swatch) {
      chip.onpointerenter = chip.onfocus = () => spotlight(set.has(index) ? index : null);
      chip.onpointerleave = chip.onblur = () => spotlight(null);
    }
    if (swatch) {
      const mark = draw("svg", {width: 18, height: 8, viewBox: "0 0 18 8", "aria-hidden": "true"});
      draw("line", {x1: 1, x2: 17, y1: 4, y2: 4, "stroke-dasharray": dash(index), style: `stroke:${colour(index)};stroke-width:3.5;stroke-linecap:butt`}, mark);
      chip.append(mark);
    }
    chip.append(text);
    return chip;
  }));
}

function update() {
  chips(at("labels"), names.map((text, index) => ({index, text, title: text, swatch: true})), state.labels, "label");
  chips(at("tasks"), tasks.map((task, index) => ({index, text: task.short, title: task.name})), state.tasks, "task");
  at("order").value = state.order; at("band").checked = state.band; at("smooth").checked = state.smooth; at("log").checked = state.log;
  if (state.theme) document.documentElement.dataset.theme = state.theme;
  hideTip(); spotlight(null);
  for (const section of [overview, learning, finalTable, holding, profiles, versus, clock, settings, gaps]) section();
  edges();
  save();
}

// Tables that go on beyond their right edge fade out there, and so do chips below the last row.
function edges() {
  const chips = document.querySelector("#legend .chips"), head = document.querySelector("nav").offsetHeight + at("legend").offsetHeight;
  chips.classList.toggle("more", chips.scrollHeight - chips.clientHeight - chips.scrollTop > 2);
  chips.onscroll = edges;
  document.documentElement.style.setProperty("--head", `${head + 10}px`);
  for (const host of document.querySelectorAll(".scroll")) {
    const more = host.scrollWidth - host.clientWidth - host.scrollLeft > 2;
    host.classList.toggle("more", more);
    if (host.scrollWidth > host.clientWidth) { host.tabIndex = 0; host.setAttribute("role", "region"); host.setAttribute("aria-label", "table, scrolls sideways"); }
    host.onscroll = edges;
  }
}

function lead() {
  const at10 = new Set(tasks.map(t => t.horizon)), steps = [...at10].map(plain).join(" / ");
  const many = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
  at("lead").textContent = `${many(names.length, "algorithm")} · ${many(tasks.length, "task")} · ${many(data.runs, "run")} (${data.done.toLocaleString("en")} finished) · ${many(data.rows, "epoch")}. Compared at ${steps} environment steps` +
    (data.done ? ", the most that all finished runs have in common." : ": nothing is finished yet, so this is provisional.");
  if (data.without_history.length) at("lead").textContent += ` Saved without the history of its training, hence nowhere below: ${data.without_history.join("; ")}.`;
  if (data.without_epoch.length) at("lead").textContent += ` Without a complete epoch, stopped or still running: ${data.without_epoch.join("; ")}.`;
  at("foot").textContent = "Made by Holdfast. Statistics: interquartile means, stratified bootstrap over seeds within tasks. This page needs no network.";
  if (data.watch) {
    at("live").hidden = false;
    at("live").textContent = `Following ${data.runs - data.done} unfinished runs; this page reloads every ${data.watch} s.`;
    setTimeout(() => location.reload(), 1000 * data.watch);
  }
}

const choose = (set, size, all) => () => { set.clear(); if (all) for (let i = 0; i < size; i++) set.add(i); update(); };
restore();
at("labels-all").onclick = choose(state.labels, names.length, true);
at("labels-none").onclick = choose(state.labels, names.length, false);
at("tasks-all").onclick = choose(state.tasks, tasks.length, true);
at("tasks-none").onclick = choose(state.tasks, tasks.length, false);
at("order").onchange = event => { state.order = event.target.value; update(); };
at("band").onchange = event => { state.band = event.target.checked; update(); };
at("smooth").onchange = event => { state.smooth = event.target.checked; update(); };
at("log").onchange = event => { state.log = event.target.checked; update(); };
at("held-more").ontoggle = edges;
at("reference").onchange = event => { state.reference = +event.target.value; update(); };
at("theme").onclick = () => {
  const dark = state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  state.theme = dark ? "light" : "dark";
  update();
};
let width = innerWidth, timer;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; clearTimeout(timer); timer = setTimeout(update, 120); } });
addEventListener("scroll", hideTip, {passive: true});
lead();
update();

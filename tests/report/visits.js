// SPDX-License-Identifier: Apache-2.0
// Visits to the report page: each uses some controls and notes what it finds.
const found = {errors: []};
addEventListener("error", event => found.errors.push(event.message));
const q = s => document.querySelector(s), all = s => [...document.querySelectorAll(s)];

function point(node, type) {
  const b = node.getBoundingClientRect();
  node.dispatchEvent(new PointerEvent(type, {clientX: b.left + b.width * 0.7, clientY: b.top + b.height / 2, bubbles: true}));
}

function set(selector, value) {
  const node = q(selector);
  if (node.type === "checkbox") node.checked = value; else node.value = value;
  node.dispatchEvent(new Event("change"));
}

const VISITS = {
  sections() {
    found.title = q("h1").textContent;
    found.lead = q("#lead").textContent;
    found.charts = Object.fromEntries(["bars", "scatter", "multiples", "profile", "versus"].map(id => [id, all(`#${id} svg`).length]));
    found.groups = all("#bars .card:first-child .group").map(n => n.textContent);
    found.units = all("#bars h3").map(n => n.textContent);
    found.rows = all("#final tbody tr").length;
    found.best = all("#final .best").length; found.box = all("#final .box").length; found.over = all("#final .over").length;
    found.held = all("#held tbody tr").length; found.heldOver = all("#held .over").length;
    found.limit = all("#multiples .limit").length; found.off = all("#multiples .off").map(n => n.textContent);
    const edge = (path, pick) => path.getAttribute("d").match(/-?[\d.]+ -?[\d.]+/g).map(pair => +pair.split(" ")[1]).reduce(pick);
    found.highest = all("#multiples .card:nth-child(2) .plot path").map(path => edge(path, (a, b) => Math.min(a, b)));
    found.gaps = q("#incomplete").textContent; found.folded = all("#incomplete details:not([open]) > summary").map(n => n.textContent);
    found.settings = q("#differ").textContent;
  },

  curves() {
    const edge = path => path.getAttribute("d").match(/-?[\d.]+ -?[\d.]+/g).map(pair => +pair.split(" ")[1]).reduce((a, b) => Math.min(a, b));
    found.highest = all("#multiples .card:nth-child(1) .plot path").map(edge);
    found.off = all("#multiples .off").map(n => n.textContent); found.dots = all("#multiples .single").length;
    found.titles = all("#multiples h3").map(n => n.textContent).slice(1);
    found.cell = q("#final tbody td div div:nth-child(2)").textContent;
    found.names = all("#bars .card:first-child g").map(g => g.querySelector("text").textContent);
    found.cut = all("#bars svg").filter(svg => [...svg.querySelectorAll("text")].some(n => { const [a, b] = [n.getBoundingClientRect(), svg.getBoundingClientRect()]; return a.left < b.left - 1 || a.right > b.right + 1; })).map(n => n.textContent);
    found.folded = !q("#held-more").open; found.headings = all("#held thead th").map(n => n.textContent);
  },

  screen() {
    document.documentElement.style.scrollBehavior = "auto";
    const inView = () => { const b = q("#legend").getBoundingClientRect(); return b.top >= 0 && b.bottom <= innerHeight && b.height < innerHeight / 4; };
    found.legend = ["#curves", "#profiles", "#gaps"].map(id => { q(id).scrollIntoView(); return inView() && q(id + " h2").getBoundingClientRect().top >= q("#legend").getBoundingClientRect().bottom; });
    found.groups = all("#bars .card:first-child .group").map(n => n.textContent);
    found.smooth = q("#smooth").checked;
    for (const id of ["final", "held"]) {
      const table = q("#" + id), wide = table.scrollWidth > table.clientWidth, more = table.classList.contains("more");
      table.scrollLeft = table.scrollWidth; table.onscroll();
      found[id] = [wide, more, table.tabIndex, table.classList.contains("more")];
    }
    found.lead = q("#lead").textContent;
    const box = q("#legend .chips").getBoundingClientRect();
    found.halved = all("#labels .chip").map(n => n.getBoundingClientRect()).filter(b => b.top < box.bottom - 1 && b.bottom > box.bottom + 1).length;
  },

  toggles() {
    const count = () => [all("#final tbody tr").length, all("#multiples .task").length, all("#bars .card:first-child g").length];
    found.start = count();
    q('[data-label="1"]').click(); found.without = count();
    q('[data-label="1"]').click(); found.again = count();
    q('[data-task="0"]').click(); found.one = count(); found.note = q("#aggregate-note").textContent;
    q("#labels-none").click(); found.none = count();
    q("#tasks-none").click(); found.nothing = count();
    q("#labels-all").click(); q("#tasks-all").click(); found.all = count();
  },

  statistics() {
    q('[data-task="1"]').click();
    found.bars = all("#bars .card").map(card => [...card.querySelectorAll("g")].map(g => [...g.querySelectorAll("text")].map(t => t.textContent)));
  },

  tables() {
    const names = () => all("#final tbody th").map(n => n.textContent), head = k => all("#final thead button")[k].click();
    head(1); found.down = names(); found.sorted = q("#final thead th:nth-child(2)").getAttribute("aria-sort");
    head(1); found.up = names();
    head(0); found.named = names();
    found.metrics = all("#metric button").map(b => { b.click(); return q("#final td").querySelectorAll(".ci").length; });
    all("#metric button")[3].click(); head(2); found.regret = names();
    all("#timing thead button").forEach(b => b.click()); all("#differ thead button").forEach(b => b.click());
    q("details").open = true; found.same = all("#same tbody tr").length;
  },

  controls() {
    const lines = () => all("#multiples .plot path").length;
    found.bands = lines(); set("#band", false); found.plain = lines(); set("#band", true);
    const drawn = () => q("#multiples .plot").innerHTML, rough = drawn();
    set("#smooth", true); found.smooth = drawn() !== rough; set("#smooth", false); found.rough = drawn() === rough;
    const scale = () => all("#multiples .card:nth-child(3) text").map(n => n.textContent).join();
    const linear = scale(); set("#log", true); found.log = scale() !== linear; set("#log", false);
    found.orders = ["regret", "excess", "reward"].map(v => { set("#order", v); return all("#bars .card:nth-child(2) g").map(g => g.querySelector("text").textContent).join(); });
    set("#reference", "2"); found.versus = all("#versus .card:first-child g").map(g => g.querySelector("text").textContent);
    const before = getComputedStyle(document.body).backgroundColor; q("#theme").click();
    found.themes = [before, getComputedStyle(document.body).backgroundColor]; q("#theme").click();
    found.back = getComputedStyle(document.body).backgroundColor;
    all("nav a").forEach(a => a.click());
    all("#labels .chip").forEach(c => { point(c, "pointerenter"); point(c, "pointerleave"); });
  },

  hovering() {
    const read = node => { point(node, "pointermove"); const text = q("#tip").hidden ? "" : q("#tip").textContent; return text; };
    found.curve = read(q("#multiples svg.chart")); found.dots = all("#multiples circle").length;
    point(q("#multiples svg.chart"), "pointerleave"); found.gone = q("#tip").hidden;
    found.bar = read(q("#bars g")); found.marker = read(q("#scatter g")); found.profile = read(q("#profile svg"));
  },

  chosen() {
    const on = kind => all(`[data-${kind}][aria-pressed="true"]`).map(n => n.textContent.trim());
    found.tasks = on("task"); found.labels = on("label"); found.bars = all("#bars .card:first-child g").map(g => g.querySelector("text").textContent);
  },

  alone() {
    found.bars = all("#bars .card").map(card => [card.querySelector("h3").textContent, ...[...card.querySelectorAll("g")].map(g => g.querySelector("text").textContent)]);
    const seen = s => all(s).filter(n => n.offsetParent !== null);
    found.sections = seen("main > section").map(n => n.id); found.links = seen("nav a").map(n => n.getAttribute("href").slice(1));
    found.lead = q("#lead").textContent; found.charts = all("#multiples svg").length; found.rows = all("#final tbody tr").length;
  },

  sizes() {
    found.width = document.documentElement.scrollWidth; found.inner = innerWidth;
  },
};

function make(name) {
  try { VISITS[name](); } catch (error) { found.errors.push(String(error.stack)); }
  const entries = performance.getEntriesByType("resource").map(e => e.name);
  found.fetched = entries.filter(address => !address.startsWith("data:"));
  document.body.setAttribute("data-found", JSON.stringify(found));
}

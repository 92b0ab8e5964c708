import { el, toRoot, toUi, byId, setText, badge, count, decimal, duration, memory, percent, query, setQuery } from "./frame.js";
import { poll } from "./poll.js";
import { DataTable } from "./table.js";

const nodeUrl = (id) => toUi(`nodes/${encodeURIComponent(id)}`);
const nodeJson = (id) => toRoot(`v1/nodes/${encodeURIComponent(id)}`);
const share = (used, all) => (all > 0 ? used / all : 0);

/** Each metric: the value of a node, the value of the darkest step (a number, or of all nodes), and its text. */
const METRICS = {
  use: { of: (n) => n.use, top: () => 1, text: percent },
  g: { of: (n) => share(n.g_cores, n.cores), top: () => 1, text: percent },
  q: { of: (n) => share(n.q_cores, n.cores), top: () => 1, text: percent },
  queue: { of: (n) => n.queue, top: (all) => Math.max(4, all), text: count },
  queued: { of: (n) => n.queued_s, top: (all) => Math.max(10, all), text: duration },
  shrunk: { of: (n) => n.shrunk, top: (all) => Math.max(4, all), text: count },
  age: { of: (n) => n.age_s ?? 0, top: (all) => Math.max(5, all), text: duration },
};
const STEPS = 7;

let metric = query().get("metric") in METRICS ? query().get("metric") : "use";
let nodes = [];
let current = null;
const cells = new Map();

const stateOf = (node) => (node.usable ? "usable" : node.draining ? "draining" : node.age_s === null ? "no sidecar" : "unusable");
const badgeOf = (node) => badge(stateOf(node), node.usable ? "ok" : node.draining || node.age_s === null ? "warn" : "bad");

const table = new DataTable(byId("list"), {
  label: "Nodes", rowKey: (node) => node.id, sort: "id", pageSize: 25,
  empty: "No node matches. Clear the filter, or look at Health if nodes are missing.",
  columns: [
    { key: "id", label: "Node", cell: (node) => el("a", { href: nodeUrl(node.id) }, node.id) },
    { key: "status", label: "State", value: (node) => `${stateOf(node)} ${node.state}`, cell: badgeOf, help: "Whether queueable containers may be placed there" },
    { key: "use", label: "Use", number: true, value: (node) => node.use, cell: (node) => percentLink(node), help: "The greater of the parts of cores and of memory in use" },
    { key: "g_cores", label: "G cores", number: true, json: (node) => nodeJson(node.id), value: (node) => node.g_cores },
    { key: "q_cores", label: "Q cores", number: true, json: (node) => nodeJson(node.id) },
    { key: "cores", label: "Cores", number: true, json: (node) => nodeJson(node.id) },
    { key: "free", label: "Free memory", number: true, value: (node) => node.free_mb, cell: (node) => link(node, memory(node.free_mb)) },
    { key: "queue", label: "Queued", number: true, json: (node) => nodeJson(node.id), help: "Containers in the node's queue" },
    { key: "queued", label: "Work queued", number: true, value: (node) => node.queued_s, cell: (node) => link(node, duration(node.queued_s)) },
    { key: "shrunk", label: "Shrunk", number: true, json: (node) => nodeJson(node.id) },
    { key: "age", label: "Report", number: true, value: (node) => node.age_s, cell: (node) => link(node, node.age_s === null ? "never" : duration(node.age_s)), help: "Age of its sidecar's last report" },
    { key: "rack", label: "Rack" },
    { key: "why", label: "Why not", wrap: true, value: (node) => node.why, cell: (node) => node.why || "" },
  ],
});
const link = (node, text) => el("a", { class: "n", href: nodeJson(node.id), title: "JSON", tabindex: "-1" }, text);
const percentLink = (node) => link(node, percent(node.use));

function words(node) {
  const parts = [node.id, stateOf(node), `use ${percent(node.use)}`, `${decimal(node.g_cores)} G and ${decimal(node.q_cores)} Q of ${decimal(node.cores)} cores`,
    `${count(node.queue)} queued (${duration(node.queued_s)})`, `${count(node.shrunk)} shrunk`, `report ${node.age_s === null ? "never" : `${duration(node.age_s)} old`}`];
  return parts.join(" · ") + (node.why ? ` · ${node.why}` : "");
}

function cellOf(node) {
  const cell = el("a", { class: "cell", href: nodeUrl(node.id), tabindex: "-1" });
  cell.addEventListener("focus", () => pointAt(node.id));
  cell.addEventListener("mouseenter", () => pointAt(node.id));
  return cell;
}

function pointAt(id) {
  current = id;
  const node = nodes.find((one) => one.id === id);
  if (node) setText("pointed", words(node));
}

function showMap() {
  const { of, top, text } = METRICS[metric];
  const limit = top(Math.max(0, ...nodes.map(of)));
  const map = byId("map");
  const size = nodes.length <= 24 ? "few" : nodes.length <= 240 ? "some" : "many";
  map.className = `map ${size}`;
  const ids = new Set(nodes.map((node) => node.id));
  for (const [id, cell] of cells) if (!ids.has(id)) { cell.remove(); cells.delete(id); }
  for (const node of nodes) {
    let cell = cells.get(node.id);
    if (!cell) { cell = cellOf(node); cells.set(node.id, cell); map.append(cell); }
    const value = of(node);
    const step = Math.min(STEPS - 1, Math.round((STEPS - 1) * Math.min(1, value / limit)));
    const kind = node.usable ? `cell h${step}` : "cell off";
    if (cell.className !== kind) cell.className = kind;
    const shown = node.usable ? text(value) : "✕";
    const key = `${size} ${shown}`;
    if (cell.dataset.shown !== key) {
      cell.dataset.shown = key;
      if (size === "few") cell.replaceChildren(el("span", {}, node.id), el("b", {}, shown));
      else cell.textContent = size === "some" ? shown : node.usable ? "" : "✕";
    }
    const name = `${node.id}: ${node.usable ? shown : stateOf(node)}`;
    if (cell.getAttribute("aria-label") !== name) cell.setAttribute("aria-label", name);
  }
  const stop = cells.get(current) ?? cells.values().next().value;
  for (const cell of cells.values()) {
    const index = cell === stop ? "0" : "-1";
    if (cell.getAttribute("tabindex") !== index) cell.setAttribute("tabindex", index);
  }
  byId("scale").replaceChildren(el("span", {}, text(0)), ...Array.from({ length: STEPS }, (_, i) => el("i", { class: `h${i}` })), el("span", {}, text(limit)), el("i", { class: "off" }), el("span", {}, "not usable"));
}

byId("map").addEventListener("keydown", (event) => {
  const all = [...cells.values()];
  const at = all.indexOf(document.activeElement);
  if (at < 0) return;
  const across = all.filter((cell) => cell.offsetTop === all[0].offsetTop).length;
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + across, ArrowUp: at - across, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const next = all[Math.min(all.length - 1, Math.max(0, to))];
  all[at].setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
});

const select = byId("metric");
select.value = metric;
select.addEventListener("change", () => {
  metric = select.value;
  setQuery({ metric: metric === "use" ? "" : metric });
  showMap();
});

poll(toUi("data/nodes"), 4, ({ columns, rows }) => {
  nodes = rows.map((row) => {
    const node = Object.fromEntries(columns.map((name, i) => [name, row[i]]));
    node.use = Math.max(share(node.g_cores + node.q_cores, node.cores), share(node.g_mb + node.q_mb, node.memory_mb));
    node.free_mb = Math.max(0, node.memory_mb - node.g_mb - node.q_mb);
    return node;
  }).sort((a, b) => a.id.localeCompare(b.id, "en", { numeric: true }));
  const usable = nodes.filter((node) => node.usable).length;
  setText("subtitle", nodes.length ? `${count(usable)} of ${count(nodes.length)} take queueable containers` : "");
  if (!nodes.length) {
    byId("map").className = "";
    byId("map").replaceChildren(el("div", { class: "empty" }, el("p", { class: "empty-title" }, "No nodes yet"),
      el("p", { class: "empty-text" }, "The ResourceManager lists none, or its REST cannot be read (see Health). Start NodeManagers, and a sidecar on each node.")));
  } else {
    showMap();
  }
  table.update(nodes);
  if (current) pointAt(current);
});

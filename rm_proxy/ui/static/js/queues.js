// The tree of YARN's queues, and all of them together over time.
import { el, toRoot, toUi, byId, count, decimal, badge, emptyState } from "./frame.js";
import { poll } from "./poll.js";
import { TimeChart } from "./chart.js";
import { plainTable, part, size, fill, orEmpty } from "./plain.js";

const root = (items) => items.find((one) => one.name === "root")?.name ?? items[0]?.name;

function meter(one) {
  const g = part(one.used_g, one.max_capacity), q = part(one.used_q, one.max_capacity);
  const bar = (kind, ratio) => { const made = el("i", { class: kind }); made.style.width = `${Math.min(100, 100 * ratio)}%`; return made; };
  const made = el("span", { class: "meter", role: "img", "aria-label": `${Math.round(100 * g)} % by G, ${Math.round(100 * q)} % by Q of its maximum` }, bar("g", g), bar("q", q));
  const guaranteed = part(one.capacity, one.max_capacity);
  if (guaranteed > 0 && guaranteed < 0.999) {
    const mark = el("i", { class: "mark" });
    mark.style.left = `${100 * guaranteed}%`;
    made.append(mark);
  }
  return made;
}

function row(one, top) {
  const json = toRoot(`v1/queues/${encodeURIComponent(one.name)}`);
  const tree = toRoot("v1/queue-tree");
  const number = (value, href) => el("a", { class: "n", href, title: "JSON" }, count(value));
  const depth = Math.min(4, one.name.split(".").length - top);
  const name = el("span", { class: depth > 0 ? `indent-${depth}` : null }, el("a", { href: toUi(`queues/${encodeURIComponent(one.name)}`), title: one.name }, depth > 0 ? one.name.split(".").pop() : one.name));
  const state = one.state && one.state !== "RUNNING" ? badge(one.state.toLowerCase(), "warn") : one.queueable || !one.leaf ? "" : badge("no Qs", "");
  return [
    el("span", {}, name, " ", state), meter(one),
    el("a", { class: "n", href: json, title: "JSON" }, size(one.used_g)), el("a", { class: "n", href: json, title: "JSON" }, size(one.used_q)),
    one.leaf ? (one.left_q && one.queueable ? el("a", { class: "n", href: json, title: "JSON" }, size(one.left_q)) : one.queueable ? "no quota by queue" : "–") : "",
    number(one.wanted_g, tree), number(one.wanted_q, tree), number(one.held, tree), number(one.apps, tree), number(one.users, json),
  ];
}

const chart = new TimeChart(byId("over"), {
  series: [{ key: "wanted_g", label: "G pending", color: "--g" }, { key: "wanted_q", label: "Q pending", color: "--q" }, { key: "held", label: "Q queued at nodes", color: "--waiting" }],
  axis: "containers", whole: true, height: 220, label: "Containers that wait, all queues",
});
let name = null;

poll(toUi("data/queues"), 3, ({ items }) => {
  if (!items.length) {
    fill(byId("tree"), emptyState("No queue is known yet", "The proxy reads YARN's queues from the ResourceManager's REST. See the page Health if it cannot be reached."));
    return;
  }
  const top = Math.min(...items.map((one) => one.name.split(".").length));
  const focused = byId("tree").contains(document.activeElement) && document.activeElement.getAttribute("href");
  const table = plainTable([["Queue"], ["Use of its maximum"], ["G", true], ["Q", true], ["Quota leaves to Q", true], ["G pending", true], ["Q pending", true], ["Q queued at nodes", true], ["Applications", true], ["Users", true]], items.map((one) => row(one, top)), "Queues");
  fill(byId("tree"), table);
  for (const line of table.tBodies[0].rows) line.cells[1].classList.add("bar-cell");
  if (focused) table.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  if (name === null) {
    name = root(items);
    byId("over-json").href = toRoot(`v1/queues/${encodeURIComponent(name)}/history`);
    poll(toUi(`data/queues/${encodeURIComponent(name)}`), 5, (data) => {
      const empty = !data.queue || !data.history.t.length;
      if (orEmpty(byId("over"), empty, "Nothing waited yet", "The chart begins when an application asks for containers; it goes back to the start of the proxy, a day at most.")) chart.draw(data.history);
    });
  }
});

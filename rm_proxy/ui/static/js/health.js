import { el, toRoot, toUi, byId, setText, numberLink, badge, count, duration, dateTime, howMany, send } from "./frame.js";
import { poll } from "./poll.js";
import { DataTable } from "./table.js";

const nodeLink = (id) => el("a", { href: toUi(`nodes/${encodeURIComponent(id)}`) }, id);
const nodesJson = () => toRoot("v1/nodes");

const sidecars = new DataTable(byId("sidecars"), {
  label: "Sidecars", name: "s", rowKey: (row) => `${row.version} ${row.settings}`, sort: "-nodes",
  empty: "No sidecar has reported yet. Start one on each node: quicksilver sidecar run.",
  columns: [
    { key: "version", label: "Version", cell: (row) => row.version || "not reported" },
    { key: "settings", label: "Settings", cell: (row) => row.settings || "–" },
    { key: "same", label: "As the proxy", value: (row) => (row.same ? "yes" : "no"), cell: (row) => (row.same ? badge("yes", "ok") : badge("no", "warn")) },
    { key: "nodes", label: "Nodes", number: true, json: nodesJson },
  ],
});
const unusable = new DataTable(byId("unusable"), {
  label: "Nodes that take no queueable containers", name: "u", rowKey: (row) => row.id, sort: "id", pageSize: 15,
  empty: "All known nodes take queueable containers.",
  columns: [
    { key: "id", label: "Node", cell: (row) => nodeLink(row.id) },
    { key: "why", label: "Why", wrap: true },
    { key: "age_s", label: "Last report", number: true, cell: (row) => numberLink(row.age_s === null ? "never" : duration(row.age_s), toRoot(`v1/nodes/${encodeURIComponent(row.id)}`), { tabindex: "-1" }) },
  ],
});
const limits = new DataTable(byId("limits"), {
  label: "Limits of sidecars", name: "l", rowKey: (row) => row.text, sort: "-nodes", pageSize: 15,
  empty: "No sidecar reports a limitation.",
  columns: [
    { key: "text", label: "Limitation", wrap: true },
    { key: "example", label: "For example", cell: (row) => nodeLink(row.example) },
    { key: "nodes", label: "Nodes", number: true, json: nodesJson },
  ],
});

function proxyFacts(health) {
  const healthJson = toRoot("v1/health");
  const rows = [
    ["Version", health.version],
    ["Settings", health.settings_version || "–"],
    ["Mode", health.mode],
    ["Started", `${dateTime(health.started_s)}, ${duration(Date.now() / 1000 - health.started_s)} ago`],
    ["Applications", el("span", {}, numberLink(count(health.attempts), healthJson), " live, ", numberLink(count(health.restored), healthJson), " continued from the process before")],
    ["Connections", numberLink(count(health.connections), healthJson)],
    ["Nodes", el("span", {}, numberLink(count(health.nodes_usable), healthJson), " of ", numberLink(count(health.nodes), healthJson), " take queueable containers")],
    ["ResourceManager", el("span", {}, badge(health.rm_reachable ? "reachable" : "not reachable", health.rm_reachable ? "ok" : "bad"), ` ${health.upstream}`)],
    ["Application masters connect to", health.listen],
    ["Store", health.store || "–"],
    ["Rows that wait for the store", numberLink(count(health.store_backlog), healthJson)],
  ];
  byId("proxy").replaceChildren(...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

const PHASES = { active: ["not in effect", "ok"], bypass: ["in effect for all", "bad"], trial: ["given up on trial", "warn"] };

function showBypass(bypass) {
  const apps = Object.entries(bypass.applications);
  const [text, kind] = PHASES[bypass.phase];
  byId("bypass").replaceChildren(el("dl", { class: "facts" },
    el("dt", {}, "Bypass"), el("dd", {}, badge(text, kind)),
    el("dt", {}, "Why"), el("dd", {}, bypass.why || "–"),
    el("dt", {}, "Applications in it"), el("dd", {}, numberLink(count(apps.length), toRoot("v1/bypass"))),
    ...apps.slice(0, 10).flatMap(([id, why]) => [el("dt", {}, id), el("dd", {}, why)])));
  for (const button of byId("orders")?.querySelectorAll("button") ?? []) button.setAttribute("aria-pressed", String(button.dataset.order === bypass.order));
}

const live = poll(toUi("data/health"), 4, (facts) => {
  const { health, bypass } = facts;
  byId("status").replaceChildren(badge(health.status, health.status === "ok" ? "ok" : "bad"));
  setText("subtitle", [howMany(health.problems, "problem"), howMany(health.notices, "notice")].filter(Boolean).join(" · "));
  byId("problems").replaceChildren(
    health.problems.length
      ? el("ul", { class: "problems" }, ...health.problems.map((text) => el("li", {}, text)))
      : el("p", { class: "fine" }, "No problem is known: the ResourceManager and the store answer, and nodes take queueable containers."),
    ...(health.notices.length ? [el("h3", { class: "notices-title" }, "Notices"), el("ul", { class: "notices" }, ...health.notices.map((text) => el("li", {}, text)))] : []));
  proxyFacts(health);
  showBypass(bypass);
  const same = (row) => row.version === health.version && row.settings.split("-")[1] === health.settings_version.split("-")[1];
  sidecars.update(facts.sidecars.map((row) => ({ ...row, same: same(row) })));
  unusable.update(facts.unusable);
  limits.update(facts.limits);
});

byId("orders")?.addEventListener("click", async (event) => {
  const { order } = event.target.dataset;
  if (order && await send("POST", "v1/bypass", { order, who: "dashboard" }) !== null) live.soon();
});

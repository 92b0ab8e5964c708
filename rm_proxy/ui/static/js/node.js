import { el, toRoot, toUi, byId, setNumber, setText, badge, count, decimal, duration, memory, clock, query, setQuery, send, mayAct } from "./frame.js";
import { poll } from "./poll.js";
import { DataTable } from "./table.js";
import { Timeline, noContainers } from "./timeline.js";

const id = document.querySelector("[data-node]").dataset.node;
const path = `v1/nodes/${encodeURIComponent(id)}`;
let span = Number(query().get("last_s")) || 1800;
let draining = false;

const json = (row) => toRoot(`v1/containers/${row.container_id}`);
const BADGES = { waiting: "waiting", shrunk: "shrunk", killed: "bad", lost: "bad", failed: "bad", shed: "warn" };
const ORDER = ["running", "starting", "shrunk", "waiting"];
const table = new DataTable(byId("containers"), {
  label: "Containers", rowKey: (row) => row.container_id, name: "c", sort: "order", pageSize: 25,
  empty: "No container matches in this time. Clear the filter, or choose a longer time.",
  columns: [
    { key: "container_id", label: "Container", cell: (row) => el("a", { href: json(row) }, row.container_id) },
    { key: "kind", label: "Kind", cell: (row) => badge(row.am ? "master" : row.kind, row.kind.toLowerCase()) },
    { key: "order", label: "State", value: (row) => (row.end ? 10 : row.state ? ORDER.indexOf(row.state) : 9), text: (row) => row.end || row.state, cell: (row) => badge(row.end || row.state || "not reported", BADGES[row.end || row.state] ?? "") },
    { key: "waited", label: "Waited", number: true, value: (row) => row.waited, cell: (row) => number(row, row.waited === null ? "–" : duration(row.waited)) },
    { key: "ran", label: "Ran", number: true, value: (row) => row.ran, cell: (row) => number(row, row.ran === null ? "–" : duration(row.ran)) },
    { key: "times_shrunk", label: "Shrunk", number: true, json },
    { key: "since", label: "From", value: (row) => row.since, cell: (row) => (row.since ? clock(row.since) : "earlier") },
    { key: "why", label: "Why", wrap: true, value: (row) => row.end ? row.reason || row.cause : row.why, sortable: false },
    { key: "app_id", label: "Application", cell: (row) => (row.app_id ? el("a", { href: toUi(`applications/${row.app_id}`), tabindex: "-1" }, row.app_id) : "–") },
  ],
});
const number = (row, text) => el("a", { class: "n", href: json(row), title: "JSON", tabindex: "-1" }, text);

const timeline = new Timeline(byId("timeline"), (text) => setText("pointed", text));

function facts(node) {
  const targets = node.targets ?? {};
  const rows = [
    ["Version", node.version || "not reported"],
    ["Settings", node.settings_version || "–"],
    ["REST", node.sidecar_url || "–"],
    ["Rack, label", `${node.rack || "–"}${node.label ? `, ${node.label}` : ""}`],
    ["State in YARN", node.state],
    ["Slots", node.slots ? `${count(node.slots)} (containers share cores)` : "as many as fit"],
    ["Free physical memory", memory(node.free_physical_mb)],
    ["Longest queue allowed", targets.max_wait_s !== null && targets.max_wait_s !== undefined ? duration(targets.max_wait_s) : targets.max_queue ?? "no limit"],
    ["Limits", node.limits.length ? node.limits.join("; ") : "none"],
  ];
  byId("facts").replaceChildren(...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]));
}

function show({ node, timeline: data }) {
  const running = node.containers.filter((one) => one.state !== "waiting");
  byId("status").replaceChildren(badge(node.usable ? "usable" : node.draining ? "draining" : "unusable", node.usable ? "ok" : node.draining ? "warn" : "bad"));
  setText("subtitle", node.why_unusable);
  setNumber("use", `${decimal(node.used_g.vcores + node.used_q.vcores)} / ${decimal(node.capacity.vcores)}`);
  setText("use-hint", `${decimal(node.used_g.vcores)} by G, ${decimal(node.used_q.vcores)} by Q`);
  setNumber("memory", memory(node.used_g.memory_mb + node.used_q.memory_mb));
  setText("memory-hint", `of ${memory(node.capacity.memory_mb)}`);
  setNumber("running", count(running.length));
  setText("running-hint", `${count(node.count_g)} G, ${count(node.count_q)} Q, ${count(node.shrunk)} of them shrunk`);
  setNumber("queue", count(node.queue_length));
  setText("queue-hint", node.queue_length ? `${duration(node.queued_s)} of work` : "the queue is empty");
  setNumber("shrunk", count(node.shrunk));
  setText("shrunk-hint", node.shrunk ? "throttled for others" : "");
  setNumber("age", node.report_age_s === null ? "never" : duration(node.report_age_s));
  setText("age-hint", node.report_age_s === null ? "start its sidecar" : "ago");
  byId("timeline-json").href = toRoot(`${path}/timeline?last_s=${span}`);
  if (data.containers.length) timeline.draw(data);
  else byId("timeline").replaceChildren(noContainers());
  table.update(data.containers.map((one) => ({
    ...one, since: one.held_s ?? one.started_s,
    waited: one.held_s === null ? null : (one.started_s ?? one.ended_s ?? data.to_s) - one.held_s,
    ran: one.started_s === null ? null : (one.ended_s ?? data.to_s) - one.started_s,
  })));
  facts(node);
  draining = node.draining;
  const button = byId("drain");
  if (button) {
    button.hidden = false;
    button.textContent = draining ? "End draining" : "Drain";
    button.title = draining ? "Let the node take queueable containers again" : "Shed its queue and hold nothing; what runs goes on";
  }
}

const live = poll(() => toUi(`data/node/${encodeURIComponent(id)}?last_s=${span}`), 3, show);

function press() {
  for (const button of byId("spans").querySelectorAll("button")) button.setAttribute("aria-pressed", String(Number(button.dataset.span) === span));
}
byId("spans").addEventListener("click", (event) => {
  if (!event.target.dataset.span) return;
  span = Number(event.target.dataset.span);
  setQuery({ last_s: span === 1800 ? "" : span });
  press();
  live.soon();
});
press();

if (mayAct) {
  byId("drain").addEventListener("click", async () => {
    const done = await send("POST", `${path}/drain`, { on: !draining, reason: "drained from the dashboard" });
    if (done !== null) setTimeout(() => live.soon(), 1200); // the sidecar reports it within a second
  });
}

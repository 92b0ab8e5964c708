// One YARN queue: use and waiting over time, users, quotas.
import { el, toRoot, toUi, byId, setNumber, setText, badge, count, decimal, memory, query, setQuery } from "./frame.js";
import { poll } from "./poll.js";
import { DataTable } from "./table.js";
import { TimeChart } from "./chart.js";
import { queueLink, part, size, vcores, fill, orEmpty } from "./plain.js";

const name = document.querySelector("[data-queue]").dataset.queue;
const json = toRoot(`v1/queues/${encodeURIComponent(name)}`);
let span = Number(query().get("last_s")) || 1800;

const link = (text) => el("a", { class: "n", href: json, title: "JSON", tabindex: "-1" }, text);
const users = new DataTable(byId("users"), {
  label: "Users", rowKey: (row) => row.user, name: "u", sort: "-share", pageSize: 15, empty: "No user has containers here.",
  columns: [
    { key: "user", label: "User", cell: (row) => el("a", { href: toUi(`applications?state=running&queue=${encodeURIComponent(name)}&user=${encodeURIComponent(row.user)}`) }, row.user) },
    { key: "g", label: "Used by G", number: true, value: (row) => row.used_g.memory_mb, cell: (row) => link(size(row.used_g)) },
    { key: "q", label: "Used by Q", number: true, value: (row) => row.used_q.memory_mb, cell: (row) => link(size(row.used_q)) },
    { key: "left", label: "Quota leaves to Q", number: true, value: (row) => row.left_q?.memory_mb ?? null, cell: (row) => (row.left_q ? link(size(row.left_q)) : "no quota by queue") },
    { key: "share", label: "Part of the queue's maximum", number: true, cell: (row) => link(`${decimal(100 * row.share)} %`) },
  ],
});
const use = new TimeChart(byId("use"), {
  series: [{ key: "g_vcores", label: "G", color: "--g" }, { key: "q_vcores", label: "Q", color: "--q" }],
  stacked: true, unit: "vcores", whole: true, height: 220, format: decimal, label: `Vcores that ${name} uses`,
});
const waits = new TimeChart(byId("waits"), {
  series: [{ key: "wanted_g", label: "G pending", color: "--g" }, { key: "wanted_q", label: "Q pending", color: "--q" }, { key: "held", label: "Q queued at nodes", color: "--waiting" }, { key: "apps", label: "Applications", color: "--shrunk", dash: [5, 4] }],
  axis: "containers", whole: true, height: 220, label: `Containers of ${name} that wait`,
});

function facts(queue, detail, below) {
  const rows = [
    ["Guaranteed capacity", queue.capacity.memory_mb ? size(queue.capacity) : "none (the scheduler guarantees nothing)"],
    ["Maximum capacity", size(queue.max_capacity)],
    ["Limit of one user", detail.user_limit ? size(detail.user_limit) : "none"],
    ["Queueable containers", queue.queueable ? "may go here" : "none: policies.queues does not name this queue"],
    ["Quotas", queue.quotas.join(", ") || "none"],
    ["Labels", detail.labels.join(", ") || "the default partition alone"],
    ["Priority", String(queue.priority)],
    ["Queues above", detail.above.length ? el("span", {}, ...detail.above.flatMap((one, i) => [i ? ", " : "", queueLink(one.name)])) : "none"],
    ["Queues below", below.length ? el("span", {}, ...below.flatMap((one, i) => [i ? ", " : "", queueLink(one.name)])) : "none"],
  ];
  fill(byId("facts"), ...rows.flatMap(([label, value]) => [el("dt", {}, label), el("dd", {}, value)]));
}

const live = poll(() => toUi(`data/queues/${encodeURIComponent(name)}?last_s=${span}`), 3, ({ queue, detail, history, below }) => {
  byId("unknown").hidden = Boolean(queue);
  byId("known").hidden = !queue;
  if (!queue) return;
  fill(byId("state"), badge(queue.state.toLowerCase() || "running", queue.state === "RUNNING" ? "ok" : "warn"));
  setText("subtitle", `${queue.leaf ? "leaf queue" : "parent queue"} · ${count(queue.users)} user${queue.users === 1 ? "" : "s"}`);
  const percent = (used) => `${decimal(100 * part(used, queue.max_capacity))} % of its maximum`;
  setNumber("used_g", vcores(queue.used_g));
  setText("used_g-hint", `${memory(queue.used_g.memory_mb)}, ${percent(queue.used_g)}`);
  setNumber("used_q", vcores(queue.used_q));
  setText("used_q-hint", `${memory(queue.used_q.memory_mb)}, ${percent(queue.used_q)}`);
  setNumber("left", queue.left_q ? memory(queue.left_q.memory_mb) : "–");
  setText("left-hint", queue.left_q ? `and ${vcores(queue.left_q)}` : queue.queueable ? "no quota counts by queue" : "no Qs here");
  setNumber("wanted", count(queue.wanted_g + queue.wanted_q));
  setText("wanted-hint", `asked for: ${count(queue.wanted_g)} G, ${count(queue.wanted_q)} Q`);
  setNumber("held", count(queue.held));
  setText("held-hint", queue.held ? "allocated, not started" : "");
  setNumber("apps", count(queue.apps));
  for (const where of ["use-json", "waits-json"]) byId(where).href = toRoot(`v1/queues/${encodeURIComponent(name)}/history?last_s=${span}`);
  for (const [chart, where] of [[use, "use"], [waits, "waits"]]) {
    if (orEmpty(byId(where), !history.t.length, "Nothing yet", "The chart begins when an application uses the queue; it goes back to the start of the proxy, a day at most.")) chart.draw(history);
  }
  users.update(detail.users.map((one) => ({ ...one, share: part({ memory_mb: one.used_g.memory_mb + one.used_q.memory_mb, vcores: one.used_g.vcores + one.used_q.vcores }, queue.max_capacity) })));
  facts(queue, detail, below);
});

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

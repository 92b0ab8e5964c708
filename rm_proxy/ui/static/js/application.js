// One application: what it waits for now, its waits and containers over time, what it lost, and why.
import { el, toRoot, byId, setNumber, setText, badge, count, duration, dateTime, clock, emptyState } from "./frame.js";
import { poll } from "./poll.js";
import { DataTable } from "./table.js";
import { TimeChart } from "./chart.js";
import { Timeline } from "./timeline.js";
import { appState, plainTable, containerLink, nodeLink, queueLink, size, fill, orEmpty, wait } from "./plain.js";

const id = document.querySelector("[data-app]").dataset.app;
const path = `v1/applications/${encodeURIComponent(id)}`;
const ENDS = { killed: "bad", lost: "bad", failed: "bad", shed: "warn", moved: "warn", waiting: "waiting", shrunk: "shrunk", running: "ok", starting: "ok" };
const CODES = {
  scheduler: "scheduler", quota: "quota", tokens: "tokens", order: "order", share: "share", full: "full", nowhere: "no node",
  "next-call": "next call", granting: "granting", mode: "mode", "policy-fault": "policy fault",
};
const json = (row) => toRoot(`v1/containers/${row.container_id}`);
const link = (row, text) => el("a", { class: "n", href: json(row), title: "JSON", tabindex: "-1" }, text);

const table = new DataTable(byId("containers"), {
  label: "Containers", rowKey: (row) => row.container_id, name: "c", sort: "-granted_s", pageSize: 15,
  empty: "No container matches. Clear the filter.",
  columns: [
    { key: "container_id", label: "Container", cell: (row) => containerLink(row.container_id) },
    { key: "kind", label: "Kind", cell: (row) => badge(row.kind, row.kind.toLowerCase()) },
    { key: "state", label: "State", value: (row) => row.end || row.now || "gone", cell: (row) => badge(row.end || row.now || "no report", ENDS[row.end || row.now] ?? "") },
    { key: "node_id", label: "Node", cell: (row) => nodeLink(row.node_id) },
    { key: "granted_s", label: "Allocated", cell: (row) => clock(row.granted_s) },
    { key: "asked", label: "Allocation delay", number: true, value: (row) => row.granted_s - row.asked_s, cell: (row) => link(row, wait(row.granted_s - row.asked_s)), help: "From ask to allocation" },
    { key: "waited_s", label: "Queued for", number: true, value: (row) => (row.started_s === null ? null : row.waited_s), cell: (row) => link(row, row.started_s === null ? "–" : wait(row.waited_s)) },
    { key: "ran_s", label: "Ran", number: true, cell: (row) => link(row, duration(row.ran_s)) },
    { key: "times_shrunk", label: "Shrunk", number: true, json },
    { key: "why", label: "Why", wrap: true, sortable: false, value: (row) => [row.cause, row.reason || row.why || row.route_reason].filter(Boolean).join(": ") },
  ],
});

const losses = new DataTable(byId("losses"), {
  label: "Kills, sheds and moves", rowKey: (row) => `${row.container_id} ${row.kind} ${row.at_s}`, name: "l", sort: "-at_s", pageSize: 10,
  empty: "None matches the filter.",
  columns: [
    { key: "at_s", label: "At", cell: (row) => clock(row.at_s) },
    { key: "kind", label: "What", value: (row) => what(row), cell: (row) => badge(what(row), ENDS[what(row)]) },
    { key: "cause", label: "Cause" },
    { key: "container_id", label: "Container", cell: (row) => containerLink(row.container_id) },
    { key: "node_id", label: "Node", cell: (row) => nodeLink(row.node_id) },
    { key: "ran_s", label: "Ran", number: true, cell: (row) => link(row, duration(row.ran_s)) },
    { key: "reason", label: "Reason", wrap: true },
  ],
});
const what = (row) => (row.kind === "shed" && ["steal", "correct"].includes(row.cause) ? "moved" : row.kind);

const chart = new TimeChart(byId("waits"), {
  series: [
    { key: "q", label: "Q: ask to allocation, p95", color: "--q" },
    { key: "g", label: "G: ask to allocation, p95", color: "--g" },
    { key: "node", label: "Q: queued at its node, p95", color: "--waiting" },
    { key: "node50", label: "Q: queued at its node, median", color: "--shrunk", dash: [5, 4] },
  ],
  height: 220, format: wait, label: "Waits over time", sparse: true,
});
const timeline = new Timeline(byId("timeline"), (text) => setText("pointed", text));

function waiting(known, running) {
  if (!known || !(known.wanted || known.held)) {
    fill(byId("why"), emptyState("Nothing waits", running ? "All containers that it requested are allocated, and none is queued." : "It does not run here any more."));
    byId("asks").replaceChildren();
    return;
  }
  const items = [];
  for (const ask of known.asks) for (const reason of ask.reasons) items.push([reason.count, CODES[reason.code] ?? reason.code, reason.text]);
  for (const held of known.at_nodes.slice(0, 20)) {
    const soon = held.starts_in_s === null ? "" : `; the first starts in about ${duration(held.starts_in_s)}`;
    items.push([held.count, "at a node", `on ${held.node_id}, ${duration(held.longest_s)} so far: ${held.why || "no reason reported"}${soon}`]);
  }
  items.sort((a, b) => b[0] - a[0]);
  fill(byId("why"), el("ul", { class: "why" }, ...items.map(([number, code, text]) => el("li", {},
    el("a", { class: "n count", href: toRoot(`${path}/waiting`), title: "JSON" }, count(number)),
    el("span", { class: "code" }, badge(code, code === "at a node" ? "waiting" : "")),
    el("span", { class: "text" }, text)))));
  if (!known.asks.length) return fill(byId("asks"));
  const rows = known.asks.map((ask) => [
    String(ask.priority), size(ask.resources),
    ask.hosts.length ? `${ask.hosts.slice(0, 3).join(", ")}${ask.hosts.length > 3 ? " …" : ""}${ask.anywhere ? ", or anywhere" : ""}` : ask.label ? `label ${ask.label}` : "anywhere",
    jsonNumber(ask.guaranteed), jsonNumber(ask.without_node), jsonNumber(ask.at_node), duration(ask.oldest_s),
    ask.nodes.map((node) => `${count(node.count)} ${node.what}`).join(", ") || "–",
  ]);
  fill(byId("asks"), el("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Outstanding asks" },
    plainTable([["Priority"], ["Size"], ["Where"], ["G", true], ["Q without a node", true], ["Q requested on a node", true], ["Oldest", true], ["Nodes", "wrap"]], rows, "Outstanding asks")));
}
const jsonNumber = (value) => el("a", { class: "n", href: toRoot(`${path}/waiting`), title: "JSON" }, count(value));

function waits(known) {
  const some = orEmpty(byId("waits"), !known.buckets.length, "No waits yet", "They appear with the first allocated container.");
  byId("percentiles").hidden = !some;
  if (!some) return;
  const of = (name, value) => known.buckets.map((bucket) => bucket[name][value]);
  chart.draw({ step_s: known.bucket_s, t: known.buckets.map((bucket) => bucket.from_s), q: of("allocation_q", "p95_s"), g: of("allocation_g", "p95_s"), node: of("queueing", "p95_s"), node50: of("queueing", "p50_s") });
  const row = (label, one) => [label, ...["count", "waiting", "p50_s", "p95_s", "max_s"].map((name) =>
    el("a", { class: "n", href: toRoot(`${path}/waits`), title: "JSON" }, name === "count" || name === "waiting" ? count(one[name]) : wait(one[name])))];
  fill(byId("percentiles"), plainTable([["Whole time"], ["Containers", true], ["Still wait", true], ["Median", true], ["p95", true], ["Longest", true]], [
    row("Q: from ask to allocation", known.all.allocation_q), row("Q: queued at its node", known.all.queueing), row("G: from ask to allocation", known.all.allocation_g),
  ], "Percentiles of waits"));
}

/** A container as the timeline has it; one of which no sidecar reported anything is a short mark at its delivery. */
function spanOf(one) {
  const silent = !one.end && !one.now && one.started_s === null;
  const runs = one.now && one.now !== "waiting";
  const started_s = one.started_s ?? (one.ran_s !== null && one.ended_s ? one.ended_s - one.ran_s : runs ? one.granted_s : null);
  const waits = one.kind === "Q" || started_s === null;
  return {
    ...one, app_id: id, am: false, state: one.now, started_s, held_s: waits && started_s !== one.granted_s ? one.granted_s : null,
    ended_s: silent ? one.granted_s + 1 : one.ended_s, end: one.end === "moved" ? "shed" : one.end === "stopped" ? "ended" : one.end,
  };
}

function drawn(data) {
  const spans = data.containers.map(spanOf).reverse();
  if (!spans.length) {
    fill(byId("timeline"), emptyState("No container yet", "The timeline begins with the first allocated container."));
    return;
  }
  const to_s = data.app.finished_s ?? data.now_s;
  const from_s = Math.min(...spans.map((one) => one.held_s ?? one.started_s ?? one.granted_s));
  timeline.draw({ from_s, to_s: Math.max(to_s, from_s + 10, ...spans.map((one) => one.ended_s ?? 0)), containers: spans });
}

function counted(where, rows, heads, empty) {
  if (!rows.length) fill(byId(where), emptyState("None", empty));
  else fill(byId(where), el("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": heads[0][0] }, plainTable(heads, rows, heads[0][0])));
}

poll(toRoot(`ui/data/applications/${encodeURIComponent(id)}`), 3, (data) => {
  byId("unknown").hidden = data.app !== null;
  byId("known").hidden = data.app === null;
  if (data.app === null) return;
  const { app, story, waiting: now } = data;
  setText("name", app.name || app.id);
  fill(byId("state"), badge(...appState(app)));
  fill(byId("subtitle"), `${app.id} · ${app.type} · ${app.user || "user not known"} · `, queueLink(app.queue),
    ` · ${app.submitted_s ? `submitted ${dateTime(app.submitted_s)}` : "time of submission not known"}${app.elapsed_s === null ? "" : ` · ${app.finished_s ? "took" : "for"} ${duration(app.elapsed_s)}`}${app.mode === "active" ? "" : ` · ${app.mode} mode${app.mode_reason ? `: ${app.mode_reason}` : ""}`}`);
  const ledger = story.ledger ?? {};
  setNumber("waiting", count(now ? now.wanted + now.held : 0));
  setText("waiting-hint", now ? `${count(now.wanted)} pending, ${count(now.held)} queued at nodes` : "it does not run now");
  setNumber("held", count(app.live_g + app.live_q));
  setText("held-hint", `${count(app.live_g)} G, ${count(app.live_q)} Q`);
  setNumber("delivered", count((ledger.containers_g ?? 0) + (ledger.containers_q ?? 0)));
  setText("delivered-hint", `${count(ledger.containers_g ?? 0)} G, ${count(ledger.containers_q ?? 0)} Q`);
  setNumber("queueing", wait(story.queueing.p50_s));
  setText("queueing-hint", story.queueing.count ? `median; p95 ${wait(story.queueing.p95_s)}` : "no Q started yet");
  setNumber("kills", count(ledger.kills ?? 0));
  setText("kills-hint", `${ledger.kills ? `${duration(ledger.lost_s)} of work lost` : "no work was lost"}${ledger.shrinks ? `; shrunk ${count(ledger.shrinks)} times` : ""}`);
  setNumber("moves", count((ledger.sheds ?? 0) + (ledger.moves ?? 0)));
  setText("moves-hint", `${count(ledger.sheds ?? 0)} shed, ${count(ledger.moves ?? 0)} moved`);
  waiting(now, app.state === "running");
  waits(data.waits);
  drawn(data);
  table.update(data.containers);
  setText("containers-note", data.more ? `These are the ${count(data.containers.length)} allocated last; the JSON has all.` : "");
  if (orEmpty(byId("losses"), !data.losses.length, "Nothing was killed, shed or moved", "Its containers ran, or are queued, where they were allocated.")) losses.update(data.losses);
  counted("routes", story.routes.map((one) => [badge(one.what, one.what.toLowerCase()), el("a", { class: "n", href: toRoot(`v1/decisions?app=${id}&kind=${one.what}`), title: "JSON" }, count(one.count)), one.why]), [["Kind"], ["Containers", true], ["Why", "wrap"]], "No container is allocated yet.");
  counted("choices", story.choices.map((one) => [one.what, el("a", { class: "n", href: toRoot(`v1/choices?app=${id}&slot=${encodeURIComponent(one.what)}`), title: "JSON" }, count(one.count)), one.why]), [["Slot"], ["Times", true], ["Decision", "wrap"]], "No quota refused it, and nothing moved, shed or promoted its containers.");
  fill(byId("story"), ...(story.story.length ? story.story : ["Nothing happened yet."]).map((text) => el("li", {}, text.trim())));
});

import { el, toRoot, toUi, byId, setNumber, setText, numberLink, emptyState, badge, count, duration, memory, percent, dateTime, howMany, query, setQuery } from "./frame.js";
import { poll } from "./poll.js";
import { TimeChart } from "./chart.js";
import { wait } from "./plain.js";

const UNITS = {
  cores: {
    axis: "cores", whole: true, format: count, label: "Cores over time",
    note: "The filled areas up to the top of Idle are all cores of nodes with a sidecar. Shrunk and Queued lie on top: containers that want these cores too. An idle core may have no free memory beside it.",
    series: [
      { key: "g", label: "Guaranteed", color: "--g" }, { key: "q", label: "Queueable", color: "--q" },
      { key: "idle", label: "Idle", color: "--idle", soft: true }, { key: "shrunk", label: "Shrunk", color: "--shrunk" },
      { key: "waiting", label: "Queued", color: "--waiting" },
    ],
    draw: (t, values) => ({ t, ...values }),
  },
  memory: {
    format: memory, label: "Memory over time",
    note: "Memory of nodes with a sidecar: used by guaranteed and by queueable containers, shrunk ones included, and free for YARN.",
    series: [
      { key: "g_mb", label: "Guaranteed", color: "--g" }, { key: "q_mb", label: "Queueable", color: "--q" },
      { key: "free_mb", label: "Free", color: "--idle", soft: true },
    ],
    draw: (t, values) => ({ t, ...values, free_mb: values.memory_mb.map((all, i) => Math.max(0, all - values.g_mb[i] - values.q_mb[i])) }),
  },
};
const CAUSES = {
  room: "A guaranteed container needed the room",
  memory: "The node ran out of memory",
  proxy: "Ordered by the proxy",
  resourcemanager: "Preempted by the ResourceManager",
  nodemanager: "Preempted by the NodeManager",
  unknown: "Cause not reported",
};

let unit = query().get("unit") in UNITS ? query().get("unit") : "cores";
let span = Number(query().get("last_s")) || 3600;
let chart = null;
let lastHistory = null;

const delays = new TimeChart(byId("delays"), {
  series: [
    { key: "delay_g_p95_s", label: "G, p95", color: "--g", dash: [5, 4] }, { key: "delay_g_p50_s", label: "G, median", color: "--g" },
    { key: "delay_q_p95_s", label: "Q, p95", color: "--q", dash: [5, 4] }, { key: "delay_q_p50_s", label: "Q, median", color: "--q" },
  ],
  height: 200, format: wait, label: "Allocation delay over time",
});

function press(group, name, value) {
  for (const button of byId(group).querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset[name] === String(value)));
}

function buildChart() {
  const { note, draw: _, ...options } = UNITS[unit];
  chart = new TimeChart(byId("chart"), { ...options, stacked: true });
  setText("chart-note", note);
}

function showHistory(history) {
  lastHistory = history;
  for (const where of ["history-json", "delays-json"]) byId(where).href = toRoot(`v1/cluster/history?last_s=${span}`);
  if (!history.t.length) {
    chart = null;
    byId("chart").replaceChildren(emptyState("No samples yet", "The proxy takes a sample every five seconds, and draws it when five seconds are over. It begins anew when it starts."));
    setText("chart-note", "");
    return;
  }
  if (!chart) buildChart();
  chart.draw({ ...UNITS[unit].draw(history.t, history.values), step_s: history.step_s });
  delays.draw({ t: history.t, step_s: history.step_s, ...history.values });
}

const history = poll(() => toUi(`data/history?last_s=${span}`), 5, showHistory);

byId("units").addEventListener("click", (event) => {
  const chosen = event.target.dataset.unit;
  if (!chosen) return;
  unit = chosen;
  press("units", "unit", unit);
  setQuery({ unit: unit === "cores" ? "" : unit });
  chart = null;
  if (lastHistory) showHistory(lastHistory);
});
byId("spans").addEventListener("click", (event) => {
  const chosen = event.target.dataset.span;
  if (!chosen) return;
  span = Number(chosen);
  press("spans", "span", span);
  setQuery({ last_s: span === 3600 ? "" : span });
  history.soon();
});
press("units", "unit", unit);
press("spans", "span", span);

poll(toUi("data/cluster"), 3, ({ health, now }) => {
  byId("status").replaceChildren(el("a", { href: toUi("health"), class: "plain" }, badge(health.status, health.status === "ok" ? "ok" : "bad")));
  const parts = [howMany(health.problems, "problem"), howMany(health.notices, "notice")].filter(Boolean);
  setText("subtitle", `${parts.map((text) => `${text} · `).join("")}mode ${health.mode} · settings ${health.settings_version || "–"} · up ${duration(Date.now() / 1000 - health.started_s)}`);
  setNumber("nodes", count(health.nodes_usable));
  setText("nodes-hint", `of ${count(health.nodes)} usable`);
  setNumber("apps", count(health.attempts));
  if (now.cores === undefined) return;
  setNumber("count-g", count(now.count_g));
  setText("count-g-hint", "containers run, masters too");
  setNumber("count-q", count(now.count_q));
  setText("count-q-hint", now.count_shrunk ? `containers run, shrunk ones too` : "containers run");
  setNumber("count-waiting", count(now.count_waiting));
  setNumber("count-shrunk", count(now.count_shrunk));
  setNumber("pending", count(now.pending_g + now.pending_q));
  setText("pending-hint", `asked for: ${count(now.pending_g)} G, ${count(now.pending_q)} Q`);
  setNumber("idle", count(now.idle));
  setText("idle-hint", now.cores ? `${percent(now.idle / now.cores)} of ${count(now.cores)} cores` : "no node reports");
});

const sum = (label, text, json, hint) => el("div", {}, el("dt", {}, label), el("dd", {}, numberLink(text, json), el("small", {}, hint)));

const zone = -new Date().getTimezoneOffset();
poll(toUi(`data/today?zone_min=${zone}`), 15, ({ since_s, zone_min, ledger, kills }) => {
  const ledgerJson = toRoot(`v1/ledger?by=day&zone_min=${zone_min}&since=${since_s}`);
  const killsJson = toRoot(`v1/kills?since=${since_s}`);
  byId("ledger-json").href = ledgerJson;
  byId("kills-json").href = killsJson;
  if (!ledger) {
    byId("ledger").replaceChildren(emptyState("No container was allocated since midnight", "Submit a job through the proxy. If jobs run and nothing appears here, look at Health: the store may be out."));
  } else {
    const waited = ledger.started_q ? ledger.queueing_s / ledger.started_q : null;
    byId("ledger").replaceChildren(
      el("dl", { class: "sums" },
        sum("Work done", duration(ledger.work_s), ledgerJson, `${count(ledger.containers_g)} G and ${count(ledger.containers_q)} Q allocated`),
        sum("Work saved by shrinking", duration(ledger.saved_s), ledgerJson, `${count(ledger.shrinks)} shrinks, those of running containers too`),
        sum("Work lost to kills", duration(ledger.lost_s), ledgerJson, `${count(ledger.kills)} kills; ${ledger.lost_ratio === null ? "nothing" : `${(100 * ledger.lost_ratio).toFixed(1)} % of all work`} done twice`),
        sum("Queueing of a Q, mean", duration(waited), ledgerJson, `${count(ledger.started_q)} started from queues`),
        sum("Moved or asked for again", count(ledger.moves + ledger.sheds), ledgerJson, `${count(ledger.moves)} moved, ${count(ledger.sheds)} shed`),
        sum("Became guaranteed", count(ledger.promotions), ledgerJson, "promotions")),
      el("p", { class: "note" }, `Since ${dateTime(since_s)}, in task-seconds: CPU seconds where they are measured, else time that a container ran. “Saved” is the work that ended containers would have lost if each shrink for another job had been a kill. It is no time by which jobs ended sooner.`));
  }
  if (!kills.length) {
    byId("kills").replaceChildren(emptyState("No container was killed since midnight", "Kills by sidecars, by the ResourceManager and by NodeManagers are listed here with their causes."));
    return;
  }
  byId("kills").replaceChildren(el("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Kills by cause" }, el("table", {},
    el("thead", {}, el("tr", {}, ...["Cause", "Queue", "Kind"].map((text) => el("th", { scope: "col" }, text)), ...["Kills", "Lost"].map((text) => el("th", { scope: "col", class: "num" }, text)))),
    el("tbody", {}, ...kills.slice(0, 12).map((row) => el("tr", {},
      el("td", { class: "wrap" }, CAUSES[row.cause] ?? row.cause), el("td", {}, row.queue || "–"), el("td", {}, badge(row.kind, row.kind.toLowerCase())),
      el("td", { class: "num" }, numberLink(count(row.count), killsJson)), el("td", { class: "num" }, numberLink(duration(row.lost_s), killsJson))))))));
});

// The list of applications: the server filters by state, time, queue, user, type; the table filters what came.
import { el, toRoot, toUi, byId, setText, badge, count, duration, dateTime, query, setQuery } from "./frame.js";
import { poll } from "./poll.js";
import { DataTable } from "./table.js";
import { appState, queueLink, orEmpty, wait } from "./plain.js";

const NAMES = ["state", "last_s", "queue", "user", "type", "text"];
const form = byId("filters");
const json = (row) => toRoot(`v1/applications/${encodeURIComponent(row.id)}?ledger=true`);
const of = (row, name) => (row.ledger ? row.ledger[name] : row.state === "running" ? null : 0);

const table = new DataTable(byId("list"), {
  label: "Applications", rowKey: (row) => row.id, pageSize: 25, sort: "-submitted_s",
  empty: "No application matches. Clear the filters, or run a job through the proxy.",
  columns: [
    { key: "id", label: "Application", cell: (row) => el("a", { href: toUi(`applications/${encodeURIComponent(row.id)}`) }, row.id) },
    { key: "name", label: "Name" },
    { key: "state", label: "State", value: (row) => appState(row)[0], cell: (row) => badge(...appState(row)) },
    { key: "type", label: "Type" },
    { key: "user", label: "User" },
    { key: "queue", label: "Queue", cell: (row) => queueLink(row.queue) },
    { key: "submitted_s", label: "Submitted", value: (row) => row.submitted_s || null, cell: (row) => (row.submitted_s ? dateTime(row.submitted_s) : "–") },
    { key: "elapsed_s", label: "Elapsed", number: true, cell: (row) => link(row, duration(row.elapsed_s)) },
    { key: "waiting", label: "Pending", number: true, value: (row) => row.wanted_g + row.wanted_q, json: (row) => (row.state === "running" ? toRoot(`v1/applications/${row.id}/waiting`) : json(row)), help: "Containers asked for and not allocated" },
    { key: "held", label: "Allocated", number: true, value: (row) => row.live_g + row.live_q, json, help: "Containers that it has now, without its application master" },
    { key: "delivered_g", label: "G", number: true, value: (row) => of(row, "containers_g"), json, help: "Guaranteed containers allocated so far" },
    { key: "delivered_q", label: "Q", number: true, value: (row) => of(row, "containers_q"), json, help: "Queueable containers allocated so far" },
    { key: "queueing", label: "Queued for", number: true, value: (row) => mean(row), cell: (row) => link(row, wait(mean(row))), help: "Mean wait of its queueable containers at nodes" },
    { key: "kills", label: "Kills", number: true, value: (row) => of(row, "kills"), json, help: "Containers that ran and were killed" },
    { key: "lost", label: "Lost", number: true, value: (row) => of(row, "lost_s"), cell: (row) => link(row, duration(of(row, "lost_s"))), help: "Work that kills lost" },
  ],
});
const link = (row, text) => el("a", { class: "n", href: json(row), title: "JSON", tabindex: "-1" }, text);
const mean = (row) => (row.ledger?.started_q ? row.ledger.queueing_s / row.ledger.started_q : null);

function filters() {
  const values = Object.fromEntries(NAMES.map((name) => [name, form.elements[name].value.trim()]));
  return new URLSearchParams(Object.entries(values).filter(([, value]) => value));
}

for (const name of NAMES) if (query().get(name) !== null) form.elements[name].value = query().get(name);

function asJson() {
  const params = filters();
  if (params.get("last_s")) params.set("since", Math.floor(Date.now() / 1000 - Number(params.get("last_s"))));
  params.delete("last_s");
  params.set("ledger", "true");
  params.set("sort", "-submitted");
  return toRoot(`v1/applications?${params}`);
}

const live = poll(() => toUi(`data/applications?${filters()}`), 3, (page) => {
  byId("list-json").href = asJson();
  const whole = form.elements.state.value === "all" && [...filters().keys()].join() === "state";
  setText("list-note", "");
  if (!orEmpty(byId("list"), !page.items.length && whole, "No application yet", "Submit a job to YARN. It appears here as soon as its application master registers through the proxy.")) return;
  table.update(page.items);
  setText("list-note", page.more ? `These are the ${count(page.items.length)} submitted last; there are more. Narrow the filters to see others.` : "");
});

function apply() {
  const values = Object.fromEntries(NAMES.map((name) => [name, form.elements[name].value.trim()]));
  setQuery({ ...values, state: values.state === "all" ? "" : values.state });
  live.soon();
}
form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
form.addEventListener("change", apply);
form.addEventListener("reset", () => setTimeout(apply));

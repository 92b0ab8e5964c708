// The list of applications; the server filters and pages.
import { el, toRoot, toUi, byId, setText, setNumber, count, dateTime, query, setQuery } from "./frame.js";
import { poll } from "./poll.js";
import { DataTable } from "./table.js";
import { orEmpty } from "./plain.js";
import { GROUPS, stateBadge, elapsed } from "./words.js";

const SHOWN = 500;
const form = byId("filters");
const NAMES = ["group", "class", "user", "queue", "text"].filter((name) => form.elements[name]);

/** `2/2 + 1/4`: ready of core, running of elastic. */
const services = (row) => row.services.map((one) => {
  const elastic = one.elastic ? ` + ${Math.max(0, one.running - one.core)}/${one.elastic}` : "";
  return `${one.name} ${Math.min(one.ready, one.core)}/${one.core}${elastic}`;
}).join(", ");

const table = new DataTable(byId("list"), {
  label: "Applications", rowKey: (row) => row.id, pageSize: 25, sort: "-received_s",
  empty: "No application matches. Clear the filters.",
  columns: [
    { key: "name", label: "Application", text: (row) => `${row.name} ${row.title} ${row.id} ${row.yarn_id}`, cell: (row) => el("a", { href: toUi(`applications/${row.id}`), title: row.yarn_id || row.id }, row.title || row.name) },
    { key: "state", label: "State", cell: (row) => stateBadge(row.state) },
    { key: "class", label: "Class" },
    { key: "user", label: "User" },
    { key: "queue", label: "Queue", value: (row) => row.queue || "–" },
    { key: "services", label: "Services", wrap: true, value: services, cell: (row) => el("span", { class: "services-line" }, services(row)), help: "Of each: ready of core, and elastic ones running of those described" },
    { key: "received_s", label: "Received", cell: (row) => dateTime(row.received_s) },
    { key: "elapsed", label: "Elapsed", number: true, value: (row) => (row.ended_s ?? Date.now() / 1000) - row.received_s, cell: (row) => el("a", { class: "n", href: toRoot(`v1/applications/${row.id}/history`), title: "JSON", tabindex: "-1" }, elapsed(row)) },
    { key: "why", label: "Why", wrap: true, sortable: false },
  ],
});

for (const name of NAMES) if (query().get(name) !== null) form.elements[name].value = query().get(name);

function parameters() {
  const params = new URLSearchParams({ limit: SHOWN });
  for (const name of NAMES) {
    const value = form.elements[name].value.trim();
    if (name === "group") for (const state of GROUPS[value] ?? []) params.append("state", state);
    else if (value) params.set(name, value);
  }
  return params;
}

const live = poll(() => toRoot(`v1/applications?${parameters()}`), 2, (page) => {
  byId("list-json").href = toRoot(`v1/applications?${parameters()}`);
  const whole = NAMES.every((name) => !form.elements[name].value.trim());
  if (!orEmpty(byId("list"), !page.items.length && whole, "No application yet", "Submit one: from a template, or from a description of your own.")) return setText("list-note", "");
  table.update(page.items);
  setText("list-note", page.more ? `These are the ${count(page.items.length)} received last; there are more. Narrow the filters to see others.` : "");
});

poll(toRoot("healthz"), 2, ({ applications }) => {
  for (const name of ["waiting", "starting", "ready", "finished", "failed"]) {
    setNumber(name, count(GROUPS[name].reduce((sum, state) => sum + (applications[state] ?? 0), 0)));
  }
});

function apply() {
  setQuery(Object.fromEntries(NAMES.map((name) => [name, form.elements[name].value.trim()])));
  live.soon();
}
form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
form.addEventListener("change", apply);
form.addEventListener("reset", () => setTimeout(apply));

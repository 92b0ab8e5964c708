// Quotas of users, and what is used of them.
import { el, toRoot, byId, count, memory } from "./frame.js";
import { poll } from "./poll.js";
import { DataTable } from "./table.js";
import { orEmpty } from "./plain.js";

const json = () => toRoot("v1/quotas");
const cell = (key, format) => (row) => el("a", { class: "n", href: json(), title: "JSON", tabindex: "-1" }, `${format(row[key])} of ${row.quota[key] === null ? "–" : format(row.quota[key])}`);
const column = (key, label, format) => ({ key, label, number: true, cell: cell(key, format) });
const table = new DataTable(byId("list"), {
  label: "Quotas", rowKey: (row) => row.user, sort: "user", empty: "No user matches.",
  columns: [
    { key: "user", label: "User" }, column("applications", "Applications", count), column("memory_mb", "Core memory", memory),
    column("vcores", "Core vcores", count), column("elastic", "Elastic instances", count), column("waiting", "Waiting", count),
  ],
});

poll(json(), 3, (page) => {
  if (orEmpty(byId("list"), !page.items.length, "Nobody uses anything", "Users appear with their first application.")) table.update(page.items);
});

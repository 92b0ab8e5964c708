// The list of templates.
import { el, toRoot, toUi, byId, dateTime } from "./frame.js";
import { poll } from "./poll.js";
import { DataTable } from "./table.js";
import { orEmpty } from "./plain.js";

const json = (row) => toRoot(`v1/templates/${encodeURIComponent(row.name)}`);
const table = new DataTable(byId("list"), {
  label: "Templates", rowKey: (row) => row.name, sort: "name", empty: "No template matches.",
  columns: [
    { key: "name", label: "Template", cell: (row) => el("a", { href: toUi(`templates/${row.name}`) }, row.name) },
    { key: "title", label: "Title", wrap: true },
    { key: "version", label: "Version", number: true, json },
    { key: "owner", label: "Owner" },
    { key: "created_s", label: "Stored", cell: (row) => dateTime(row.created_s) },
    { key: "use", label: "Use", sortable: false, cell: (row) => el("a", { href: toUi(`submit?template=${row.name}`), "aria-label": `Submit from ${row.name}` }, "Submit") },
  ],
});

poll(toRoot("v1/templates"), 5, (page) => {
  if (orEmpty(byId("list"), !page.items.length, "No template yet", "Write one below: a description with parameters.")) table.update(page.items);
});

byId("new")?.addEventListener("submit", (event) => {
  event.preventDefault();
  location.href = toUi(`templates/${event.target.elements.name.value.trim()}`);
});

// One template: its text, parameters and versions; a change is a new version.
import { el, toRoot, toUi, byId, setText, dateTime, count, send, mayAct, emptyState, query } from "./frame.js";
import { plainTable, fill } from "./plain.js";
import { ask, mistakeList } from "./words.js";

const name = document.querySelector("[data-template]").dataset.template;
const path = `v1/templates/${encodeURIComponent(name)}`;
const scroll = (label, table) => el("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": label }, table);

function show(template) {
  byId("text").value = template.text;
  setText("subtitle", `${template.title ? `${template.title} · ` : ""}version ${template.version} of ${template.owner || "nobody"}, ${dateTime(template.created_s)}`);
  byId("use").hidden = false;
  if (byId("delete")) byId("delete").hidden = false;
  const rows = Object.entries(template.parameters).map(([key, one]) => [el("code", {}, key), one.type, one.default === null ? "has to be given" : String(one.default), one.choices.join(", ") || "–", one.description || "–"]);
  fill(byId("parameters"), rows.length ? scroll("Parameters", plainTable([["Name"], ["Type"], ["Default"], ["Choices"], ["Meaning", "wrap"]], rows, "Parameters")) : emptyState("No parameters", "Each submission of it is the same."));
  const versions = template.versions.map((one) => [one.deleted ? `${count(one.version)} (deleted)` : el("a", { href: toUi(`templates/${name}?version=${one.version}`) }, count(one.version)), one.owner || "–", dateTime(one.created_s)]);
  fill(byId("versions"), scroll("Versions", plainTable([["Version"], ["Owner"], ["Stored"]], versions, "Versions")));
}

async function begin() {
  document.body.dataset.polled = "no";
  const version = query().get("version");
  const known = (await (await fetch(toRoot("v1/templates"))).json()).items.some((one) => one.name === name);
  if (known || version) {
    const answer = await fetch(toRoot(`${path}${version ? `?version=${encodeURIComponent(version)}` : ""}`));
    if (answer.ok) show(await answer.json());
    else setText("subtitle", "there is no such version");
  }
  else {
    setText("subtitle", "not stored yet");
    fill(byId("parameters"), emptyState("No parameters yet", "Save the template first."));
    fill(byId("versions"), emptyState("No version yet", "Save the template first."));
  }
  document.body.dataset.polled = "yes";
}

if (mayAct) {
  byId("edit").addEventListener("submit", async (event) => {
    event.preventDefault();
    const [answer, lines] = await ask(send, byId("banner"), "PUT", path, { text: byId("text").value });
    if (answer === null) {
      if (lines.length) fill(byId("checked"), el("p", {}, "Not saved:"), mistakeList(lines, byId("text")));
      return;
    }
    show(answer);
    fill(byId("checked"), el("p", { class: "done" }, `Saved as version ${answer.version}.`));
  });
  byId("delete").addEventListener("click", async () => {
    if (byId("delete").dataset.sure !== "yes") {
      byId("delete").dataset.sure = "yes";
      byId("delete").textContent = "Delete it: press again";
      return;
    }
    if (await send("DELETE", path, undefined) !== null) location.href = toUi("templates");
  });
}
begin();

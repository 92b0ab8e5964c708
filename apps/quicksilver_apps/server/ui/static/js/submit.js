// Submitting: from a template, whose parameters become fields, or from a text; checked before it is sent.
import { el, toRoot, toUi, byId, setText, memory, count, send, mayAct } from "./frame.js";
import { fill } from "./plain.js";
import { ask, mistakeList } from "./words.js";

const form = byId("submission");
let parameters = {};

/** A field for a parameter, by its type and choices. */
function field(name, one, before) {
  const id = `p-${name}`, value = before ?? one.default;
  const attributes = { id, name, "data-type": one.type, required: one.default === null };
  const hint = el("span", { class: "hint", id: `${id}-hint` }, [one.description, one.default === null ? "has to be given" : ""].filter(Boolean).join("; ") || one.type);
  attributes["aria-describedby"] = `${id}-hint`;
  if (one.type === "boolean") {
    const box = el("input", { id, name, "data-type": one.type, type: "checkbox", "aria-describedby": `${id}-hint` });
    box.checked = value === true || value === "true";
    return el("label", { class: "check" }, box, name, hint);
  }
  if (one.choices.length) {
    const select = el("select", attributes, ...one.choices.map((choice) => el("option", { value: choice, selected: choice === value }, String(choice))));
    return el("label", {}, name, select, hint);
  }
  const numeric = one.type === "integer" || one.type === "number";
  return el("label", {}, name, el("input", { ...attributes, type: numeric ? "number" : "text", step: one.type === "number" ? "any" : null, value: value ?? "", maxlength: numeric ? null : 10000, autocomplete: "off" }), hint);
}

function fields(found) {
  if (JSON.stringify(found) === JSON.stringify(parameters)) return;
  const before = values();
  parameters = found;
  byId("values-card").hidden = !Object.keys(found).length;
  fill(byId("values"), ...Object.entries(found).map(([name, one]) => field(name, one, before[name])));
}

function values() {
  const given = {};
  for (const one of byId("values").querySelectorAll("[data-type]")) {
    if (one.dataset.type === "boolean") given[one.name] = one.checked;
    else if (one.value !== "") given[one.name] = ["integer", "number"].includes(one.dataset.type) ? Number(one.value) : one.value;
  }
  return given;
}

function body() {
  const template = byId("template").value;
  const found = { parameters: values() };
  if (template) found.template = template;
  else found.description = byId("text").value;
  for (const name of ["queue", "user"]) {
    const value = form.elements[name]?.value.trim();
    if (value) found[name] = value;
  }
  return found;
}

function forget() { byId("go").disabled = true; }

function showMistakes(lines) {
  const own = !byId("template").value;
  fill(byId("checked"), el("p", {}, `${count(lines.length)} mistake${lines.length === 1 ? "" : "s"}; nothing is submitted:`), mistakeList(lines, own ? byId("text") : null));
}

async function chosen() {
  forget();
  const name = byId("template").value;
  byId("own").hidden = Boolean(name);
  setText("template-note", "");
  if (!name) return fields({});
  const answer = await fetch(toRoot(`v1/templates/${encodeURIComponent(name)}`));
  if (!answer.ok) return setText("template-note", `There is no template ${name}.`);
  const template = await answer.json();
  setText("template-note", `${template.title || template.name}, version ${template.version}, of ${template.owner || "nobody"}`);
  fields(template.parameters);
}

async function check() {
  forget();
  const [answer, lines] = await ask(send, byId("banner"), "POST", "v1/check", body());
  if (answer === null) { if (lines.length) showMistakes(lines); return; }
  fields(answer.parameters);
  if (!answer.ok) return showMistakes(answer.mistakes);
  const size = `${memory(answer.memory_mb)} and ${count(answer.vcores)} vcores for its master and core instances`;
  fill(byId("checked"), el("p", { class: "done" }, `No mistakes. It needs ${size}.`), ...answer.warnings.map((text) => el("p", { class: "note" }, text)));
  byId("go").disabled = false;
}

async function submit() {
  const [answer, lines] = await ask(send, byId("banner"), "POST", "v1/applications", body());
  forget();
  if (answer !== null) location.href = toUi(`applications/${answer.id}`);
  else if (lines.length) showMistakes(lines);
}

async function begin() {
  const page = await (await fetch(toRoot("v1/templates"))).json();
  byId("template").append(...page.items.map((one) => el("option", { value: one.name }, one.title ? `${one.name}: ${one.title}` : one.name)));
  const wanted = form.dataset.template;
  if (page.items.some((one) => one.name === wanted)) byId("template").value = wanted;
  await chosen();
  document.body.dataset.polled = "yes";
}

if (mayAct && form) {
  document.body.dataset.polled = "no";
  byId("template").addEventListener("change", chosen);
  form.addEventListener("input", forget);
  form.addEventListener("submit", (event) => { event.preventDefault(); check(); });
  byId("go").addEventListener("click", submit);
  begin();
}

// One application: services, instances, logs, timeline, states; scale and kill.
import { el, toRoot, toUi, byId, setText, count, memory, duration, dateTime, clock, send, emptyState } from "./frame.js";
import { poll } from "./poll.js";
import { plainTable, fill } from "./plain.js";
import { Lanes } from "./lanes.js";
import { stateBadge, instanceBadge, isOver, elapsed, outside } from "./words.js";

const id = document.querySelector("[data-app]").dataset.app;
const path = `v1/applications/${encodeURIComponent(id)}`;
const lanes = new Lanes(byId("timeline"), (text) => setText("pointed", text));
const scroll = (label, table) => el("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": label }, table);
const number = (value) => el("a", { class: "n", href: toRoot(path), title: "JSON", tabindex: "-1" }, count(value));
let shown = null; // the log that is read: [service, index, container]
let file = "stdout";
let spans = [];

/** Draws anew only what changed, so that the focus and what is typed stay. */
const drawn = new Map();
function redraw(name, data, draw) {
  const text = JSON.stringify(data);
  if (drawn.get(name) === text || byId(name).contains(document.activeElement) && document.activeElement.tagName === "INPUT") return;
  drawn.set(name, text);
  draw();
}

function scaleForm(service, may) {
  if (!service.elastic) return "–";
  const wanted = service.wanted === null ? 0 : Math.max(0, service.wanted - service.core);
  if (!may) return number(wanted);
  const input = el("input", { type: "number", min: 0, max: service.elastic, value: wanted, "aria-label": `Elastic instances of ${service.name}`, required: true });
  const form = el("form", { class: "scale" }, input, el("button", { type: "submit" }, "Set"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (await send("PUT", `${path}/scale`, { service: service.name, count: Number(input.value) }) !== null) {
      input.blur();
      live.soon();
    }
  });
  return form;
}

function services(app) {
  const may = app.may_change && ["starting", "ready"].includes(app.state);
  const rows = app.services.map((one) => [
    el("strong", {}, one.name), one.state ? instanceBadge(one.state) : "–", number(one.core), number(one.elastic),
    one.wanted === null ? "–" : number(one.wanted), number(one.running), number(one.ready),
    `${memory(one.memory_mb)}, ${count(one.vcores)} vcores`, scaleForm(one, may),
  ]);
  fill(byId("services"), scroll("Services", plainTable([["Service"], ["State"], ["Core", true], ["Elastic", true], ["Wanted", true], ["Running", true], ["Ready", true], ["Each"], ["Elastic wanted"]], rows, "Services")));
}

function links(one) {
  const found = Object.entries(one.links ?? {}).map(([name, url]) => outside(url, name));
  for (const [name, port] of Object.entries(one.ports ?? {})) if (!(name in (one.links ?? {}))) found.push(el("span", {}, `${name} ${port}`));
  return el("span", {}, ...(found.length ? found.flatMap((item, i) => (i ? [", ", item] : [item])) : ["–"]));
}

function instances(app) {
  const now = app.services.flatMap((service) => service.instances.map((one) => ({ ...one, service: service.name })));
  const rows = now.map((one) => [
    `${one.service}[${one.index}]`, instanceBadge(one.state), one.kind, one.node || "–", links(one),
    one.restarts ? count(one.restarts) : "0", one.since_s ? clock(one.since_s) : "–",
    one.container_id ? el("button", { type: "button", "aria-label": `Log of ${one.service}[${one.index}]`, onclick: () => readLog(one.service, one.index, one.container_id) }, "Log") : "–",
    one.diagnostics || "",
  ]);
  if (!rows.length) return pastInstances();
  fill(byId("instances"), scroll("Instances", plainTable([["Instance"], ["State"], ["Kind"], ["Node"], ["Links and ports"], ["Restarts", true], ["Since"], ["Log"], ["Why", "wrap"]], rows, "Instances")));
}

function pastInstances() {
  if (!spans.length) return fill(byId("instances"), emptyState("No instance yet", "They appear as soon as the master has containers."));
  const rows = spans.map((one) => [
    `${one.service}[${one.number}]`, instanceBadge(one.state), one.kind, one.node, clock(one.started_s), one.ended_s ? duration(one.ended_s - one.started_s) : "–",
    el("button", { type: "button", "aria-label": `Log of ${one.container_id}`, onclick: () => readLog(one.service, one.number, one.container_id) }, "Log"), one.diagnostics,
  ]);
  fill(byId("instances"), scroll("Instances", plainTable([["Instance"], ["State"], ["Kind"], ["Node"], ["From"], ["Ran", true], ["Log"], ["Why", "wrap"]], rows, "Instances")));
}

async function readLog(service, index, container) {
  shown = [service, index, container];
  byId("log-card").hidden = false;
  setText("log-title", `Log of ${service}[${index}]`);
  const query = new URLSearchParams({ file, container });
  const url = toRoot(`${path}/logs/${encodeURIComponent(service)}/${index}?${query}`);
  byId("log-link").href = url;
  try {
    const answer = await fetch(url, { cache: "no-store" });
    const text = await answer.text();
    if (!answer.ok) throw new Error(JSON.parse(text).error.message);
    byId("log").textContent = text || "(empty)";
    setText("log-note", answer.headers.get("X-Quicksilver-Whole") === "true" ? "The whole file." : "The end of the file.");
    byId("log").scrollTop = byId("log").scrollHeight;
  } catch (error) {
    byId("log").textContent = "";
    setText("log-note", `It cannot be read now: ${error.message}`);
  }
  byId("log-card").scrollIntoView({ block: "nearest" });
}

for (const button of byId("log-files").querySelectorAll("button")) {
  button.addEventListener("click", () => {
    file = button.dataset.file;
    for (const one of byId("log-files").querySelectorAll("button")) one.setAttribute("aria-pressed", String(one === button));
    if (shown) readLog(...shown);
  });
}
byId("log-again").addEventListener("click", () => shown && readLog(...shown));

function facts(app) {
  const rows = [
    ["Request", app.id], ["YARN", app.yarn_id || "–"], ["User", app.user], ["Class", app.class], ["Queue", app.queue || "as YARN decides"],
    ["Core, with master", `${memory(app.memory_mb)}, ${count(app.vcores)} vcores`], ["Elastic", count(app.elastic)],
    ["Received", dateTime(app.received_s)], ["At YARN", app.submitted_s ? dateTime(app.submitted_s) : "–"], ["Master began", app.started_s ? dateTime(app.started_s) : "–"],
    ["Ended", app.ended_s ? dateTime(app.ended_s) : "–"],
    ["Template", app.template ? el("a", { href: toUi(`templates/${app.template}`) }, `${app.template}, version ${app.template_version}`) : "–"],
    ["Tracking page", app.tracking_url ? outside(app.tracking_url, "at YARN") : "–"],
    ...Object.entries(app.labels).map(([name, value]) => [name, String(value)]),
  ];
  fill(byId("facts"), ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function events(app) {
  if (!app.events.length) return fill(byId("events"), emptyState("Nothing yet", "The master's own events appear while it runs."));
  const rows = [...app.events].reverse().slice(0, 25).map((one) => [clock(one.at_s), one.service ? `${one.service}${one.index === null || one.index === undefined ? "" : `[${one.index}]`}` : "master", one.text]);
  fill(byId("events"), scroll("Events", plainTable([["At"], ["Of"], ["What", "wrap"]], rows, "Events")));
}

async function ask(url) {
  const answer = await fetch(url, { cache: "no-store" });
  return answer.ok ? answer.json() : null;
}

async function timeline(app) {
  const history = await ask(toRoot(`${path}/history`));
  if (history === null) return;
  spans = history.instances;
  fill(byId("changes"), ...history.changes.map((one) => el("li", {}, el("time", {}, clock(one.at_s)), el("strong", {}, one.target), `: ${one.why}`)));
  lanes.draw(history.changes, history.instances, app.ended_s ?? Date.now() / 1000);
  redraw("instances", [app.services, spans, app.state], () => instances(app));
}

const live = poll(toRoot(path), 2, (app) => {
  byId("known").hidden = false;
  setText("name", app.title || app.name);
  fill(byId("state"), stateBadge(app.state));
  setText("subtitle", `${app.yarn_id || app.id} · ${app.user} · ${app.class} · ${elapsed(app)}`);
  setText("why", app.kill_s && !isOver(app.state) ? `A kill was ordered: ${app.why}` : app.why);
  byId("why").hidden = !["queued", "refused", "failed", "lost", "killed", "ending"].includes(app.state);
  setText("live-note", app.live ? "as its master reports" : isOver(app.state) ? "as its master reported last" : "its master does not answer yet");
  byId("kill").hidden = !app.may_change || isOver(app.state) || Boolean(app.kill_s);
  redraw("services", [app.services.map(({ instances: _, ...rest }) => rest), app.state, app.may_change], () => services(app));
  facts(app);
  redraw("events", app.events, () => events(app));
  timeline(app);
});

fetch(toRoot(path)).then((answer) => { byId("unknown").hidden = answer.status !== 404; if (answer.status === 404) live.close(); });

byId("kill").addEventListener("click", () => byId("ask").showModal());
byId("ask").addEventListener("close", async () => {
  if (byId("ask").returnValue !== "yes") return;
  await send("POST", `${path}/kill`, { reason: byId("reason").value.trim() });
  live.soon();
});

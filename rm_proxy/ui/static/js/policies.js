// The policies: in force and from where, windows, roll-outs, shadow, changes; check and reload.
import { el, toRoot, toUi, byId, setNumber, setText, badge, count, decimal, duration, dateTime, send, mayAct, emptyState } from "./frame.js";
import { poll } from "./poll.js";
import { DataTable } from "./table.js";
import { plainTable, fill, wait } from "./plain.js";

const ORDER = ["route", "classify", "partition", "admit", "quota", "dispatch", "probe", "place", "match", "order", "fill", "preempt", "shed", "steal", "correct", "police", "promote", "headroom"];
const DOES = {
  route: "guaranteed or queueable", classify: "short or long job", partition: "nodes kept for short jobs", admit: "which applications are in service", quota: "how many Qs",
  dispatch: "who gets the next free place", probe: "turns reserved in queues of nodes", place: "at which node", match: "containers of a request to nodes", order: "which waiting one starts first",
  fill: "which fits into the room left", preempt: "which Q is throttled or preempted for a G", shed: "how much may be queued at a node", steal: "what an idle node takes over", correct: "when a waiting one moves",
  police: "what Qs may use of a node", promote: "when a Q becomes guaranteed", headroom: "what applications see as free",
};
const PERIODIC = new Set(["shed", "steal", "correct", "police"]);
const scroll = (label, table) => el("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": label }, table);
const number = (value, path) => el("a", { class: "n", href: toRoot(path), title: "JSON" }, value);
const value = (one) => (one !== null && typeof one === "object" ? JSON.stringify(one) : String(one));

/** What a rule matches, without what it leaves open. */
function matched(match) {
  const open = (key, what) => what === null || what === "" || (Array.isArray(what) && !what.length) || (key === "progress" && what.min === 0 && what.max === 1);
  const text = (what) => (Array.isArray(what) ? what.join(", ") : typeof what === "object" ? `(${matched(what)})` : what);
  return Object.entries(match).filter(([key, what]) => !open(key, what)).map(([key, what]) => [key, text(what)]).filter(([, what]) => what !== "()").map(([key, what]) => `${key}=${what}`).join(" ");
}

function settings(one) {
  if (one.rules.length) return el("span", { class: "settings" }, ...one.rules.map((rule, i) => {
    const own = Object.entries(rule.settings ?? {}).map(([key, what]) => ` ${key}=${value(what)}`).join("");
    return el("span", {}, `${i + 1}. ${matched(rule.match ?? {}) || "everything"} → ${rule.policy}${own}`);
  }));
  const pairs = Object.entries(one.settings);
  return pairs.length ? el("span", { class: "settings" }, ...pairs.map(([key, what]) => el("span", {}, `${key}=${value(what)}`))) : "–";
}

function inForce({ active, windows, alternative_settings: others }) {
  const rows = [...active].sort((a, b) => ORDER.indexOf(a.slot) - ORDER.indexOf(b.slot)).map((one) => [
    el("span", {}, el("strong", {}, one.slot), ` ${DOES[one.slot] ? `· ${DOES[one.slot]}` : ""}`),
    number(one.name, "v1/policies"), settings(one), badge(one.origin, one.origin.startsWith("file") ? "g" : ""),
  ]);
  fill(byId("slots"), scroll("Policies in force", plainTable([["Slot"], ["Policy"], ["Settings", "wrap"], ["From"]], rows, "Policies in force")));
  const open = windows.filter((one) => one.open);
  byId("override").hidden = !open.length;
  setText("override", open.map((one) => `Window ${one.name} is open until ${dateTime(one.ends_s)}: in ${one.queues.join(", ")} the alternative ${one.use} decides, with ${Object.keys(others[one.use] ?? {}).join(", ") || "nothing else"} other than below.`).join(" "));
}

function windows({ windows: all, time_zone: zone }) {
  if (!all.length) return fill(byId("windows"), emptyState("No windows", "A window puts an alternative in force at times: policies.windows in quicksilver.yaml."));
  const rows = all.map((one) => [
    one.name, badge(one.open ? "open" : "closed", one.open ? "ok" : ""), one.use, one.queues.join(", "),
    one.open ? `until ${dateTime(one.ends_s)}` : one.begins_s ? `from ${dateTime(one.begins_s)}` : "never again", el("code", {}, one.cron),
  ]);
  fill(byId("windows"), scroll("Windows", plainTable([["Window"], ["State"], ["Alternative"], ["Queues"], ["Next"], ["Cron"]], rows, "Windows")),
    el("p", { class: "note" }, `Cron times are in ${zone || "the proxy's time zone"}; times beside them in yours.`));
}

function rollouts({ rollouts: all }) {
  if (!all.length) {
    byId("arms").replaceChildren();
    return fill(byId("rollout"), emptyState("No roll-out", "To try an alternative on a part of the applications, name it in policies.alternatives, and write policies.rollout: [{percent: 10, use: NAME}]."));
  }
  const rows = all.map((one) => [one.use, one.queues.join(", "), number(`${decimal(one.percent)} %`, "v1/policies"), number(`${count(one.taken)} of ${count(one.running)}`, "v1/policies")]);
  fill(byId("rollout"), scroll("Roll-outs", plainTable([["Alternative"], ["Queues"], ["Part", true], ["Running applications", true]], rows, "Roll-outs")));
}

let armsAt = 0;
async function arms(wanted) {
  if (!wanted || Date.now() - armsAt < 15000) return;
  armsAt = Date.now();
  const response = await fetch(toRoot("v1/policies/rollout"), { cache: "no-store" });
  if (!response.ok) return;
  const known = await response.json();
  if (!known.arms.length) return fill(byId("arms"), el("p", { class: "note" }, "No application of these queues has finished since the roll-out changed."));
  const n = (text) => number(text, "v1/policies/rollout");
  const rows = known.arms.map((one) => [one.use || "the rest", n(count(one.applications)), n(duration(one.elapsed_p50_s)), n(duration(one.elapsed_p95_s)), n(wait(one.queueing_mean_s)), n(count(one.kills)), n(duration(one.lost_s))]);
  fill(byId("arms"), scroll("Finished applications", plainTable([["Finished with"], ["Applications", true], ["Median", true], ["p95", true], ["Mean wait at nodes", true], ["Kills", true], ["Work lost", true]], rows, "Finished applications")),
    el("p", { class: "note" }, `Submitted ${known.since_s ? `since ${dateTime(known.since_s)}` : "as far back as the store goes"}. Different jobs: a difference may be chance.`));
}

function shadow(all) {
  if (!all.length) return fill(byId("shadow"), emptyState("Nothing is compared", "Name alternatives in policies.shadow: each is asked as the policies in force are, and where it differs is counted; nothing follows it."));
  const rows = all.map((one) => {
    const last = one.examples[0];
    return [one.alternative, one.slot, `${one.policy} beside ${one.active}`, number(count(one.decisions), "v1/policies/compare"), number(`${decimal(one.differ_percent)} %`, "v1/policies/compare"),
      one.wait_less_s === null ? "–" : number(wait(one.wait_less_s), "v1/policies/compare"), number(count(one.faults), "v1/policies/compare"),
      last ? `${last.chosen} → ${last.other}: ${last.reason}` : "–"];
  });
  fill(byId("shadow"), scroll("Alternatives in shadow", plainTable([["Alternative"], ["Slot"], ["Policy"], ["Decisions", true], ["Differ", true], ["Would wait less by", true], ["Faults", true], ["Last difference", "wrap"]], rows, "Alternatives in shadow")));
}

const difference = (before, after) => el("span", {}, before ? el("del", {}, before) : "", " ", after ? el("ins", {}, after) : "");
const history = new DataTable(byId("history"), {
  label: "Changes", rowKey: (row) => row.id, name: "h", sort: "-at_s", pageSize: 15, empty: "Nothing changed since the store began. A reload is recorded here with its author.",
  columns: [
    { key: "at_s", label: "When", cell: (row) => dateTime(row.at_s) },
    { key: "who", label: "Who" },
    { key: "how", label: "How", cell: (row) => badge(row.ok ? row.how : `${row.how}, refused`, row.ok ? "" : "bad") },
    { key: "path", label: "Setting", value: (row) => row.path || "the whole file", cell: (row) => el("a", { class: "n", href: toRoot("v1/policies/changes?starts=false"), title: "JSON", tabindex: "-1" }, row.path || "the whole file") },
    { key: "change", label: "Change", wrap: true, value: (row) => `${row.before} ${row.after} ${row.error}`, cell: (row) => (row.error ? row.error : difference(row.before, row.after)), sortable: false },
  ],
});

poll(toUi("data/policies"), 3, ({ policies, compare, changes }) => {
  setText("subtitle", policies.source ? `from ${policies.source}` : "no settings file: the preset decides");
  if (byId("file")) setText("file", policies.source || "quicksilver.yaml");
  setNumber("version", policies.version.split("+")[0]);
  setText("version-hint", "number and digest");
  setNumber("preset", policies.preset || "none");
  const own = new Set(policies.active.filter((one) => one.origin.startsWith("file")).map((one) => one.slot));
  setText("preset-hint", own.size ? `the file has its own: ${[...own].join(", ")}` : "nothing over it");
  setNumber("mode", policies.mode);
  setText("mode-hint", policies.queues.length ? `Qs in ${policies.queues.join(", ")}` : "no queue may have Qs");
  const next = policies.windows.find((one) => !one.open && one.begins_s);
  setNumber("window", policies.windows_open.join(", ") || "none open");
  setText("window-hint", next ? `next: ${next.name}, ${dateTime(next.begins_s)}` : policies.windows.length ? "" : "none defined");
  setNumber("rollouts", count(policies.rollouts.length));
  setText("rollouts-hint", policies.rollouts.length ? policies.rollouts.map((one) => `${one.use} ${decimal(one.percent)} %`).join(", ") : "none");
  // What is compared once a second, such as limits of queues at nodes, is no decision about a container.
  const decided = compare.filter((one) => !PERIODIC.has(one.slot));
  const differ = decided.reduce((sum, one) => sum + one.differ, 0), all = decided.reduce((sum, one) => sum + one.decisions, 0);
  setNumber("differ", all ? `${decimal((100 * differ) / all)} %` : "–");
  setText("differ-hint", compare.length ? `of ${count(all)} decisions about containers` : "no alternative in shadow");
  inForce(policies);
  windows(policies);
  rollouts(policies);
  arms(policies.rollouts.length);
  shadow(compare);
  history.update(changes);
});

function result(answer, applied) {
  const parts = [];
  if (applied) parts.push(el("p", { class: "done" }, `In force now: ${answer.version}, before ${answer.before}.`));
  else if (!answer.changes.length) parts.push(el("p", { class: "note" }, `${answer.file}: no mistakes. It has the settings that are in force.`));
  else parts.push(el("p", {}, `${answer.file}: no mistakes. It changes ${count(answer.changes.length)} setting${answer.changes.length === 1 ? "" : "s"}:`));
  if (answer.changes.length) parts.push(scroll("Changes", plainTable([["Setting"], ["Change", "wrap"]], answer.changes.map((one) => [el("code", {}, one.path), difference(one.before, one.after)]), "Changes")));
  for (const [title, lines] of [["Without effect", answer.kept], ["Remarks", answer.notes]]) {
    if (lines.length) parts.push(el("h3", {}, title), el("ul", {}, ...lines.map((line) => el("li", {}, line))));
  }
  const nodes = answer.nodes ?? [];
  const failed = nodes.filter((one) => !one.ok);
  if (nodes.length) parts.push(el("p", { class: "note" }, `${count(nodes.length - failed.length)} of ${count(nodes.length)} sidecars took their settings.`));
  if (failed.length) parts.push(el("pre", { class: "mistakes" }, failed.map((one) => `${one.node_id}: ${one.error}`).join("\n")));
  fill(byId("checked"), ...parts);
}

/** Asks the proxy; a file with mistakes shows them, and gives null. */
async function ask(path, body) {
  const answer = await send("POST", path, body);
  const banner = byId("banner");
  if (answer === null && banner.textContent.startsWith("Refused (422)")) {
    fill(byId("checked"), el("p", {}, "Refused; nothing changed:"), el("pre", { class: "mistakes" }, banner.textContent.replace(/^Refused \(422\): /, "")));
    banner.hidden = true;
  }
  return answer;
}

if (mayAct && byId("reload")) {
  const form = byId("reload"), apply = byId("apply");
  let checked = null;
  const forget = () => { checked = null; apply.disabled = true; };
  form.addEventListener("input", forget);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    forget();
    const file = form.elements.file.value.trim();
    const answer = await ask("v1/policies/check", { file });
    if (answer === null) return;
    result(answer, false);
    checked = { file, digest: answer.digest };
    apply.disabled = false;
  });
  apply.addEventListener("click", async () => {
    if (!checked) return;
    const body = { who: "dashboard", file: checked.file, expect: checked.digest, nodes: form.elements.nodes.checked };
    forget();
    const answer = await ask("v1/policies/reload", body);
    if (answer !== null) result(answer, true);
  });
}

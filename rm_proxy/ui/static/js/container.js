// One container: its story, the decision behind it, its candidates and events.
import { el, toRoot, byId, setText, badge, count, decimal, duration, dateTime, emptyState } from "./frame.js";
import { poll } from "./poll.js";
import { plainTable, appLink, containerLink, nodeLink, queueLink, size, fill, wait } from "./plain.js";

const id = document.querySelector("[data-container]").dataset.container;
const url = toRoot(`v1/containers/${encodeURIComponent(id)}`);
const KINDS = { killed: "bad", lost: "bad", failed: "bad", shed: "warn", held: "waiting", started: "ok", ended: "" };
const scroll = (label, table) => el("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": label }, table);

function facts({ decision, application, followed_by: followed }) {
  if (!decision) return fill(byId("facts"), el("dt", {}, "Decision"), el("dd", {}, "The proxy has none of it: it was allocated before, or the store forgot it."));
  const rows = [
    ["Kind", badge(decision.kind === "Q" ? "queueable" : "guaranteed", decision.kind.toLowerCase())],
    ["Why", decision.route_reason],
    ["Application", appLink(decision.app_id)],
    ["Queue", application ? queueLink(application.queue) : "–"],
    ["Node", nodeLink(decision.node_id)],
    ["Why this node", decision.place_reason || "the ResourceManager's scheduler chose it"],
    ["Size", size(decision.resources)],
    ["Expected to run", `${duration(decision.expected_s)}${decision.expected_by ? ` (by ${decision.expected_by})` : ""}`],
    ["Requested", dateTime(decision.asked_s)],
    ["Allocated", `${dateTime(decision.granted_s)}, ${wait(decision.delay_s)} later`],
    ["In the place of", decision.follows ? containerLink(decision.follows) : "–"],
    ["Followed by", followed.length ? containerLink(followed[0]) : "–"],
    ["Settings", decision.version || "no policy decided"],
  ];
  fill(byId("facts"), ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function show(known) {
  byId("known").hidden = false;
  const last = known.events.at(-1);
  const state = known.live?.container.state ?? last?.kind ?? (known.completion ? "ended" : "allocated");
  fill(byId("state"), badge(state, KINDS[state] ?? { waiting: "waiting", running: "ok", shrunk: "shrunk" }[state] ?? ""));
  setText("subtitle", known.application ? `${known.application.name} of ${known.application.user}` : "");
  fill(byId("story"), ...(known.story.length ? known.story : ["Nothing happened yet."]).map((text) => el("li", {}, text)));
  facts(known);
  const scores = known.decision?.scores ?? [];
  fill(byId("scores"), scores.length
    ? scroll("Candidates", plainTable([["Node"], [`Score${known.decision.unit ? ` (${known.decision.unit})` : ""}`, true]], scores.slice(0, 30).map((one) =>
      [nodeLink(one.node), el("a", { class: "n", href: url, title: "JSON" }, one.score === null ? "∞" : decimal(one.score))]), "Candidates, lower is better"))
    : emptyState("No candidates", "No policy compared nodes for it."));
  fill(byId("events"), known.events.length
    ? scroll("Events", plainTable([["At"], ["What"], ["Node"], ["Waited", true], ["Ran", true], ["Shrunk", true], ["Why", "wrap"]], known.events.map((one) =>
      [dateTime(one.at_s), badge(one.kind, KINDS[one.kind] ?? ""), nodeLink(one.node_id),
        ...[wait(one.waited_s || null), wait(one.ran_s), count(one.times_shrunk)].map((text) => el("a", { class: "n", href: toRoot(`v1/events?container=${id}`), title: "JSON" }, text)),
        [one.cause, one.reason].filter(Boolean).join(": ") || "–"]), "Events"))
    : emptyState("No event yet", "Its node's sidecar reports the first one when its application master starts it."));
}

const first = await fetch(url, { cache: "no-store" });
if (first.status === 404) {
  byId("unknown").hidden = false;
  document.body.dataset.polled = "yes";
} else poll(url, 3, show);

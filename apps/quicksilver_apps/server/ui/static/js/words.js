// Words of states, and small parts that the app server's pages share.
import { el, badge, duration } from "./frame.js";

export const WAITING = ["received", "checked", "queued"];
export const STARTING = ["submitting", "submitted", "accepted", "starting"];
export const GROUPS = {
  waiting: WAITING, starting: STARTING, ready: ["ready"], ending: ["ending"],
  living: [...WAITING, ...STARTING, "ready", "ending"], finished: ["finished"], failed: ["failed", "lost", "refused"], killed: ["killed"],
};
const KINDS = { ready: "ok", finished: "ok", failed: "bad", lost: "bad", refused: "bad", killed: "warn", ending: "warn" };
export const kindOf = (state) => KINDS[state] ?? (WAITING.includes(state) ? "waiting" : STARTING.includes(state) ? "shrunk" : "");
export const stateBadge = (state) => badge(state, kindOf(state));
const INSTANCES = { ready: "ok", running: "ok", starting: "shrunk", waiting: "waiting", lost: "bad", ended: "" };
export const instanceBadge = (state) => badge(state, INSTANCES[state] ?? "");
export const isOver = (state) => ["refused", "finished", "failed", "killed", "lost"].includes(state);

/** How long an application has been here, until its end. */
export const elapsed = (one) => duration((one.ended_s ?? Date.now() / 1000) - one.received_s);

/** A link to another host: it opens beside this page. */
export const outside = (url, text) =>
  /^https?:\/\//.test(url) ? el("a", { href: url, rel: "external noreferrer noopener", target: "_blank" }, text) : el("span", {}, text);

/** Mistakes as a list; with a text field, a button goes to the line of each. */
export function mistakeList(lines, field) {
  return el("ul", { class: "mistake-list" }, ...lines.map((text) => {
    const found = /^[^:\s]+:(\d+): (.*)$/s.exec(text);
    if (!found || !field) return el("li", {}, text);
    const line = Number(found[1]);
    return el("li", {}, el("button", { type: "button", onclick: () => goTo(field, line) }, `Line ${line}`), found[2]);
  }));
}

function goTo(field, line) {
  const lines = field.value.split("\n");
  const from = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  field.focus();
  field.setSelectionRange(from, from + (lines[line - 1] ?? "").length);
  field.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(field).lineHeight));
}

/** Asks a route for what may be refused with lines; returns [answer, lines]. */
export async function ask(send, banner, method, path, body) {
  const answer = await send(method, path, body);
  if (answer === null && banner.textContent.startsWith("Refused (422)")) {
    const lines = banner.textContent.replace(/^Refused \(422\): /, "").split("\n");
    banner.hidden = true;
    banner.textContent = "";
    return [null, lines];
  }
  return [answer, []];
}

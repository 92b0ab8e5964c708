// Small parts that several pages share: tables without controls, sizes, names of containers.
import { el, memory, decimal, duration, toUi, emptyState } from "./frame.js";

/** A table without sorting: heads [[label, number?]], rows of nodes or texts. */
export function plainTable(heads, rows, label) {
  return el("table", { class: "plain", "aria-label": label },
    el("thead", {}, el("tr", {}, ...heads.map(([text, number]) => el("th", { scope: "col", class: number === true ? "num" : null }, text)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, i) => el("td", { class: heads[i][1] === "wrap" ? "wrap" : heads[i][1] ? "num" : null }, cell ?? "–"))))));
}

export const vcores = (one) => `${decimal(one.vcores)} vcore${one.vcores === 1 ? "" : "s"}`;

/** Memory and vcores in one text. */
export const size = (one) => (one ? `${memory(one.memory_mb)}, ${vcores(one)}` : "–");

/** A wait: below a second in milliseconds. */
export const wait = (s) => (s !== null && s !== undefined && s > 0 && s < 0.9995 ? `${Math.max(1, Math.round(1000 * s))} ms` : duration(s));

const ENDS = { SUCCEEDED: "ok", FAILED: "bad", KILLED: "bad" };

/** Words and kind of a badge: running, or how the application ended. */
export function appState(app) {
  if (app.state === "running") return ["running", "ok"];
  return app.state === "unknown" ? ["end not reported", "warn"] : [app.final_status || "finished", ENDS[app.final_status] ?? ""];
}

export const appLink = (id) => el("a", { href: toUi(`applications/${encodeURIComponent(id)}`) }, id);
export const containerLink = (id) => el("a", { href: toUi(`containers/${encodeURIComponent(id)}`) }, id);
export const nodeLink = (id) => (id ? el("a", { href: toUi(`nodes/${encodeURIComponent(id)}`) }, id) : "–");
export const queueLink = (name) => (name ? el("a", { href: toUi(`queues/${encodeURIComponent(name)}`) }, name) : "–");

/** The larger part of memory and vcores that a use has of a limit; 0 without a limit. */
export function part(used, limit) {
  const parts = [limit.memory_mb ? used.memory_mb / limit.memory_mb : 0, limit.vcores ? used.vcores / limit.vcores : 0];
  return Math.max(...parts);
}

export const fill = (where, ...children) => where.replaceChildren(...children.filter((child) => child !== null));

/** Shows an empty state in the place of an element, or the element again; returns whether the element is shown. */
export function orEmpty(where, empty, title, text) {
  const beside = where.nextElementSibling?.classList.contains("in-place") ? where.nextElementSibling : null;
  where.hidden = empty;
  if (!empty) beside?.remove();
  else if (!beside) {
    const made = emptyState(title, text);
    made.classList.add("in-place");
    where.after(made);
  }
  return !empty;
}

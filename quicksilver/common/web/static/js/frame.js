// Parts of every page: addresses, numbers, formats, the theme, actions.
import { setPaused, isPaused, onChange } from "./poll.js";

const { root, csrf } = document.body.dataset;

export const role = document.body.dataset.role;
export const mayAct = role !== "read";
export const toRoot = (path) => root + path;
export const toUi = (path) => `${root}ui/${path}`;

/** Returns an element; children are nodes or texts. Attributes that are null or false are left out. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const byId = (id) => document.getElementById(id);

/** Sets the text of a number that the template made with `number(...)`. */
export function setNumber(id, text) {
  const where = byId(id);
  if (where && where.textContent !== String(text)) where.textContent = text;
}

export function setText(id, text) {
  const where = byId(id);
  if (where && where.textContent !== text) where.textContent = text;
}

/** Returns a number as a link to its JSON. */
export const numberLink = (text, json, attributes = {}) =>
  el("a", { class: "n", href: json, title: "JSON", ...attributes }, String(text));

/** A state that has nothing to show, and what to do about it. */
export const emptyState = (title, text) =>
  el("div", { class: "empty" }, el("p", { class: "empty-title" }, title), el("p", { class: "empty-text" }, text));

/** A word with a sign and a colour; kind: ok, warn, bad, g, q, waiting, shrunk, idle. */
export const badge = (text, kind) => el("span", { class: `badge ${kind}` }, text);

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const count = (value) => (value === null || value === undefined ? "–" : whole.format(value));
export const decimal = (value) => (value === null || value === undefined ? "–" : tenths.format(value));
export const percent = (ratio) => (ratio === null || ratio === undefined ? "–" : `${tenths.format(100 * ratio)} %`);

/** "2 problems", "1 notice"; "" for none. */
export const howMany = (items, word) => (items.length ? `${count(items.length)} ${word}${items.length > 1 ? "s" : ""}` : "");

/** Seconds in the largest units that fit: 0.4 s, 12 s, 3 min 20 s, 5 h 12 min, 3 d 4 h. */
export function duration(s) {
  if (s === null || s === undefined) return "–";
  if (s < 0) return `-${duration(-s)}`;
  if (s < 10) return `${tenths.format(s)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => s >= size);
  const [unit, size] = units[first];
  const [less, part] = units[first + 1];
  const rest = Math.floor((s % size) / part);
  return `${whole.format(Math.floor(s / size))} ${unit}${rest ? ` ${rest} ${less}` : ""}`;
}

export function memory(mb) {
  if (mb === null || mb === undefined) return "–";
  if (mb < 1024) return `${whole.format(mb)} MB`;
  return mb < 1024 * 1024 ? `${tenths.format(mb / 1024)} GB` : `${tenths.format(mb / 1024 / 1024)} TB`;
}

const pad = (value) => String(value).padStart(2, "0");
export const clock = (unixS) => {
  const at = new Date(unixS * 1000);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
};
export const dateTime = (unixS) => {
  const at = new Date(unixS * 1000);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clock(unixS)}`;
};

export function showBanner(text) {
  const banner = byId("banner");
  banner.textContent = text;
  banner.hidden = !text;
}

/** Sends JSON for an action; returns the answer's JSON, or null after a refusal, which the banner shows. */
export async function send(method, path, body) {
  try {
    const response = await fetch(toRoot(path), {
      method,
      headers: { "Content-Type": "application/json", "X-Quicksilver-Csrf": csrf },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) {
      let message = text;
      try { message = JSON.parse(text).error.message; } catch { /* the text is all there is */ }
      showBanner(`Refused (${response.status}): ${message}`);
      return null;
    }
    showBanner("");
    return text ? JSON.parse(text) : {};
  } catch (error) {
    showBanner(`The server does not answer: ${error.message}`);
    return null;
  }
}

/** Returns parameters of the page's address, and sets them without a new entry in the browser's history. */
export const query = () => new URLSearchParams(location.search);
export function setQuery(values) {
  const params = query();
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === null || value === undefined) params.delete(name);
    else params.set(name, value);
  }
  const text = params.toString();
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
}

const THEMES = { auto: ["Auto", "like the system"], light: ["Light", "light"], dark: ["Dark", "dark"] };

function themeButton(button) {
  const show = () => {
    const now = document.documentElement.dataset.theme ?? "auto";
    const [text, words] = THEMES[now];
    button.textContent = text;
    button.setAttribute("aria-label", `Colours: ${words}`);
  };
  button.addEventListener("click", () => {
    const names = Object.keys(THEMES);
    const now = document.documentElement.dataset.theme ?? "auto";
    const next = names[(names.indexOf(now) + 1) % names.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    localStorage.setItem("quicksilver-theme", next);
    show();
    document.dispatchEvent(new Event("themechange"));
  });
  show();
}

function liveButton(button) {
  const show = () => {
    button.setAttribute("aria-pressed", String(!isPaused()));
    button.textContent = isPaused() ? "Paused" : "Live";
  };
  button.addEventListener("click", () => { setPaused(!isPaused()); show(); });
  show();
}

if (byId("theme")) {
  themeButton(byId("theme"));
  liveButton(byId("live"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("themechange")));
  onChange(({ failing, age }) => {
    setText("freshness", failing ? "no answer" : age);
    byId("freshness").classList.toggle("bad", Boolean(failing));
    if (failing) showBanner(failing);
    else if (byId("banner").textContent.startsWith("No answer")) showBanner("");
  });
}

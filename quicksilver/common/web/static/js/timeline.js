// Containers of a node as bars in lanes: who waited, ran, was shrunk, and how it ended.
import { el, toRoot, clock, duration } from "./frame.js";

const NS = "http://www.w3.org/2000/svg";
const ROW = 18, BAR = 12, TOP = 22, LEFT = 4;

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export const shortId = (id) => id.replace(/^container_(e\d+_)?\d+_/, "").replace(/_0(\d)_0*/, " #$1-");

export function words(one, now) {
  const kind = one.am ? "application master" : one.kind === "Q" ? "queueable" : "guaranteed";
  const parts = [`${one.container_id} (${kind})`];
  if (one.held_s) parts.push(`waited ${duration((one.started_s ?? one.ended_s ?? now) - one.held_s)} from ${clock(one.held_s)}`);
  if (one.started_s) parts.push(`${one.ended_s ? "ran" : "runs for"} ${duration((one.ended_s ?? now) - one.started_s)} from ${clock(one.started_s)}`);
  if (one.times_shrunk || one.shrunk.length) parts.push(`shrunk ${Math.max(one.times_shrunk, one.shrunk.length)} times`);
  if (one.end) parts.push(`${one.end}${one.cause && one.end !== "ended" ? ` (${one.cause})` : ""} at ${clock(one.ended_s)}${one.reason ? `: ${one.reason}` : ""}`);
  else if (one.state) parts.push(`${one.state} now${one.why ? `: ${one.why}` : ""}`);
  return parts.join(" · ");
}

const KILLED = new Set(["killed", "lost", "failed"]);

export class Timeline {
  constructor(where, tell) {
    Object.assign(this, { where, tell, current: null, data: null });
    where.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => { if (this.data && Math.abs(where.clientWidth - this.width) > 2) this.draw(this.data); }).observe(where);
  }

  begin(one) { return one.held_s ?? one.started_s ?? this.data.from_s; }
  end(one) { return one.ended_s ?? this.data.to_s; }
  x(s) { return LEFT + (Math.min(Math.max(s, this.data.from_s), this.data.to_s) - this.data.from_s) / (this.data.to_s - this.data.from_s) * (this.width - 2 * LEFT - 12); }

  lanes(containers) {
    const ends = [];
    return containers.map((one) => {
      const from = this.x(this.begin(one));
      let lane = ends.findIndex((end) => end + 3 <= from);
      if (lane < 0) lane = ends.length;
      ends[lane] = Math.max(from + 6, this.x(this.end(one)) + (KILLED.has(one.end) || one.end === "shed" ? 10 : 0));
      return lane;
    });
  }

  draw(data) {
    this.data = data;
    this.width = Math.max(300, this.where.clientWidth);
    const focused = this.where.contains(document.activeElement);
    const lanes = this.lanes(data.containers);
    const height = TOP + ROW * (1 + Math.max(0, ...lanes)) + 4;
    const picture = svg("svg", { viewBox: `0 0 ${this.width} ${height}`, width: this.width, height, role: "group", "aria-label": `Containers from ${clock(data.from_s)} to ${clock(data.to_s)}` },
      svg("defs", {}, svg("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("line", { class: "hatch", x1: 0, y1: 0, x2: 0, y2: 5 }))));
    this.ticks(picture, height);
    this.bars = data.containers.map((one, i) => this.bar(one, TOP + ROW * lanes[i]));
    picture.append(...this.bars);
    this.where.replaceChildren(picture);
    const at = Math.max(0, data.containers.findIndex((one) => one.container_id === this.current));
    this.bars[at]?.setAttribute("tabindex", "0");
    if (focused) this.bars[at]?.focus({ preventScroll: true });
  }

  ticks(picture, height) {
    const span = this.data.to_s - this.data.from_s;
    const step = [60, 120, 300, 600].find((s) => span / s <= 10) ?? 900;
    for (let at = Math.ceil(this.data.from_s / step) * step; at < this.data.to_s; at += step) {
      const x = this.x(at);
      picture.append(svg("line", { class: "grid", x1: x, x2: x, y1: 16, y2: height }));
      if (x < this.width - 36) picture.append(svg("text", { class: "tick", x: x + 3, y: 12 }, clock(at).slice(0, 5)));
    }
  }

  bar(one, y) {
    const from = this.x(this.begin(one)), to = this.x(this.end(one));
    const known = one.end || one.state; // else neither an end nor the last report has it
    const group = svg("a", { class: known ? "bar" : "bar faint", href: toRoot(`v1/containers/${one.container_id}`), tabindex: "-1", "aria-label": words(one, this.data.to_s) });
    const rect = (kind, a, b) => svg("rect", { class: kind, x: a, y, width: Math.max(1.5, b - a), height: BAR, rx: 2 });
    if (one.held_s !== null || one.state === "waiting") group.append(rect("wait", from, this.x(one.started_s ?? this.end(one))));
    if (one.started_s !== null || (one.state && one.state !== "waiting") || one.end === "ended" || one.end === "killed") {
      const start = one.started_s ?? this.begin(one);
      if (one.started_s !== null || one.held_s === null) group.append(rect(`run ${one.kind}`, this.x(start), to));
    }
    for (const [a, b] of one.shrunk) group.append(rect("shrunk", this.x(a), this.x(Math.max(b, one.state === "shrunk" && b > this.data.to_s - 10 ? this.data.to_s : b))));
    if (KILLED.has(one.end)) group.append(svg("path", { class: "end", d: `M${to + 2} ${y + 2} l8 8 m0 -8 l-8 8` }));
    if (one.end === "shed") group.append(svg("path", { class: "shed", d: `M${to + 1} ${y + 6} h8 m-3 -3 l3 3 l-3 3` }));
    group.append(svg("rect", { class: "frame", x: from - 1, y: y - 1, width: Math.max(4, to - from + 2), height: BAR + 2, rx: 3 }));
    group.addEventListener("mouseenter", () => this.tell(words(one, this.data.to_s)));
    group.addEventListener("focus", () => { this.current = one.container_id; this.tell(words(one, this.data.to_s)); });
    return group;
  }

  onKey(event) {
    const at = this.bars?.indexOf(document.activeElement) ?? -1;
    if (at < 0) return;
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: this.bars.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = this.bars[Math.min(this.bars.length - 1, Math.max(0, to))];
    this.bars[at].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }
}

export const noContainers = () => el("div", { class: "empty" }, el("p", { class: "empty-title" }, "No container in this time"),
  el("p", { class: "empty-text" }, "Nothing waited, ran or ended here. Choose a longer time, or see on the page Nodes where containers run."));

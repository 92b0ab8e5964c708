// The states of an application and its instances over time, as bars in lanes.
import { el, clock, duration } from "./frame.js";
import { kindOf, isOver } from "./words.js";

const NS = "http://www.w3.org/2000/svg";
const ROW = 20, BAR = 13, TOP = 22;

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const LOOKS = { waiting: "waiting", shrunk: "starting", ok: "ready", bad: "bad", warn: "ending" };

export class Lanes {
  /** tell: gets the words of the bar that is pointed at. */
  constructor(where, tell) {
    Object.assign(this, { where, tell, current: null });
    where.addEventListener("keydown", (event) => this.onKey(event));
    new ResizeObserver(() => { if (this.data && Math.abs(where.clientWidth - this.width) > 2) this.draw(...this.data); }).observe(where);
  }

  draw(changes, instances, toS) {
    this.data = [changes, instances, toS];
    this.width = Math.max(320, this.where.clientWidth);
    this.left = Math.min(150, this.width * 0.25);
    this.fromS = changes[0].at_s;
    this.toS = Math.max(toS, this.fromS + 1);
    const focused = this.where.contains(document.activeElement);
    const lanes = [...new Set(instances.map((one) => `${one.service}[${one.number}]`))].sort((a, b) => a.localeCompare(b, "en", { numeric: true })).slice(0, 200);
    const height = TOP + ROW * (1 + lanes.length) + 6;
    const picture = svg("svg", { viewBox: `0 0 ${this.width} ${height}`, width: this.width, height, role: "group", "aria-label": `From ${clock(this.fromS)} to ${clock(this.toS)}` },
      svg("defs", {}, svg("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("line", { class: "hatch", x1: 0, y1: 0, x2: 0, y2: 5 }))));
    this.ticks(picture, height);
    this.bars = [];
    this.lane(picture, "state", 0);
    changes.forEach((one, i) => { if (!isOver(one.target)) this.stateBar(one, changes[i + 1]); });
    lanes.forEach((name, i) => this.lane(picture, name, i + 1));
    for (const one of instances) {
      const at = lanes.indexOf(`${one.service}[${one.number}]`);
      if (at >= 0) this.instanceBar(one, at + 1);
    }
    picture.append(...this.bars);
    this.where.replaceChildren(picture);
    const at = Math.max(0, this.bars.findIndex((one) => one.dataset.key === this.current));
    this.bars[at]?.setAttribute("tabindex", "0");
    if (focused) this.bars[at]?.focus({ preventScroll: true });
  }

  x(s) { return this.left + (Math.min(Math.max(s, this.fromS), this.toS) - this.fromS) / (this.toS - this.fromS) * (this.width - this.left - 16); }

  y(lane) { return TOP + ROW * lane; }

  lane(picture, name, number) {
    const text = name.length > 22 ? `${name.slice(0, 21)}…` : name;
    picture.append(svg("text", { class: "lane", x: 2, y: this.y(number) + 10 }, text));
  }

  ticks(picture, height) {
    const span = this.toS - this.fromS;
    const most = Math.max(2, (this.width - this.left) / 80);
    const step = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400].find((s) => span / s <= most) ?? 7 * 86400;
    for (let at = Math.ceil(this.fromS / step) * step; at < this.toS; at += step) {
      const x = this.x(at);
      picture.append(svg("line", { class: "grid", x1: x, x2: x, y1: 16, y2: height }), svg("text", { class: "tick", x: x + 3, y: 12 }, clock(at)));
    }
  }

  bar(key, words, x, y, width, ...children) {
    const group = svg("g", { class: "bar", role: "img", tabindex: "-1", "aria-label": words }, ...children,
      svg("rect", { class: "frame", x: x - 1, y: y - 1, width: Math.max(4, width + 2), height: BAR + 2, rx: 3 }));
    group.dataset.key = key;
    group.addEventListener("mouseenter", () => this.tell(words));
    group.addEventListener("focus", () => { this.current = key; this.tell(words); });
    this.bars.push(group);
  }

  stateBar(one, next) {
    const from = this.x(one.at_s), to = this.x(next?.at_s ?? this.toS), y = this.y(0);
    const words = `${one.target} for ${duration((next?.at_s ?? this.toS) - one.at_s)} from ${clock(one.at_s)}: ${one.why}`;
    this.bar(`s${one.seq}`, words, from, y, to - from, svg("rect", { class: `state ${LOOKS[kindOf(one.target)] ?? "ending"}`, x: from, y, width: Math.max(1.5, to - from), height: BAR, rx: 2 }));
  }

  instanceBar(one, lane) {
    const y = this.y(lane), ended = one.ended_s ?? this.toS;
    const from = this.x(one.started_s), ready = this.x(one.ready_s ?? ended), to = this.x(ended);
    const parts = [`${one.service}[${one.number}] (${one.kind}) ${one.container_id} on ${one.node}`, `from ${clock(one.started_s)}`];
    if (one.ready_s) parts.push(`ready after ${duration(one.ready_s - one.started_s)}`);
    parts.push(one.ended_s ? `${one.state} after ${duration(one.ended_s - one.started_s)}${one.exit_status ? ` with status ${one.exit_status}` : ""}` : `${one.state} now`);
    const rect = (kind, a, b) => svg("rect", { class: kind, x: a, y, width: Math.max(1.5, b - a), height: BAR, rx: 2 });
    const drawn = [rect("wait", from, ready)];
    if (one.ready_s) drawn.push(rect(one.kind, ready, to));
    if (one.ended_s && (one.state === "lost" || one.exit_status)) drawn.push(svg("path", { class: "end", d: `M${to + 2} ${y + 2} l8 8 m0 -8 l-8 8` }));
    this.bar(one.container_id, parts.join(" · "), from, y, to - from, ...drawn);
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

// Steps and stacked areas over time, drawn by uPlot, with a legend of values and a cursor for the keyboard.
import { el, clock, dateTime, count } from "./frame.js";

const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
const WHOLES = Array.from({ length: 30 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** "1 vcore", "2 vcores". */
const withUnit = (text, unit) => (unit ? `${text} ${text === "1" ? unit.replace(/s$/, "") : unit}` : text);

export class TimeChart {
  /**
   * series: [{key, label, color: "--g" (of the form #rrggbb), dash?, soft?}], bottom first where they are stacked; unit: what a value counts;
   * height: in pixels; format: a value to text; sparse: whether values with gaps
   * between them are joined, each with a point; axis: what the values count, written along their axis; whole: whether its
   * ticks are whole numbers.
   */
  constructor(where, { series, stacked = false, unit = "", axis = unit, whole = false, height = 260, format = count, label = "Chart", sparse = false }) {
    Object.assign(this, { where, series, stacked, unit, axis, whole, height, format, label, sparse, data: null, plot: null, at: null });
    this.hidden = new Set();
    this.canvas = el("div", { class: "chart-canvas", tabindex: "0", role: "img", "aria-label": label });
    this.legend = el("ul", { class: "legend" });
    this.time = el("span", { class: "legend-time" });
    where.replaceChildren(this.canvas, el("div", { class: "legend-row" }, this.legend, this.time));
    this.entries = series.map((one, i) => this.entry(one, i));
    this.legend.append(...this.entries.map((entry) => entry.item));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("blur", () => this.point(null));
    new ResizeObserver(() => this.plot?.setSize({ width: this.width(), height: this.height })).observe(this.canvas);
    document.addEventListener("themechange", () => this.rebuild());
  }

  entry(one, i) {
    const value = el("span", { class: "legend-value" }, "–");
    const swatch = el("span", { class: `swatch swatch-${one.color.slice(2)}`, "aria-hidden": "true" });
    const button = el("button", { type: "button", "aria-pressed": "true", onclick: () => this.toggle(i) }, swatch, one.label, value);
    return { item: el("li", {}, button), button, value };
  }

  toggle(i) {
    if (this.hidden.has(i)) this.hidden.delete(i); else this.hidden.add(i);
    this.entries[i].button.setAttribute("aria-pressed", String(!this.hidden.has(i)));
    this.rebuild();
  }

  width() { return Math.max(200, this.canvas.clientWidth); }

  shown() { return this.series.map((one, i) => i).filter((i) => !this.hidden.has(i)); }

  /** data: {t: [beginnings of steps, Unix seconds], step_s: their length, <key>: [values or null]}. */
  draw(data) {
    this.data = data;
    if (this.plot) {
      this.plot.setData(this.columns());
    } else {
      this.build();
    }
    this.tell();
  }

  rebuild() {
    if (!this.data) return;
    this.plot?.destroy();
    this.plot = null;
    this.build();
    this.tell();
  }

  /** Columns for uPlot: the last step up to its end; of a stack the sums from the bottom, the highest first. */
  columns() {
    const shown = this.shown();
    const t = this.data.t.length ? [...this.data.t, this.data.t.at(-1) + this.data.step_s] : [];
    const values = shown.map((i) => this.data[this.series[i].key]).map((column) => (column.length ? [...column, column.at(-1)] : []));
    if (!this.stacked) return [t, ...values];
    const sums = [];
    let below = null;
    for (const column of values) {
      below = column.map((value, at) => (value === null ? null : value + (below?.[at] ?? 0)));
      sums.push(below);
    }
    return [t, ...sums.reverse()];
  }

  build() {
    const muted = css("--muted"), line = css("--line");
    const order = this.stacked ? this.shown().reverse() : this.shown();
    const axis = { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui, sans-serif" };
    const series = order.map((i) => {
      const color = css(this.series[i].color);
      return {
        paths: window.uPlot.paths.stepped({ align: 1 }), stroke: color, width: this.stacked ? 1 : 2, dash: this.series[i].dash, points: { show: this.sparse, size: 5 }, spanGaps: this.sparse,
        fill: this.stacked ? color + (this.series[i].soft ? "38" : "") : undefined,
      };
    });
    // Of a stack each area is filled down to the one below it alone.
    const bands = this.stacked ? series.slice(1).map((_, i) => ({ series: [i + 1, i + 2] })) : [];
    this.plot = new window.uPlot({
      width: this.width(), height: this.height, legend: { show: false },
      padding: [12, 32, 0, 0],
      cursor: { drag: { x: false, y: false }, points: { show: !this.stacked }, y: false },
      scales: { y: { range: (_u, _low, high) => [0, Math.max(1, (high ?? 0) * 1.08)] } },
      axes: [
        { ...axis, space: 72, incrs: SECONDS, values: (_u, splits) => splits.map((at) => clock(at).slice(0, splits[1] - splits[0] < 60 ? 8 : 5)) },
        { ...axis, size: 64, values: (_u, splits) => splits.map((value) => this.format(value)), ...(this.whole ? { incrs: WHOLES } : {}), ...(this.axis ? { label: this.axis, labelSize: 18, labelFont: axis.font } : {}) },
      ],
      series: [{}, ...series],
      bands,
      hooks: { setCursor: [(u) => this.point(u.cursor.idx)] },
    }, this.columns(), this.canvas);
  }

  point(at) {
    this.at = at ?? null;
    this.tell();
  }

  /** Writes the values under the cursor, or the last ones, into the legend. */
  tell() {
    const t = this.data?.t ?? [];
    const at = this.at === null ? t.length - 1 : Math.min(this.at, t.length - 1);
    this.series.forEach((one, i) => {
      const value = at < 0 ? null : this.data[one.key][at];
      this.entries[i].value.textContent = value === null || value === undefined ? "–" : withUnit(this.format(value), this.unit);
    });
    this.time.textContent = at < 0 ? "" : `${this.at !== null ? "at" : this.fresh() ? "now" : "last"} ${dateTime(t[at])}`;
    const words = this.series.map((one, i) => `${one.label} ${this.entries[i].value.textContent}`).join(", ");
    this.canvas.setAttribute("aria-label", `${this.label}. ${at < 0 ? "No values yet" : `${clock(t[at])}: ${words}`}`);
  }

  /** Whether the last step ended lately: the page's clock may differ a little from the server's. */
  fresh() { return Date.now() / 1000 - (this.data.t.at(-1) + this.data.step_s) < Math.max(10, 2 * this.data.step_s); }

  onKey(event) {
    const last = (this.data?.t.length ?? 0) - 1;
    if (last < 0 || !this.plot) return;
    const from = this.at ?? last;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, PageUp: from - 20, PageDown: from + 20, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const at = Math.min(last, Math.max(0, to));
    this.plot.setCursor({ left: this.plot.valToPos(this.data.t[at], "x"), top: 1 });
    this.point(at);
  }
}

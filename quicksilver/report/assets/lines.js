// Draws each `.lines` of the page with uPlot from the JSON beside it; the legend has the values under the pointer.
for (const place of document.querySelectorAll(".lines")) {
  const plot = JSON.parse(place.querySelector("script").textContent);
  const styles = () => getComputedStyle(document.documentElement);
  const colour = name => styles().getPropertyValue(name).trim();
  const dashes = [[], [6, 3], [2, 3]];
  const xs = [...new Set(plot.series.flatMap(one => one.x))].sort((a, b) => a - b);
  const number = value => value === null || value === undefined ? "" : Math.abs(value) >= 1000 || value === 0 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));

  // Values of a series at all xs: steps hold, other lines go straight on between two points.
  const at = (one, values) => {
    let next = 0;
    return xs.map(x => {
      while (next < one.x.length && one.x[next] <= x) next++;
      if (next === 0) return null;
      if (next === one.x.length) return plot.step || one.x[next - 1] === x ? values[next - 1] : null;
      if (plot.step || one.x[next - 1] === x) return values[next - 1];
      const share = (x - one.x[next - 1]) / (one.x[next] - one.x[next - 1]);
      return values[next - 1] + share * (values[next] - values[next - 1]);
    });
  };

  const series = [{label: plot.x.label, value: (u, value) => number(value)}], data = [xs], bands = [];
  for (const one of plot.series) {
    const own = new Set(one.x), ink = () => colour("--c" + one.colour);
    series.push({
      label: one.name, stroke: ink, width: 1.6, dash: dashes[one.dash], value: (u, value) => number(value),
      paths: plot.step ? uPlot.paths.stepped({align: 1}) : uPlot.paths.linear(),
      points: plot.marks && !one.dashed ? {show: true, size: 6, fill: ink, filter: () => xs.flatMap((x, index) => own.has(x) ? [index] : [])} : {show: false},
    });
    data.push(at(one, one.y));
    if (one.low) {
      for (const edge of ["high", "low"]) {
        series.push({label: one.name + " " + edge, stroke: "transparent", width: 0, points: {show: false}, class: "edge", value: (u, value) => number(value), paths: series[series.length - 1].paths});
        data.push(at(one, one[edge]));
      }
      bands.push({series: [series.length - 2, series.length - 1], fill: () => ink() + "26"});
    }
  }

  const range = axis => (u, low, high) => {
    if (axis.log) return uPlot.rangeLog(low, high, 10, false);
    const top = axis.most ?? high + 0.05 * (high - (axis.grounded ? 0 : low) || 1);
    return [axis.grounded ? 0 : low, top];
  };
  const axis = (which, size) => ({
    label: which.label, stroke: () => colour("--ink"), size, labelSize: 22, font: "12px system-ui,sans-serif", labelFont: "12px system-ui,sans-serif",
    grid: {stroke: () => colour("--grid"), width: 1}, ticks: {stroke: () => colour("--grid"), width: 1},
    values: (u, ticks) => ticks.map(tick => tick === null ? "" : tick.toLocaleString("en", {maximumSignificantDigits: 4})),
  });
  const reference = u => {
    if (plot.reference === null) return;
    const y = u.valToPos(plot.reference, "y", true), ctx = u.ctx;
    ctx.save();
    ctx.strokeStyle = colour("--ink");
    ctx.setLineDash([6, 4]);
    ctx.beginPath();
    ctx.moveTo(u.bbox.left, y);
    ctx.lineTo(u.bbox.left + u.bbox.width, y);
    ctx.stroke();
    ctx.restore();
  };
  const scale = (which, time) => ({time, distr: which.log ? 3 : 1, range: range(which)});
  const width = () => Math.min(place.clientWidth, 1408);
  const made = new uPlot({
    width: width(), height: 300, series, bands, axes: [axis(plot.x, 44), axis(plot.y, 64)],
    scales: {x: {...scale(plot.x, false), range: plot.x.log ? undefined : (u, low, high) => [low, plot.x.most ?? (high > low ? high : low + 1)]}, y: scale(plot.y, false)},
    cursor: {drag: {x: true, y: false}, focus: {prox: 24}}, focus: {alpha: 0.3}, legend: {live: true}, hooks: {draw: [reference]},
  }, data, place);
  place.plot = made;
  new ResizeObserver(() => made.setSize({width: width(), height: 300})).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => made.redraw());
  place.addEventListener("keydown", event => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!step) return;
    event.preventDefault();
    const index = Math.max(0, Math.min(xs.length - 1, (made.cursor.idx ?? 0) + step));
    made.setCursor({left: made.valToPos(xs[index], "x"), top: 10});
  });
}

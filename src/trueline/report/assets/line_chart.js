// Lines over the steps of a training, drawn by uPlot in the colours of the page. Lines also differ in their dashes, and
// what is not a number is a cross, so nothing is told by colour alone.

const LINE_LOOKS = [["--forward", []], ["--backward", [8, 4]], ["--good", [2, 3]], ["--warn", [10, 3, 2, 3]], ["--bad", [5, 2]], ["--muted", [1, 4]]];
function lookOf(n) { return LINE_LOOKS[n % LINE_LOOKS.length]; }

// A chart that is drawn anew when the theme or the width changes. `describe` gives {lines: [{name, xs, ys, crosses?}],
// label, across, floor?}, where a missing number is null; or null where there is nothing to draw.
function liveChart(place, describe) {
  const frame = element("div", "line-plot"), legend = element("div", "legend"), reading = element("p", "muted reading");
  reading.setAttribute("aria-live", "off");
  place.append(frame, legend, reading);
  let plot = null, width = 0;
  const draw = () => {
    const told = describe();
    if (plot) plot.destroy();
    plot = null;
    width = frame.clientWidth;
    legend.replaceChildren();
    reading.textContent = "";
    place.hidden = !told || !told.lines.length;
    if (place.hidden) return;
    width = frame.clientWidth;
    plot = drawLines(frame, told, reading);
    legend.append(...told.lines.map((line, n) => legendEntry(line, n)), csvButton(told));
  };
  on("theme", draw);
  new ResizeObserver(() => { if (frame.clientWidth !== width) draw(); }).observe(frame);
  return draw;
}

function joined(lines) {
  return uPlot.join(lines.map((line) => [line.xs, line.ys.map((y) => (Number.isFinite(y) ? y : null))]), lines.map((line) => line.ys.map(() => 2)));
}

function drawLines(place, told, reading) {
  const table = told.lines.length > 1 ? joined(told.lines) : [told.lines[0].xs, told.lines[0].ys.map((y) => (Number.isFinite(y) ? y : null))];
  const numbers = table.slice(1).flat().filter((y) => y !== null && y !== undefined);
  const wide = !told.even && numbers.length > 0 && Math.min(...numbers) > 0 && Math.max(...numbers) / Math.min(...numbers) > 50;
  const axis = { stroke: css("--muted"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1 }, font: "12px system-ui", labelFont: "12px system-ui" };
  const few = table[0].length < 40;
  // Of a logarithmic scale only the powers of ten.
  const tens = { filter: (self, ticks) => (wide ? ticks.map((tick) => (Number.isInteger(Number(Math.log10(tick).toFixed(6))) ? tick : null)) : ticks) };
  return new uPlot({
    width: Math.max(240, place.clientWidth), height: told.height || 260, legend: { show: false },
    scales: { x: { time: false, range: told.lines[0].xs.length > 1 ? undefined : (self, low, high) => [low - 1, high + 1] }, y: { distr: wide ? 3 : 1, range: told.floor === undefined || wide ? undefined : (self, low, high) => [Math.min(told.floor, low), Math.max(high, told.floor + 1)] } },
    cursor: { points: { size: 7 }, drag: { x: true, y: false } },
    axes: [{ ...axis, label: told.across, labelSize: 20, values: (self, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? grouped(tick) : "")) }, { ...axis, ...tens, grid: { ...axis.grid, ...tens }, ticks: { ...axis.ticks, ...tens }, label: told.label, size: 58, values: (self, ticks) => ticks.map((tick) => (tick === null ? "" : short(tick))) }],
    series: [{}, ...told.lines.map((line, n) => ({ stroke: css(lookOf(n)[0]), dash: lookOf(n)[1], width: 2, spanGaps: false, points: { show: few, size: 5, fill: css(lookOf(n)[0]) } }))],
    hooks: { draw: [(self) => drawCrosses(self, told.lines)], setCursor: [(self) => { reading.textContent = readingOf(self, told); }] },
  }, table, place);
}

// Where a line has no number because it was NaN or infinite: a cross at the foot of the chart.
function drawCrosses(self, lines) {
  const { ctx, bbox } = self, size = 5 * devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = css("--bad");
  ctx.lineWidth = 2 * devicePixelRatio;
  for (const line of lines) {
    for (const x of line.crosses || []) {
      const left = self.valToPos(x, "x", true), top = bbox.top + bbox.height - size - 2;
      if (left < bbox.left - 1 || left > bbox.left + bbox.width + 1) continue;
      ctx.beginPath();
      ctx.moveTo(left - size, top - size); ctx.lineTo(left + size, top + size);
      ctx.moveTo(left + size, top - size); ctx.lineTo(left - size, top + size);
      ctx.stroke();
    }
  }
  ctx.restore();
}

function readingOf(self, told) {
  const at = self.cursor.idx;
  if (at === null || at === undefined) return "";
  const x = self.data[0][at];
  const parts = told.lines.map((line, n) => [line, self.data[n + 1][at]]).filter(([line, y]) => (y !== null && y !== undefined) || (line.crosses || []).includes(x));
  return `${told.across} ${grouped(x)}: ` + parts.map(([line, y]) => `${line.name} ${y === null || y === undefined ? say("not finite") : exact(y)}`).join(", ");
}

function legendEntry(line, n) {
  const entry = element("span", "", line.name), [color, dash] = lookOf(n), space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg"), stroke = document.createElementNS(space, "line");
  for (const [name, value] of [["width", 28], ["height", 8], ["aria-hidden", true]]) picture.setAttribute(name, String(value));
  for (const [name, value] of [["x1", 0], ["x2", 28], ["y1", 4], ["y2", 4], ["stroke", css(color)], ["stroke-width", 2], ["stroke-dasharray", dash.join(" ")]]) stroke.setAttribute(name, String(value));
  picture.append(stroke);
  entry.prepend(picture);
  if ((line.crosses || []).length) entry.append(element("b", "bad", several(line.crosses.length, "✕ {n} step not finite", "✕ {n} steps not finite")));
  return entry;
}

function csvButton(told) {
  const button = element("button", "ghost", say("copy as CSV"));
  button.type = "button";
  button.addEventListener("click", () => {
    const table = told.lines.length > 1 ? joined(told.lines) : [told.lines[0].xs, told.lines[0].ys];
    const rows = table[0].map((x, n) => [x, ...table.slice(1).map((column) => column[n] ?? "")]);
    copy(csvText([[told.across, ...told.lines.map((line) => line.name)], ...rows]), button);
  });
  return button;
}

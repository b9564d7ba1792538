// The course of the calls: one point each, the bits that its outputs have left to the limit of their dtype, or how large
// they are. Where many calls share a pixel, the one nearest to the limit is drawn.

const chartPlace = byId("chart");
const MOST_BITS = 32; // beyond, nobody has to worry: float32 would leave no height for the rest
let chart = null;

const VALUES = {
  headroom: { of: (i) => headroom[i], label: say("bits to the limit"), worse: (a, b) => a < b, reading: say("How many times the largest output of a call can still double before it no longer fits its dtype. Calls with NaN or infinity stand at 0, those with 32 bits and more at 32.") },
  largest: { of: (i) => largest[i], label: say("log2 of the largest number"), worse: (a, b) => a > b, reading: say("The largest magnitude among the outputs of a call, as a power of two.") },
  norm: { of: (i) => (norm[i] > 0 ? Math.log2(norm[i]) : NaN), label: say("log2 of the norm"), worse: (a, b) => a > b, reading: say("The norm of the finite outputs of a call, as a power of two; of a backward call these are gradients.") },
  ...(timed ? { seconds: { of: (i) => (columns.seconds[i] > 0 ? Math.log10(columns.seconds[i]) : NaN), label: say("log10 of the seconds"), worse: (a, b) => a > b, reading: say("How long the call takes alone, by the profile that was handed in.") } } : {}),
};

const shown = segmented(byId("plot-values"), "plot", [["headroom", say("bits to the limit")], ["largest", say("largest number")], ["norm", say("norm")], ...(timed ? [["seconds", say("time")]] : [])], () => drawChart());

function pointOf(i) {
  if (shown() === "headroom") return nan[i] || infinite[i] ? 0 : Math.min(MOST_BITS, headroom[i]);
  return VALUES[shown()].of(i);
}

// One point for each bucket of calls: the worst of them, separately for forward, backward and those with NaN or infinity.
function buckets() {
  const rows = state.inOrder, size = Math.max(1, Math.ceil(rows.length / 4000)), worse = VALUES[shown()].worse;
  const xs = [], series = [[], [], []], members = [];
  for (let start = 0; start < rows.length; start += size) {
    const best = [-1, -1, -1];
    for (let n = start; n < Math.min(rows.length, start + size); n++) {
      const i = rows[n], value = pointOf(i), which = kind[i] >= KIND.INFINITE ? 2 : backward[i];
      if (!Number.isNaN(value) && (best[which] < 0 || worse(value, pointOf(best[which])))) best[which] = i;
    }
    xs.push(rows[start]);
    best.forEach((i, which) => series[which].push(i < 0 ? null : pointOf(i)));
    members.push(best);
  }
  return { table: [xs, ...series], members };
}

function showLegend() {
  const dot = (name, text, shape = "") => { const part = element("span", "", text), mark = element("i", shape); mark.style.background = css(name); part.prepend(mark); return part; };
  byId("legend").replaceChildren(dot("--forward", say("forward")), dot("--backward", say("backward"), "square"), dot("--bad", say("NaN or infinity"), "large"));
}

// Backward calls are squares: they are told from forward ones without their colour.
function squares(self, number, from, to) {
  const path = new Path2D(), size = 4 * devicePixelRatio, ys = self.data[number];
  for (let n = from; n <= to; n++) {
    if (ys[n] === null || ys[n] === undefined) continue;
    path.rect(self.valToPos(self.data[0][n], "x", true) - size / 2, self.valToPos(ys[n], "y", true) - size / 2, size, size);
  }
  return { fill: path, stroke: path };
}

let members = [];
function drawChart() {
  const found = buckets();
  members = found.members;
  if (chart) chart.destroy();
  const points = (name, size, square) => ({ stroke: css(name), width: 0, paths: () => null, points: { show: true, size, fill: css(name), stroke: css(name), ...(square ? { paths: squares } : {}) } });
  const axis = { stroke: css("--muted"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1 }, font: "12px system-ui" };
  chart = new uPlot({
    width: Math.max(280, chartPlace.clientWidth), height: 300, scales: { x: { time: false } }, legend: { show: false },
    cursor: { points: { show: false }, drag: { x: true, y: false } },
    axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString("en")) }, { ...axis, label: VALUES[shown()].label, labelFont: "12px system-ui", size: 56 }],
    series: [{}, points("--forward", 4), points("--backward", 4, true), points("--bad", 7)],
    hooks: { setCursor: [readCursor] },
  }, found.table, chartPlace);
  showLegend();
  byId("reading").textContent = VALUES[shown()].reading;
  byId("range").textContent = state.inOrder.length > 4000 ? say("the worst of each stretch is drawn") : "";
}

function callAt(place) {
  if (place === null || place === undefined || !members[place]) return -1;
  return [...members[place]].reverse().find((i) => i >= 0) ?? -1;
}

function readCursor(self) {
  const i = callAt(self.cursor.idx);
  byId("reading").textContent = i < 0 ? VALUES[shown()].reading : `${nameOf(i)}  ${moduleOf(i)}  ${placeOf(i)}: ${numbersOf(i)}`;
}

function placeOf(i) { return say("step {step}, rank {rank}", { step: step[i], rank: rank[i] }); }
function numbersOf(i) {
  const parts = [say("largest {largest}, {bits} bits left", { largest: largestText(i), bits: bitsText(headroom[i]) })];
  if (nan[i]) parts.push(`${grouped(nan[i])} NaN`);
  if (infinite[i]) parts.push(say("{n} infinite", { n: grouped(infinite[i]) }));
  if (timed && !Number.isNaN(columns.seconds[i])) parts.push(`${duration(columns.seconds[i])}, ${bytes(columns.peak[i])}`);
  return parts.join(", ");
}

chartPlace.addEventListener("click", () => { const i = chart ? callAt(chart.cursor.idx) : -1; if (i >= 0) select(i); });
byId("zoom-all").addEventListener("click", drawChart);
on("view", drawChart);
on("theme", drawChart);
let resizing = 0;
window.addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawChart, 120); });

// The course of the calls: one point each, the bits that its outputs have left to the limit of their dtype, or how large
// they are. Where many calls share a pixel, the one nearest to the limit is drawn.

const chartPlace = byId("chart");
const MOST_BITS = 32; // beyond, nobody has to worry: float32 would leave no height for the rest
let shownValue = "headroom", chart = null;

const VALUES = {
  headroom: { of: (i) => headroom[i], label: "bits to the limit", worse: (a, b) => a < b, reading: "How many times the largest output of a call can still double before it no longer fits its dtype. Calls with NaN or infinity stand at 0, those with 32 bits and more at 32." },
  largest: { of: (i) => largest[i], label: "log2 of the largest number", worse: (a, b) => a > b, reading: "The largest magnitude among the outputs of a call, as a power of two." },
};

function pointOf(i) {
  if (shownValue === "headroom") return nan[i] || infinite[i] ? 0 : Math.min(MOST_BITS, headroom[i]);
  return VALUES[shownValue].of(i);
}

// One point for each bucket of calls: the worst of them, separately for forward, backward and those with NaN or infinity.
function buckets() {
  const rows = state.inOrder, size = Math.max(1, Math.ceil(rows.length / 4000)), worse = VALUES[shownValue].worse;
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
  const dot = (name, text) => { const part = element("span", "", text), mark = element("i"); mark.style.background = css(name); part.prepend(mark); return part; };
  byId("legend").replaceChildren(dot("--forward", "forward"), dot("--backward", "backward"), dot("--bad", "NaN or infinity"));
}

let members = [];
function drawChart() {
  const found = buckets();
  members = found.members;
  if (chart) chart.destroy();
  const points = (name, size) => ({ stroke: css(name), width: 0, paths: () => null, points: { show: true, size, fill: css(name), stroke: css(name) } });
  const axis = { stroke: css("--muted"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1 }, font: "12px system-ui" };
  chart = new uPlot({
    width: Math.max(280, chartPlace.clientWidth), height: 300, scales: { x: { time: false } }, legend: { show: false },
    cursor: { points: { show: false }, drag: { x: true, y: false } },
    axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString("en")) }, { ...axis, label: VALUES[shownValue].label, labelFont: "12px system-ui", size: 56 }],
    series: [{}, points("--forward", 4), points("--backward", 4), points("--bad", 7)],
    hooks: { setCursor: [readCursor] },
  }, found.table, chartPlace);
  showLegend();
  byId("reading").textContent = VALUES[shownValue].reading;
  byId("range").textContent = state.inOrder.length > 4000 ? "the worst of each stretch is drawn" : "";
}

function callAt(place) {
  if (place === null || place === undefined || !members[place]) return -1;
  return [...members[place]].reverse().find((i) => i >= 0) ?? -1;
}

function readCursor(self) {
  const i = callAt(self.cursor.idx);
  byId("reading").textContent = i < 0 ? VALUES[shownValue].reading : `${nameOf(i)}  ${moduleOf(i)}  step ${step[i]}, rank ${rank[i]}: largest ${largestText(i)}, ${bitsText(headroom[i])} bits left${nan[i] ? `, ${nan[i].toLocaleString("en")} NaN` : ""}${infinite[i] ? `, ${infinite[i].toLocaleString("en")} infinite` : ""}`;
}

chartPlace.addEventListener("click", () => { const i = chart ? callAt(chart.cursor.idx) : -1; if (i >= 0) select(i); });
for (const name of Object.keys(VALUES)) {
  byId(`show-${name}`).addEventListener("click", () => {
    shownValue = name;
    for (const other of Object.keys(VALUES)) byId(`show-${other}`).setAttribute("aria-pressed", String(other === name));
    drawChart();
  });
}
byId("zoom-all").addEventListener("click", drawChart);
on("view", drawChart);
on("theme", drawChart);
let resizing = 0;
window.addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(drawChart, 120); });

// The same call over the steps: its headroom in each.
function courseOf(i) {
  const xs = [], ys = [];
  for (let n = 0; n < count; n++) {
    if (columns.api[n] === columns.api[i] && index[n] === index[i] && backward[n] === backward[i] && rank[n] === rank[i] && columns.module[n] === columns.module[i]) { xs.push(step[n]); ys.push(Number.isNaN(headroom[n]) ? null : headroom[n]); }
  }
  return [xs, ys];
}

function courseChart(i) {
  const table = courseOf(i);
  if (table[0].length < 2 || table[1].every((value) => value === null)) return null;
  const box = element("div", "small-chart");
  const axis = { stroke: css("--muted"), grid: { stroke: css("--line"), width: 1 }, font: "11px system-ui" };
  new uPlot({ width: Math.min(520, window.innerWidth - 60), height: 150, scales: { x: { time: false } }, legend: { show: false }, axes: [axis, { ...axis, size: 44 }], series: [{}, { stroke: css("--forward"), width: 2 }] }, table, box);
  return box;
}

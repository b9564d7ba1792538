// Error over the calls on a canvas: logarithmic, forward as circles, backward as triangles, what follows from the origin dimmed, the origin pinned.
// Calls lie in one band, or in a band for each phase, step or rank, all on the same scale. How it is used: plot_controls.js.

const canvas = byId("canvas"), tip = byId("tip");
const pen = canvas.getContext("2d");
const MARGIN = { left: 62, right: 16, top: 34, bottom: 28 };
const plot = { from: 0, to: 0, length: 0, lanes: [], bands: "", left_out: 0, ratio: false, low: -8, high: 0, width: 0, height: 0, colors: {}, sprites: new Map(), drag: null };

function readColors() {
  for (const name of ["ink", "muted", "line", "soft", "card", "bad", "warn", "forward", "backward", "victim", "limit", "focus"]) {
    plot.colors[name] = css("--" + name);
  }
  plot.sprites.clear();
}

// The bands. `rows` are calls, in order; the n-th call of each band lies above the n-th of the others.
const MOST_LANES = 16, ONE_LANE = 360, LANE_GAP = 14;
const BANDS = {
  phase: { of: (i) => backward[i], label: (n) => (n ? say("backward") : say("forward")) },
  step: { of: (i) => step[i], label: (n) => say("step {n}", { n }) },
  rank: { of: (i) => rank[i], label: (n) => say("rank {n}", { n }) },
};

function makeLanes() {
  const band = BANDS[plot.bands];
  plot.left_out = 0;
  if (!band) plot.lanes = [{ key: 0, rows: state.inOrder, label: "" }];
  else {
    const parts = new Map();
    for (const i of state.inOrder) { const key = band.of(i); const known = parts.get(key); if (known) known.push(i); else parts.set(key, [i]); }
    const all = [...parts].map(([key, rows]) => ({ key, rows, label: band.label(key), failed: rows.reduce((sum, i) => sum + isBad(i), 0) }));
    plot.lanes = worstLanes(all).sort((a, b) => a.key - b.key);
    plot.left_out = all.length - plot.lanes.length;
  }
  plot.length = Math.max(0, ...plot.lanes.map((lane) => lane.rows.length));
  canvas.dataset.bands = plot.lanes.map((lane) => lane.label).join(", ");
  placeLanes();
}

// More bands than can be seen: those with the origin and with the largest errors.
function worstLanes(all) {
  if (all.length <= MOST_LANES) return all;
  const weight = (lane) => lane.rows.reduce((most, i) => Math.max(most, i === head.position ? Infinity : isBad(i) ? 1e9 : ratioOf(i) || 0), 0);
  return all.map((lane) => [weight(lane), lane]).sort((a, b) => b[0] - a[0]).slice(0, MOST_LANES).map(([, lane]) => lane);
}

function placeLanes() {
  const many = plot.lanes.length, each = plot.bands ? Math.max(92, Math.min(190, 520 / many)) : 0;
  byId("plot").style.height = plot.bands ? `${MARGIN.top + MARGIN.bottom + many * each + (many - 1) * LANE_GAP}px` : "";
  const whole = (plot.bands ? 0 : canvas.clientHeight || ONE_LANE) - MARGIN.top - MARGIN.bottom;
  plot.lanes.forEach((lane, n) => { lane.height = plot.bands ? each : whole; lane.top = MARGIN.top + n * (lane.height + LANE_GAP); });
}

// [band, place in it] of a call; place -1 where it is not in the plot.
function placeOf(i) {
  const lane = plot.bands ? plot.lanes.find((one) => one.key === BANDS[plot.bands].of(i)) : plot.lanes[0];
  if (!lane) return [null, -1];
  let low = 0, high = lane.rows.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (lane.rows[middle] === i) return [lane, middle];
    if (lane.rows[middle] < i) low = middle + 1; else high = middle - 1;
  }
  return [lane, -1];
}
function inView(place) { return place >= plot.from && place < plot.to; }
function eachPoint(visit) {
  for (const lane of plot.lanes) for (let place = plot.from, end = Math.min(plot.to, lane.rows.length); place < end; place++) visit(lane.rows[place], place, lane);
}

function valueOf(i) { return plot.ratio ? ratioOf(i) : output[i]; }
function span() { return Math.max(1, plot.to - plot.from); }
function innerWidth_() { return plot.width - MARGIN.left - MARGIN.right; }
function xOf(place) { return MARGIN.left + ((place - plot.from + 0.5) / span()) * innerWidth_(); }
function edgeOf(place) { return Math.round(MARGIN.left + ((place - plot.from) / span()) * innerWidth_()) + 0.5; }
function placeAt(x) { return plot.from + ((x - MARGIN.left) / innerWidth_()) * span() - 0.5; }
function bottomOf(lane) { return lane.top + lane.height; }
function bottom() { return plot.lanes.length ? bottomOf(plot.lanes[plot.lanes.length - 1]) : plot.height - MARGIN.bottom; }

// Zero has no logarithm: it lies on its own line at the bottom; what is infinite lies at the top.
const ZERO_BAND = 22;
function yOf(value, lane) {
  const floor = bottomOf(lane) - ZERO_BAND;
  if (!(value > 0)) return bottomOf(lane) - 4;
  if (value === Infinity) return lane.top + 3;
  const share = (Math.log10(value) - plot.low) / (plot.high - plot.low);
  return floor - Math.min(1, Math.max(0, share)) * (floor - lane.top);
}

// The errors set the scale. Limits may lie far above them (what follows from an error is allowed much): those are cut off at the top.
const LIMIT_ROOM = 30;
function findRange() {
  let low = Infinity, high = 0;
  const within = (value) => value > 0 && value !== Infinity;
  eachPoint((i) => {
    const value = valueOf(i);
    if (within(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  });
  const room = high ? high * LIMIT_ROOM : Infinity;
  eachPoint((i) => {
    const bound = plot.ratio ? 1 : limit[i];
    if (within(bound) && bound < room) { low = Math.min(low, bound); high = Math.max(high, bound); }
  });
  if (low === Infinity) { low = 1e-8; high = 1; }
  plot.low = Math.floor(Math.log10(low) - 0.15);
  plot.high = Math.ceil(Math.log10(plot.ratio ? high : Math.min(high, 1e4)) + 0.15); // limits may be astronomic
  if (plot.high - plot.low < 3) plot.low = plot.high - 3;
}

function shape(context, x, y, size, isBackward) {
  context.beginPath();
  if (isBackward) { context.moveTo(x, y - size * 1.15); context.lineTo(x + size * 1.1, y + size * 0.85); context.lineTo(x - size * 1.1, y + size * 0.85); context.closePath(); }
  else context.arc(x, y, size, 0, 2 * Math.PI);
}

function paint(context, x, y, which, isBackward, large) {
  const c = plot.colors;
  const size = (which >= KIND.FAIL ? 4.4 : which === KIND.WARN ? 3.6 : 2.5) * (large ? 1.35 : 1);
  const own = isBackward ? c.backward : c.forward;
  shape(context, x, y, size, isBackward);
  if (which >= KIND.FAIL) { context.fillStyle = c.bad; context.fill(); context.lineWidth = 1; context.strokeStyle = c.card; context.stroke(); return; }
  if (which === KIND.WARN) { context.fillStyle = c.card; context.fill(); context.lineWidth = 1.8; context.strokeStyle = c.warn; context.stroke(); return; }
  context.globalAlpha = which === KIND.PASS ? 0.72 : 0.42;
  if (which === KIND.VICTIM) { context.lineWidth = 1.2; context.strokeStyle = c.victim; context.stroke(); }
  else { context.fillStyle = which === KIND.NONE ? c.victim : own; context.fill(); }
  context.globalAlpha = 1;
}

function sprite(which, isBackward, large, scale) {
  const key = `${which} ${isBackward} ${large}`;
  if (!plot.sprites.has(key)) {
    const image = element("canvas");
    image.width = image.height = 16 * scale;
    const context = image.getContext("2d");
    context.scale(scale, scale);
    paint(context, 8, 8, which, isBackward, large);
    plot.sprites.set(key, image);
  }
  return plot.sprites.get(key);
}

function draw() {
  const scale = window.devicePixelRatio || 1;
  plot.width = canvas.clientWidth;
  plot.height = canvas.clientHeight;
  if (canvas.width !== Math.round(plot.width * scale) || canvas.height !== Math.round(plot.height * scale)) {
    canvas.width = Math.round(plot.width * scale);
    canvas.height = Math.round(plot.height * scale);
    plot.sprites.clear();
    placeLanes();
  }
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, plot.width, plot.height);
  findRange();
  for (const lane of plot.lanes) { drawAxes(lane); drawLimit(lane); }
  drawBorders();
  drawPoints(scale);
  drawOrigin();
  drawSelection();
  if (plot.drag && plot.drag.moved) drawBrush();
  showRange();
}

function drawAxes(lane) {
  const c = plot.colors, right = plot.width - MARGIN.right;
  pen.font = "11.5px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  const stride = Math.ceil((plot.high - plot.low) / Math.max(2, Math.floor(lane.height / 34)));
  for (let decade = plot.high; decade >= plot.low; decade -= stride) {
    const y = Math.round(yOf(10 ** decade, lane)) + 0.5;
    pen.strokeStyle = c.line; pen.lineWidth = 1;
    pen.beginPath(); pen.moveTo(MARGIN.left, y); pen.lineTo(right, y); pen.stroke();
    pen.fillStyle = c.muted;
    pen.fillText(plot.ratio && decade === 0 ? say("limit") : decade === 0 ? "1" : "1e" + decade, MARGIN.left - 10, y);
  }
  pen.fillStyle = c.muted;
  pen.fillText(say("equal"), MARGIN.left - 10, bottomOf(lane) - 4);
  if (!lane.label) return;
  pen.font = "600 12px system-ui, sans-serif"; pen.fillStyle = c.ink;
  pen.fillText(lane.label + (lane.failed ? `  ✕ ${grouped(lane.failed)}` : "  ✓"), right - 4, lane.top + 9);
}

// Where a step or a rank begins: a dotted line in its band, where there is room for one; the longest band says below which
// one it is.
const BORDER_GAP = 4;
function drawBorders() {
  const c = plot.colors, longest = plot.lanes.find((lane) => lane.rows.length === plot.length);
  const several = plot.bands !== "rank" && new Set(rank).size > 1, width = several ? 96 : 56;
  pen.font = "11.5px system-ui, sans-serif"; pen.textAlign = "left"; pen.fillStyle = c.muted;
  for (const lane of plot.lanes) {
    let before = null, lastLine = -100, lastLabel = -100;
    const lines = new Path2D();
    for (let place = plot.from, end = Math.min(plot.to, lane.rows.length); place < end; place++) {
      const i = lane.rows[place], key = step[i] * 65536 + rank[i];
      if (key === before) continue;
      const x = edgeOf(place);
      if (before !== null && x - lastLine >= BORDER_GAP) { lines.moveTo(x, lane.top - 6); lines.lineTo(x, bottomOf(lane)); lastLine = x; }
      if (lane === longest && x - lastLabel > width && x < plot.width - width + 6) {
        const words = [plot.bands === "step" ? "" : say("step {n}", { n: step[i] }), several ? say("rank {n}", { n: rank[i] }) : ""].filter(Boolean);
        pen.fillText(words.join(", "), x + (before === null ? 0 : 4), bottom() + 14);
        lastLabel = x;
      }
      before = key;
    }
    pen.strokeStyle = c.line; pen.setLineDash([2, 3]); pen.stroke(lines); pen.setLineDash([]);
  }
}

// Every call has its own limit; drawn is the highest of its neighbours, as the top of a calm area.
const LIMIT_WIDTH = 8;
function drawLimit(lane) {
  const c = plot.colors, floor = bottomOf(lane), right = plot.width - MARGIN.right;
  const slots = Math.max(1, Math.ceil(innerWidth_() / LIMIT_WIDTH)), highest = new Float64Array(slots);
  for (let place = plot.from, end = Math.min(plot.to, lane.rows.length); place < end; place++) {
    const bound = plot.ratio ? 1 : limit[lane.rows[place]];
    const first = Math.floor(((place - plot.from) / span()) * slots), last = Math.max(first + 1, Math.floor(((place + 1 - plot.from) / span()) * slots));
    if (bound !== Infinity) for (let slot = first; slot < Math.min(slots, last); slot++) if (bound > highest[slot]) highest[slot] = bound;
  }
  const edge = new Path2D(), area = new Path2D();
  area.moveTo(MARGIN.left, floor);
  let drawing = false;
  for (let slot = 0; slot < slots; slot++) {
    const from = MARGIN.left + (slot / slots) * innerWidth_(), to = Math.min(right, MARGIN.left + ((slot + 1) / slots) * innerWidth_());
    const y = highest[slot] ? yOf(highest[slot], lane) : floor;
    area.lineTo(from, y); area.lineTo(to, y);
    if (!highest[slot] || highest[slot] > 10 ** plot.high) { drawing = false; continue; }
    if (drawing) edge.lineTo(from, y); else edge.moveTo(from, y);
    edge.lineTo(to, y);
    drawing = true;
  }
  area.lineTo(right, floor);
  pen.fillStyle = c.limit; pen.globalAlpha = 0.07; pen.fill(area);
  pen.globalAlpha = 0.75; pen.strokeStyle = c.limit; pen.lineWidth = 1.2; pen.setLineDash([5, 4]); pen.stroke(edge);
  pen.setLineDash([]); pen.globalAlpha = 1;
}

// Where many calls share a pixel a point hides its neighbours: there, little squares tell by their strength how many.
const DENSE_PER_PIXEL = 6, CELL = 2;
function isDense() { return plot.to - plot.from > DENSE_PER_PIXEL * innerWidth_(); }
function drawDense() {
  const width = Math.ceil(plot.width / CELL) + 1, height = Math.ceil(plot.height / CELL) + 1, size = width * height;
  const c = plot.colors, layers = [[KIND.NONE, 0, c.victim], [KIND.VICTIM, 0, c.victim], [KIND.VICTIM, 1, c.victim], [KIND.PASS, 0, c.forward], [KIND.PASS, 1, c.backward]];
  const layerOf = new Int8Array(2 * KIND_CLASS.length).fill(-1), calls = new Uint16Array(layers.length * size);
  layers.forEach(([which, isBackward], n) => { layerOf[which * 2 + isBackward] = n; });
  eachPoint((i, place, lane) => {
    const layer = layerOf[kind[i] * 2 + backward[i]];
    if (layer < 0) return;
    const value = valueOf(i);
    if (!Number.isNaN(value)) calls[layer * size + Math.floor(yOf(value, lane) / CELL) * width + Math.floor(xOf(place) / CELL)]++;
  });
  layers.forEach(([which, , color], layer) => {
    pen.fillStyle = color;
    for (let cell = 0; cell < size; cell++) {
      const many = calls[layer * size + cell];
      if (!many) continue;
      pen.globalAlpha = Math.min(0.95, (which === KIND.PASS ? 0.3 : 0.16) + 0.14 * Math.log2(many));
      pen.fillRect((cell % width) * CELL, Math.floor(cell / width) * CELL, CELL, CELL);
    }
  });
  pen.globalAlpha = 1;
}

function drawPoints(scale) {
  const dense = isDense();
  if (dense) drawDense();
  drawMarks(scale, dense ? [KIND.WARN, KIND.FAIL] : [KIND.NONE, KIND.VICTIM, KIND.PASS, KIND.WARN, KIND.FAIL]);
}

function drawMarks(scale, kinds) {
  const width = Math.ceil(plot.width), height = Math.ceil(plot.height);
  const large = plot.to - plot.from < 150;
  // A pixel that has a point of this sort already needs no second one: this is what keeps 200,000 calls quick.
  const taken = new Uint16Array(width * height);
  for (const which of kinds) {
    eachPoint((i, place, lane) => {
      if (kind[i] !== which) return;
      const value = valueOf(i);
      if (Number.isNaN(value) && which < KIND.WARN) return;
      const x = xOf(place), y = yOf(value, lane);
      const cell = Math.round(y) * width + Math.round(x), bit = 1 << (which * 2 + backward[i]);
      if (taken[cell] & bit) return;
      taken[cell] |= bit;
      pen.drawImage(sprite(which, backward[i], large, scale), x - 8, y - 8, 16, 16);
    });
  }
}

function drawOrigin() {
  if (head.position === null || head.position === undefined) return;
  const [lane, place] = placeOf(head.position);
  if (!lane || !inView(place)) return;
  const c = plot.colors, x = xOf(place), y = yOf(valueOf(head.position), lane);
  const color = isBad(head.position) ? c.bad : c.warn;
  pen.strokeStyle = color; pen.lineWidth = 1.2;
  pen.beginPath(); pen.moveTo(x, MARGIN.top - 10); pen.lineTo(x, bottomOf(lane)); pen.stroke();
  pen.lineWidth = 2; shape(pen, x, y, 8, backward[head.position]); pen.stroke();
  paint(pen, x, y, isBad(head.position) ? KIND.FAIL : KIND.WARN, backward[head.position], true);
  pen.font = "600 12px system-ui, sans-serif"; pen.textBaseline = "middle";
  const text = say("origin: {name}", { name: nameOf(head.position).replace(/^(torch|paddle)\.(nn\.functional\.)?/, "") });
  const wide = Math.min(pen.measureText(text).width, innerWidth_() - 20) + 18;
  const left = Math.min(Math.max(x - 12, MARGIN.left), plot.width - MARGIN.right - wide);
  pen.fillStyle = color;
  pen.beginPath(); pen.roundRect(left, 2, wide, 22, 6); pen.fill();
  pen.fillStyle = c.card; pen.textAlign = "left"; pen.fillText(text, left + 9, 13.5, wide - 14);
}

function drawSelection() {
  const [lane, place] = state.selected < 0 ? [null, -1] : placeOf(state.selected);
  if (!lane || !inView(place)) return;
  pen.strokeStyle = plot.colors.focus; pen.lineWidth = 2;
  pen.beginPath(); pen.arc(xOf(place), yOf(valueOf(state.selected), lane), 9, 0, 2 * Math.PI); pen.stroke();
}

function drawBrush() {
  const from = Math.min(plot.drag.start, plot.drag.now), to = Math.max(plot.drag.start, plot.drag.now);
  pen.fillStyle = plot.colors.focus; pen.globalAlpha = 0.12;
  pen.fillRect(from, MARGIN.top, to - from, bottom() - MARGIN.top);
  pen.globalAlpha = 1;
}

// After the next frame, so that the rows of a table which was filtered are seen first.
let drawAsked = false;
function redraw() {
  if (drawAsked) return;
  drawAsked = true;
  requestAnimationFrame(() => setTimeout(() => { drawAsked = false; draw(); }));
}

// Error over the calls on a canvas: logarithmic, forward as circles, backward as triangles, victims dimmed, origin pinned.

const canvas = byId("canvas"), tip = byId("tip");
const pen = canvas.getContext("2d");
const MARGIN = { left: 62, right: 16, top: 34, bottom: 28 };
const plot = { from: 0, to: 0, ratio: false, low: -8, high: 0, width: 0, height: 0, colors: {}, sprites: new Map(), drag: null };

function readColors() {
  for (const name of ["ink", "muted", "line", "soft", "card", "bad", "warn", "forward", "backward", "victim", "limit", "focus"]) {
    plot.colors[name] = css("--" + name);
  }
  plot.sprites.clear();
}

function valueOf(i) { return plot.ratio ? ratioOf(i) : output[i]; }
function span() { return Math.max(1, plot.to - plot.from); }
function innerWidth_() { return plot.width - MARGIN.left - MARGIN.right; }
function innerHeight_() { return plot.height - MARGIN.top - MARGIN.bottom; }
function xOf(row) { return MARGIN.left + ((row - plot.from + 0.5) / span()) * innerWidth_(); }
function rowAt(x) { return plot.from + ((x - MARGIN.left) / innerWidth_()) * span() - 0.5; }

// Zero has no logarithm: it lies on its own line at the bottom; what is infinite lies at the top.
const ZERO_BAND = 22;
function yOf(value) {
  const bottom = MARGIN.top + innerHeight_() - ZERO_BAND;
  if (!(value > 0)) return MARGIN.top + innerHeight_() - 4;
  if (value === Infinity) return MARGIN.top + 3;
  const share = (Math.log10(value) - plot.low) / (plot.high - plot.low);
  return bottom - Math.min(1, Math.max(0, share)) * (bottom - MARGIN.top);
}

// The errors set the scale. Limits may lie far above them (a victim is allowed much): those are cut off at the top.
const LIMIT_ROOM = 30;
function findRange() {
  let low = Infinity, high = 0;
  const rows = state.inOrder;
  const within = (value) => value > 0 && value !== Infinity;
  for (let row = plot.from; row < plot.to; row++) {
    const value = valueOf(rows[row]);
    if (within(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  }
  const room = high ? high * LIMIT_ROOM : Infinity;
  for (let row = plot.from; row < plot.to; row++) {
    const bound = plot.ratio ? 1 : limit[rows[row]];
    if (within(bound) && bound < room) { low = Math.min(low, bound); high = Math.max(high, bound); }
  }
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
  }
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, plot.width, plot.height);
  findRange();
  drawAxes();
  drawLimit();
  drawPoints(scale);
  drawOrigin();
  drawSelection();
  if (plot.drag && plot.drag.moved) drawBrush();
}

function drawAxes() {
  const c = plot.colors, right = plot.width - MARGIN.right, bottom = MARGIN.top + innerHeight_();
  pen.font = "11.5px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  const stride = Math.ceil((plot.high - plot.low) / Math.max(3, Math.floor(innerHeight_() / 34)));
  for (let decade = plot.high; decade >= plot.low; decade -= stride) {
    const y = Math.round(yOf(10 ** decade)) + 0.5;
    pen.strokeStyle = c.line; pen.lineWidth = 1;
    pen.beginPath(); pen.moveTo(MARGIN.left, y); pen.lineTo(right, y); pen.stroke();
    pen.fillStyle = c.muted;
    pen.fillText(plot.ratio && decade === 0 ? "limit" : decade === 0 ? "1" : "1e" + decade, MARGIN.left - 10, y);
  }
  pen.fillStyle = c.muted;
  pen.fillText("equal", MARGIN.left - 10, bottom - 4);
  drawSteps(bottom);
}

function drawSteps(bottom) {
  const rows = state.inOrder, c = plot.colors;
  pen.textAlign = "left"; pen.fillStyle = c.muted;
  const several = new Set(rank).size > 1;
  let before = null, lastLabel = -100;
  for (let row = plot.from; row < plot.to; row++) {
    const i = rows[row], key = step[i] * 65536 + rank[i];
    if (key === before) continue;
    const x = Math.round(MARGIN.left + ((row - plot.from) / span()) * innerWidth_()) + 0.5;
    if (before !== null) { pen.strokeStyle = c.line; pen.setLineDash([2, 3]); pen.beginPath(); pen.moveTo(x, MARGIN.top - 6); pen.lineTo(x, bottom); pen.stroke(); pen.setLineDash([]); }
    if (x - lastLabel > (several ? 96 : 56) && x < plot.width - (several ? 90 : 50)) { pen.fillText(`step ${step[i]}` + (several ? `, rank ${rank[i]}` : ""), x + (before === null ? 0 : 4), bottom + 14); lastLabel = x; }
    before = key;
  }
  const all = state.inOrder.length, seen = plot.to - plot.from;
  byId("range").textContent = seen === all ? "" : `${seen.toLocaleString("en")} of ${all.toLocaleString("en")} calls in view`;
}

// Every call has its own limit; drawn is the highest of its neighbours, as the top of a calm area.
const LIMIT_WIDTH = 8;
function drawLimit() {
  const rows = state.inOrder, c = plot.colors, bottom = MARGIN.top + innerHeight_(), right = plot.width - MARGIN.right;
  const slots = Math.max(1, Math.ceil(innerWidth_() / LIMIT_WIDTH)), highest = new Float64Array(slots);
  for (let row = plot.from; row < plot.to; row++) {
    const bound = plot.ratio ? 1 : limit[rows[row]];
    const first = Math.floor(((row - plot.from) / span()) * slots), last = Math.max(first + 1, Math.floor(((row + 1 - plot.from) / span()) * slots));
    if (bound !== Infinity) for (let slot = first; slot < Math.min(slots, last); slot++) if (bound > highest[slot]) highest[slot] = bound;
  }
  const edge = new Path2D(), area = new Path2D();
  area.moveTo(MARGIN.left, bottom);
  let drawing = false;
  for (let slot = 0; slot < slots; slot++) {
    const from = MARGIN.left + (slot / slots) * innerWidth_(), to = Math.min(right, MARGIN.left + ((slot + 1) / slots) * innerWidth_());
    const y = highest[slot] ? yOf(highest[slot]) : bottom;
    area.lineTo(from, y); area.lineTo(to, y);
    if (!highest[slot] || highest[slot] > 10 ** plot.high) { drawing = false; continue; }
    if (drawing) edge.lineTo(from, y); else edge.moveTo(from, y);
    edge.lineTo(to, y);
    drawing = true;
  }
  area.lineTo(right, bottom);
  pen.fillStyle = c.limit; pen.globalAlpha = 0.07; pen.fill(area);
  pen.globalAlpha = 0.75; pen.strokeStyle = c.limit; pen.lineWidth = 1.2; pen.setLineDash([5, 4]); pen.stroke(edge);
  pen.setLineDash([]); pen.globalAlpha = 1;
}

// Where many calls share a pixel a point hides its neighbours: there, little squares tell by their strength how many.
const DENSE_PER_PIXEL = 6, CELL = 2;
function drawDense() {
  const rows = state.inOrder, width = Math.ceil(plot.width / CELL) + 1, height = Math.ceil(plot.height / CELL) + 1;
  const c = plot.colors, layers = [[KIND.NONE, 0, c.victim], [KIND.VICTIM, 0, c.victim], [KIND.VICTIM, 1, c.victim], [KIND.PASS, 0, c.forward], [KIND.PASS, 1, c.backward]];
  const calls = new Uint16Array(width * height);
  for (const [which, isBackward, color] of layers) {
    calls.fill(0);
    for (let row = plot.from; row < plot.to; row++) {
      const i = rows[row];
      if (kind[i] !== which || backward[i] !== isBackward) continue;
      const value = valueOf(i);
      if (!Number.isNaN(value)) calls[Math.floor(yOf(value) / CELL) * width + Math.floor(xOf(row) / CELL)]++;
    }
    pen.fillStyle = color;
    for (let cell = 0; cell < calls.length; cell++) {
      if (!calls[cell]) continue;
      pen.globalAlpha = Math.min(0.95, (which === KIND.PASS ? 0.3 : 0.16) + 0.14 * Math.log2(calls[cell]));
      pen.fillRect((cell % width) * CELL, Math.floor(cell / width) * CELL, CELL, CELL);
    }
  }
  pen.globalAlpha = 1;
}

function drawPoints(scale) {
  const dense = plot.to - plot.from > DENSE_PER_PIXEL * innerWidth_();
  if (dense) drawDense();
  drawMarks(scale, dense ? [KIND.WARN, KIND.FAIL] : [KIND.NONE, KIND.VICTIM, KIND.PASS, KIND.WARN, KIND.FAIL]);
}

function drawMarks(scale, kinds) {
  const rows = state.inOrder, width = Math.ceil(plot.width), height = Math.ceil(plot.height);
  const large = plot.to - plot.from < 150;
  // A pixel that has a point of this sort already needs no second one: this is what keeps 200,000 calls quick.
  const taken = new Uint16Array(width * height);
  for (const which of kinds) {
    for (let row = plot.from; row < plot.to; row++) {
      const i = rows[row];
      if (kind[i] !== which) continue;
      const value = valueOf(i);
      if (Number.isNaN(value) && which < KIND.WARN) continue;
      const x = xOf(row), y = yOf(value);
      const cell = Math.round(y) * width + Math.round(x), bit = 1 << (which * 2 + backward[i]);
      if (taken[cell] & bit) continue;
      taken[cell] |= bit;
      pen.drawImage(sprite(which, backward[i], large, scale), x - 8, y - 8, 16, 16);
    }
  }
}

function drawOrigin() {
  if (head.position === null || head.position === undefined) return;
  const row = rowOf(head.position);
  if (row < plot.from || row >= plot.to) return;
  const c = plot.colors, x = xOf(row), y = yOf(valueOf(head.position)), bottom = MARGIN.top + innerHeight_();
  const color = isBad(head.position) ? c.bad : c.warn;
  pen.strokeStyle = color; pen.lineWidth = 1.2;
  pen.beginPath(); pen.moveTo(x, MARGIN.top - 10); pen.lineTo(x, bottom); pen.stroke();
  pen.lineWidth = 2; shape(pen, x, y, 8, backward[head.position]); pen.stroke();
  paint(pen, x, y, isBad(head.position) ? KIND.FAIL : KIND.WARN, backward[head.position], true);
  pen.font = "600 12px system-ui, sans-serif"; pen.textBaseline = "middle";
  const text = "origin: " + nameOf(head.position).replace(/^torch\.(nn\.functional\.)?/, "");
  const wide = Math.min(pen.measureText(text).width, innerWidth_() - 20) + 18;
  const left = Math.min(Math.max(x - 12, MARGIN.left), plot.width - MARGIN.right - wide);
  pen.fillStyle = color;
  pen.beginPath(); pen.roundRect(left, 2, wide, 22, 6); pen.fill();
  pen.fillStyle = c.card; pen.textAlign = "left"; pen.fillText(text, left + 9, 13.5, wide - 14);
}

function drawSelection() {
  const row = state.selected < 0 ? -1 : rowOf(state.selected);
  if (row < plot.from || row >= plot.to) return;
  pen.strokeStyle = plot.colors.focus; pen.lineWidth = 2;
  pen.beginPath(); pen.arc(xOf(row), yOf(valueOf(state.selected)), 9, 0, 2 * Math.PI); pen.stroke();
}

function drawBrush() {
  const from = Math.min(plot.drag.start, plot.drag.now), to = Math.max(plot.drag.start, plot.drag.now);
  pen.fillStyle = plot.colors.focus; pen.globalAlpha = 0.12;
  pen.fillRect(from, MARGIN.top, to - from, innerHeight_());
  pen.globalAlpha = 1;
}

let drawAsked = false;
function redraw() {
  if (drawAsked) return;
  drawAsked = true;
  requestAnimationFrame(() => { drawAsked = false; draw(); });
}

function zoomTo(from, to) {
  const total = state.inOrder.length;
  const width = Math.min(total, Math.max(Math.min(10, total), Math.round(to - from)));
  plot.from = Math.min(Math.max(0, Math.round(from)), total - width);
  plot.to = plot.from + width;
  tip.hidden = true;
  redraw();
}

function zoomBy(factor, around) {
  const middle = around === undefined ? (plot.from + plot.to) / 2 : around;
  zoomTo(middle - (middle - plot.from) * factor, middle + (plot.to - middle) * factor);
}

function zoomToCall(i, width) {
  const row = rowOf(i);
  if (row >= 0) zoomTo(row - width / 2, row + width / 2);
}

function nearest(x, y) {
  const reach = 16, rows = state.inOrder;
  const first = Math.max(plot.from, Math.floor(rowAt(x - reach))), last = Math.min(plot.to - 1, Math.ceil(rowAt(x + reach)));
  let best = -1, bestDistance = reach * reach;
  for (let row = first; row <= last; row++) {
    const i = rows[row], dx = xOf(row) - x, dy = yOf(valueOf(i)) - y;
    const distance = dx * dx + dy * dy - kind[i] * 6; // between two that lie on each other the more telling one wins
    if (distance < bestDistance) { best = i; bestDistance = distance; }
  }
  return best;
}

function hover(event) {
  const i = nearest(event.offsetX, event.offsetY);
  tip.hidden = i < 0;
  canvas.style.cursor = i < 0 ? "crosshair" : "pointer";
  if (i < 0) return;
  const bound = limit[i] > 0 ? `, limit ${short(limit[i])}` : "";
  tip.replaceChildren(element("b", "", nameOf(i)), element("br"), `${moduleOf(i) || "outside any module"} · step ${step[i]} · rank ${rank[i]}`,
    element("br"), `inputs ${short(input[i])}, output ${short(output[i])}${bound}`, element("br"), KIND_WORD[kind[i]]);
  const left = Math.min(event.offsetX + 14, plot.width - tip.offsetWidth - 4);
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${event.offsetY > plot.height / 2 ? event.offsetY - tip.offsetHeight - 12 : event.offsetY + 16}px`;
}

canvas.addEventListener("pointerdown", (event) => { if (event.button === 0) plot.drag = { start: event.offsetX, now: event.offsetX, moved: false, touch: event.pointerType === "touch" }; });
canvas.addEventListener("pointermove", (event) => {
  if (!plot.drag || plot.drag.touch) { hover(event); return; }
  plot.drag.now = event.offsetX;
  if (Math.abs(plot.drag.now - plot.drag.start) > 5) { plot.drag.moved = true; tip.hidden = true; redraw(); }
});
window.addEventListener("pointerup", (event) => {
  const drag = plot.drag;
  plot.drag = null;
  if (!drag) return;
  if (drag.moved) { const [a, b] = [drag.start, drag.now].sort((p, q) => p - q); zoomTo(rowAt(a), rowAt(b) + 1); return; }
  if (event.target === canvas) { const i = nearest(event.offsetX, event.offsetY); if (i >= 0) select(i); }
});
window.addEventListener("pointercancel", () => { plot.drag = null; });
canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
canvas.addEventListener("dblclick", () => zoomTo(0, state.inOrder.length));
canvas.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.metaKey) return; // a plain wheel scrolls the page, as everywhere
  event.preventDefault();
  zoomBy(event.deltaY > 0 ? 1.25 : 0.8, rowAt(event.offsetX));
}, { passive: false });
canvas.addEventListener("keydown", (event) => {
  const row = state.selected < 0 ? -1 : rowOf(state.selected);
  const go = (to) => { if (to >= 0 && to < state.inOrder.length) { select(state.inOrder[to]); if (to < plot.from || to >= plot.to) zoomToCall(state.inOrder[to], span()); } };
  if (event.key === "ArrowRight") go(row < 0 ? plot.from : row + 1);
  else if (event.key === "ArrowLeft") go(row < 0 ? plot.to - 1 : row - 1);
  else if (event.key === "+" || event.key === "=") zoomBy(0.5, row < 0 ? undefined : row);
  else if (event.key === "-") zoomBy(2, row < 0 ? undefined : row);
  else if (event.key === "0") zoomTo(0, state.inOrder.length);
  else return;
  event.preventDefault();
});

function drawLegend() {
  const legend = byId("legend");
  legend.replaceChildren();
  const rows = [["forward", KIND.PASS, 0], ["backward", KIND.PASS, 1], ["failed", KIND.FAIL, 0], ["to look at", KIND.WARN, 0], ["victim of an earlier error", KIND.VICTIM, 0]];
  for (const [text, which, isBackward] of rows) {
    const image = element("canvas"), context = image.getContext("2d");
    image.width = image.height = 32;
    context.scale(2, 2);
    paint(context, 8, 8, which, isBackward, true);
    legend.append(append(element("span"), image, text));
  }
  const image = element("canvas"), context = image.getContext("2d");
  image.width = image.height = 32;
  context.scale(2, 2); context.strokeStyle = plot.colors.limit; context.setLineDash([4, 3]); context.lineWidth = 1.4;
  context.beginPath(); context.moveTo(0, 8); context.lineTo(16, 8); context.stroke();
  legend.append(append(element("span"), image, "limit of honest arithmetic"));
  legend.append(element("span", "", "drag to zoom, double-click for all"));
}

function showRatio(ratio) {
  plot.ratio = ratio;
  byId("show-error").setAttribute("aria-pressed", String(!ratio));
  byId("show-ratio").setAttribute("aria-pressed", String(ratio));
  redraw();
}

byId("show-error").addEventListener("click", () => showRatio(false));
byId("show-ratio").addEventListener("click", () => showRatio(true));
byId("zoom-in").addEventListener("click", () => zoomBy(0.5));
byId("zoom-out").addEventListener("click", () => zoomBy(2));
byId("zoom-all").addEventListener("click", () => zoomTo(0, state.inOrder.length));
byId("zoom-origin").addEventListener("click", () => zoomToCall(head.position, 60));
byId("zoom-origin").hidden = head.position === null || head.position === undefined;
new ResizeObserver(redraw).observe(canvas);
on("view", () => { plot.from = 0; plot.to = state.inOrder.length; redraw(); });
on("selected", redraw);
on("theme", () => { readColors(); drawLegend(); redraw(); });

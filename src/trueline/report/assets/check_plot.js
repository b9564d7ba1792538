// The error of each case in units of its limit: logarithmic, outputs as circles, gradients as triangles. Above the scale
// lies what has no number (it crashed, or is beyond any limit), below it what is exact. Where the cases lie with the
// server, a histogram takes its place (check_scores.js).

const canvas = byId("canvas"), tip = byId("tip"), pen = canvas.getContext("2d");
const MARGIN = { left: 62, right: 16, top: 14, bottom: 14 }, BAND = 24;
const plot = { low: -2, high: 1, width: 0, height: 0, colors: {}, rows: new Int32Array(0), byScore: false };

function readColors() {
  for (const name of ["ink", "muted", "line", "soft", "card", "bad", "warn", "forward", "backward", "victim", "limit", "focus"]) plot.colors[name] = css("--" + name);
}

// A case that failed without a score is drawn at the top, as one that is beyond any limit.
function pointsOf(i) {
  const points = [];
  if (!Number.isNaN(forward[i])) points.push([forward[i], 0, forwardVerdict[i]]);
  if (!Number.isNaN(backward[i])) points.push([backward[i], 1, backwardVerdict[i]]);
  if (!points.length && isBad(i)) points.push([Infinity, 0, verdict[i]]);
  return points;
}
function heightOf(i) { return pointsOf(i).reduce((most, [value]) => Math.max(most, value), -1); }

function arrange() {
  const rows = Int32Array.from(state.inOrder);
  if (plot.byScore) {
    const height = new Float64Array(count);
    for (const i of rows) height[i] = heightOf(i);
    rows.sort((a, b) => height[b] - height[a] || a - b);
  }
  plot.rows = rows;
  byId("range").textContent = windowed || rows.length === count ? "" : say("{n} of {all}", { n: grouped(rows.length), all: grouped(count) });
}

function innerWidth_() { return plot.width - MARGIN.left - MARGIN.right; }
function xOf(row) { return MARGIN.left + ((row + 0.5) / Math.max(1, plot.rows.length)) * innerWidth_(); }
function yOf(value) {
  const top = MARGIN.top + BAND, bottom = plot.height - MARGIN.bottom - BAND;
  if (!(value > 0)) return plot.height - MARGIN.bottom - 4;
  if (value === Infinity) return MARGIN.top + 4;
  const share = (Math.log10(value) - plot.low) / (plot.high - plot.low);
  return bottom - Math.min(1, Math.max(0, share)) * (bottom - top);
}

function findRange() {
  let low = 0.1, high = 10;
  for (const i of plot.rows) for (const [value] of pointsOf(i)) if (value > 0 && value !== Infinity) { low = Math.min(low, value); high = Math.max(high, value); }
  plot.low = Math.max(-6, Math.floor(Math.log10(low)));
  plot.high = Math.min(12, Math.ceil(Math.log10(high)));
}

function shape(context, x, y, size, isBackward) {
  context.beginPath();
  if (isBackward) { context.moveTo(x, y - size * 1.15); context.lineTo(x + size * 1.1, y + size * 0.85); context.lineTo(x - size * 1.1, y + size * 0.85); context.closePath(); }
  else context.arc(x, y, size, 0, 2 * Math.PI);
}

function paint(context, x, y, told, isBackward, scale) {
  const c = plot.colors;
  shape(context, x, y, (told >= 3 ? 4.4 : told === 1 ? 3.8 : 2.6) * scale, isBackward);
  if (told >= 3) { context.fillStyle = c.bad; context.fill(); context.lineWidth = 1; context.strokeStyle = c.card; context.stroke(); return; }
  if (told === 1) { context.fillStyle = c.card; context.fill(); context.lineWidth = 1.8; context.strokeStyle = c.warn; context.stroke(); return; }
  context.globalAlpha = told === 0 ? 0.7 : 0.4;
  context.fillStyle = told === 2 ? c.victim : isBackward ? c.backward : c.forward;
  context.fill();
  context.globalAlpha = 1;
}

function draw() {
  const ratio = window.devicePixelRatio || 1;
  plot.width = canvas.clientWidth; plot.height = canvas.clientHeight;
  canvas.width = Math.round(plot.width * ratio); canvas.height = Math.round(plot.height * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  if (windowed) { drawScores(); return; }
  findRange();
  drawAxes();
  const large = plot.rows.length < 200 ? 1.3 : 1, taken = new Set();
  for (const wanted of [[2, 0], [1], [3, 4]]) { // what is wrong lies on top
    plot.rows.forEach((i, row) => {
      for (const [value, isBackward, told] of pointsOf(i)) {
        if (!wanted.includes(told)) continue;
        const x = xOf(row), y = yOf(value), cell = `${Math.round(x)} ${Math.round(y)} ${isBackward} ${told}`;
        if (taken.has(cell)) continue; // a pixel that has such a point already needs no second one
        taken.add(cell);
        paint(pen, x, y, told, isBackward, large);
      }
    });
  }
  drawSelection();
}

function drawAxes() {
  const c = plot.colors, right = plot.width - MARGIN.right, limitY = Math.round(yOf(1)) + 0.5;
  pen.fillStyle = c.bad; pen.globalAlpha = 0.05; pen.fillRect(MARGIN.left, MARGIN.top - 8, innerWidth_(), limitY - MARGIN.top + 8); pen.globalAlpha = 1;
  pen.font = "11.5px system-ui, sans-serif"; pen.textBaseline = "middle"; pen.textAlign = "right"; pen.lineWidth = 1;
  const stride = Math.max(1, Math.ceil((plot.high - plot.low) / 8));
  for (let decade = plot.low; decade <= plot.high; decade++) {
    if (decade !== 0 && (decade % stride || (stride > 1 && Math.abs(decade) < 1))) continue;
    const y = Math.round(yOf(10 ** decade)) + 0.5;
    pen.strokeStyle = decade === 0 ? c.limit : c.line;
    pen.setLineDash(decade === 0 ? [5, 4] : []);
    pen.beginPath(); pen.moveTo(MARGIN.left, y); pen.lineTo(right, y); pen.stroke();
    pen.fillStyle = decade === 0 ? c.ink : c.muted;
    pen.fillText(decade === 0 ? say("limit") : decade > 0 && decade < 4 ? `${10 ** decade} ×` : decade < 0 && decade > -3 ? `${10 ** decade} ×` : `1e${decade}`, MARGIN.left - 10, y);
  }
  pen.setLineDash([]);
  pen.fillStyle = c.muted;
  pen.fillText("∞", MARGIN.left - 10, MARGIN.top + 4);
  pen.fillText("0", MARGIN.left - 10, plot.height - MARGIN.bottom - 4);
}

function drawSelection() {
  const row = state.selected < 0 ? -1 : plot.rows.indexOf(state.selected);
  if (row < 0) return;
  const c = plot.colors, x = xOf(row);
  pen.strokeStyle = c.focus; pen.lineWidth = 1; pen.globalAlpha = 0.5;
  pen.beginPath(); pen.moveTo(x, MARGIN.top); pen.lineTo(x, plot.height - MARGIN.bottom); pen.stroke();
  pen.globalAlpha = 1; pen.lineWidth = 2;
  for (const [value] of pointsOf(state.selected)) { pen.beginPath(); pen.arc(x, yOf(value), 9, 0, 2 * Math.PI); pen.stroke(); }
}

let drawAsked = false;
function redraw() {
  if (drawAsked) return;
  drawAsked = true;
  requestAnimationFrame(() => { drawAsked = false; draw(); });
}

function nearest(x, y) {
  const total = plot.rows.length, per = total / innerWidth_();
  const first = Math.max(0, Math.floor((x - MARGIN.left - 16) * per)), last = Math.min(total - 1, Math.ceil((x - MARGIN.left + 16) * per));
  let best = -1, bestDistance = 256;
  for (let row = first; row <= last; row++) {
    const i = plot.rows[row];
    for (const [value, , told] of pointsOf(i)) {
      const dx = xOf(row) - x, dy = yOf(value) - y, distance = dx * dx + dy * dy - told * 8;
      if (distance < bestDistance) { best = i; bestDistance = distance; }
    }
  }
  return best;
}

function scoresText(i) { return say("forward {forward}, backward {backward}", { forward: scoreText(forward[i]), backward: scoreText(backward[i]) }); }

// What the tip says at a place: its lines, the first of which is a title; null where there is nothing.
function tipLines(i, x) {
  if (windowed) return scores.bins ? scoreTip(x) : null;
  return i < 0 ? null : [apiOf(i), callOf(i), scoresText(i), wordOf(i) + (verdict[i] ? `: ${reasonOf(i)}` : "")];
}

canvas.addEventListener("pointermove", (event) => {
  const i = windowed ? -1 : nearest(event.offsetX, event.offsetY), lines = tipLines(i, event.offsetX);
  tip.hidden = lines === null;
  canvas.style.cursor = i < 0 ? "crosshair" : "pointer";
  if (lines === null) return;
  tip.replaceChildren(element("b", "", lines[0]), ...lines.slice(1).flatMap((line) => [element("br"), line]));
  tip.style.left = `${Math.max(4, Math.min(event.offsetX + 14, plot.width - tip.offsetWidth - 4))}px`;
  tip.style.top = `${event.offsetY > plot.height / 2 ? event.offsetY - tip.offsetHeight - 12 : event.offsetY + 16}px`;
});
canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
canvas.addEventListener("click", (event) => { const i = windowed ? -1 : nearest(event.offsetX, event.offsetY); if (i >= 0) select(i); });
canvas.addEventListener("keydown", (event) => {
  const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!move || !plot.rows.length) return;
  event.preventDefault();
  const row = plot.rows.indexOf(state.selected);
  select(plot.rows[row < 0 ? 0 : Math.min(plot.rows.length - 1, Math.max(0, row + move))]);
});

function drawLegend() {
  const legend = byId("legend");
  legend.replaceChildren();
  const kinds = windowed ? [[say("passed"), 0, 0]] : [[say("outputs"), 0, 0], [say("gradients"), 0, 1]];
  for (const [text, told, isBackward] of [...kinds, [say("failed"), 3, 0], [say("to look at"), 1, 0]]) {
    const image = element("canvas"), context = image.getContext("2d");
    image.width = image.height = 32;
    context.scale(2, 2);
    paint(context, 8, 8, told, isBackward, 1.3);
    legend.append(append(element("span"), image, text));
  }
  legend.append(element("span", "", windowed ? say("the height is logarithmic; right of the dashed line is wrong; ∞: beyond any limit") : say("above the dashed line is wrong; ∞: crashed, or beyond any limit")));
}

function orderBy(byScore) {
  plot.byScore = byScore;
  byId("by-place").setAttribute("aria-pressed", String(!byScore));
  byId("by-score").setAttribute("aria-pressed", String(byScore));
  arrange();
  redraw();
}

byId("by-place").addEventListener("click", () => { orderBy(false); saveAddress(); });
byId("by-score").addEventListener("click", () => { orderBy(true); saveAddress(); });
byId("by-place").parentNode.hidden = windowed;
holdValue("plot", () => (plot.byScore ? "error" : ""), (text) => orderBy(text === "error"));
new ResizeObserver(redraw).observe(canvas);
on("view", () => { arrange(); redraw(); });
on("selected", redraw);
on("theme", () => { readColors(); drawLegend(); redraw(); });

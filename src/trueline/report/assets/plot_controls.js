// How the plot is used: zoom, bands, pointing, keys, its legend, and what of it the address holds.

function zoomTo(from, to) {
  const total = plot.length;
  const width = Math.min(total, Math.max(Math.min(10, total), Math.round(to - from)));
  plot.from = Math.min(Math.max(0, Math.round(from)), total - width);
  plot.to = plot.from + width;
  tip.hidden = true;
  redraw();
  saveAddress();
}

function zoomBy(factor, around) {
  const middle = around === undefined ? (plot.from + plot.to) / 2 : around;
  zoomTo(middle - (middle - plot.from) * factor, middle + (plot.to - middle) * factor);
}

function zoomToCall(i, width) {
  const [, place] = placeOf(i);
  if (place >= 0) zoomTo(place - width / 2, place + width / 2);
}

function showRange() {
  const words = [];
  if (span() < plot.length) words.push(say("{n} of {all} calls in view", { n: grouped(span()), all: grouped(plot.length) }));
  if (plot.left_out) words.push(say("{n} bands with smaller errors are not shown", { n: grouped(plot.left_out) }));
  if (isDense() && !plot.bands) words.push(say("many calls a pixel: zoom in, or choose a band for each phase"));
  byId("range").textContent = words.join("; ");
}

function nearest(x, y) {
  const reach = 16, lane = plot.lanes.find((one) => y <= bottomOf(one) + LANE_GAP / 2) || plot.lanes[plot.lanes.length - 1];
  if (!lane) return -1;
  const first = Math.max(plot.from, Math.floor(placeAt(x - reach))), last = Math.min(plot.to, lane.rows.length) - 1;
  let best = -1, bestDistance = reach * reach;
  for (let place = first; place <= Math.min(last, Math.ceil(placeAt(x + reach))); place++) {
    const i = lane.rows[place], dx = xOf(place) - x, dy = yOf(valueOf(i), lane) - y;
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
  const bound = limit[i] > 0 ? say(", limit {n}", { n: short(limit[i]) }) : "";
  tip.replaceChildren(element("b", "", nameOf(i)), element("br"), [moduleOf(i) || say("outside any module"), say("step {n}", { n: step[i] }), say("rank {n}", { n: rank[i] })].join(" · "),
    element("br"), say("inputs {inputs}, output {output}", { inputs: short(input[i]), output: short(output[i]) }) + bound, element("br"), wordOf(i));
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
  if (drag.moved) { const [a, b] = [drag.start, drag.now].sort((p, q) => p - q); zoomTo(placeAt(a), placeAt(b) + 1); return; }
  if (event.target === canvas) { const i = nearest(event.offsetX, event.offsetY); if (i >= 0) select(i); }
});
window.addEventListener("pointercancel", () => { plot.drag = null; });
canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
canvas.addEventListener("dblclick", () => zoomTo(0, plot.length));
canvas.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.metaKey) return; // a plain wheel scrolls the page, as everywhere
  event.preventDefault();
  zoomBy(event.deltaY > 0 ? 1.25 : 0.8, placeAt(event.offsetX));
}, { passive: false });

// The arrows go from call to call within a band.
function stepInPlot(direction) {
  const [lane, place] = state.selected < 0 ? [plot.lanes[0], -1] : placeOf(state.selected);
  if (!lane) return;
  const to = place < 0 ? (direction > 0 ? plot.from : Math.min(plot.to, lane.rows.length) - 1) : place + direction;
  if (to < 0 || to >= lane.rows.length) return;
  select(lane.rows[to]);
  if (!inView(to)) zoomToCall(lane.rows[to], span());
}
canvas.addEventListener("keydown", (event) => {
  const place = state.selected < 0 ? -1 : placeOf(state.selected)[1], around = place < 0 ? undefined : place;
  if (event.key === "ArrowRight") stepInPlot(1);
  else if (event.key === "ArrowLeft") stepInPlot(-1);
  else if (event.key === "+" || event.key === "=") zoomBy(0.5, around);
  else if (event.key === "-") zoomBy(2, around);
  else if (event.key === "0") zoomTo(0, plot.length);
  else if (event.key === "Enter") { if (state.selected < 0) showRow(head.position ?? state.inOrder[plot.from]); }
  else return;
  event.preventDefault();
});

function legendEntry(text, drawIt) {
  const image = element("canvas"), context = image.getContext("2d");
  image.width = image.height = 32;
  context.scale(2, 2);
  drawIt(context);
  return append(element("span"), image, text);
}

function drawLegend() {
  const rows = [[say("forward"), KIND.PASS, 0], [say("backward"), KIND.PASS, 1], [say("failed"), KIND.FAIL, 0], [say("to look at"), KIND.WARN, 0], [say("follows from the origin"), KIND.VICTIM, 0]];
  byId("legend").replaceChildren(
    ...rows.map(([text, which, isBackward]) => legendEntry(text, (context) => paint(context, 8, 8, which, isBackward, true))),
    legendEntry(say("limit of honest arithmetic"), (context) => {
      context.strokeStyle = plot.colors.limit; context.setLineDash([4, 3]); context.lineWidth = 1.4;
      context.beginPath(); context.moveTo(0, 8); context.lineTo(16, 8); context.stroke();
    }),
    element("span", "", say("drag to zoom, double-click for all")));
}

function showRatio(ratio) {
  plot.ratio = ratio;
  byId("show-error").setAttribute("aria-pressed", String(!ratio));
  byId("show-ratio").setAttribute("aria-pressed", String(ratio));
  redraw();
}

// Which bands there can be, and which are shown unless the address says otherwise: ranks lie above each other.
const usualBands = new Set(rank).size > 1 ? "rank" : "";
function setBands(bands) {
  plot.bands = bands;
  byId("bands").value = bands;
  makeLanes();
  zoomTo(0, plot.length);
}
function fillBands() {
  const choices = [["", say("one band")], ["phase", say("a band for each phase")], ["step", say("a band for each step")], ["rank", say("a band for each rank")]];
  const possible = { "": true, phase: new Set(backward).size > 1, step: new Set(step).size > 1, rank: new Set(rank).size > 1 };
  for (const [value, text] of choices) if (possible[value]) { const option = element("option", "", text); option.value = value; byId("bands").append(option); }
  byId("bands").hidden = byId("bands").options.length < 2;
}
fillBands();
byId("bands").addEventListener("change", (event) => setBands(event.target.value));

// The address holds bands, scale and zoom.
hold((words) => {
  if (plot.bands !== usualBands) words.set("bands", plot.bands || "one");
  if (plot.ratio) words.set("plot", "ratio");
  if (span() < plot.length) words.set("zoom", `${plot.from}-${plot.to}`);
}, (words) => {
  const asked = words.get("bands"), zoom = /^(\d+)-(\d+)$/.exec(words.get("zoom") || "");
  showRatio(words.get("plot") === "ratio");
  setBands(asked === "one" ? "" : [...byId("bands").options].some((one) => one.value === asked) ? asked : usualBands);
  if (zoom && Number(zoom[1]) < Number(zoom[2])) zoomTo(Number(zoom[1]), Number(zoom[2]));
});

byId("show-error").addEventListener("click", () => { showRatio(false); saveAddress(); });
byId("show-ratio").addEventListener("click", () => { showRatio(true); saveAddress(); });
byId("zoom-in").addEventListener("click", () => zoomBy(0.5));
byId("zoom-out").addEventListener("click", () => zoomBy(2));
byId("zoom-all").addEventListener("click", () => zoomTo(0, plot.length));
byId("zoom-origin").addEventListener("click", () => zoomToCall(head.position, 60));
byId("zoom-origin").hidden = head.position === null || head.position === undefined;
new ResizeObserver(redraw).observe(canvas);
on("view", () => { if (plot.rows === state.inOrder) return; plot.rows = state.inOrder; makeLanes(); plot.from = 0; plot.to = plot.length; redraw(); });
on("selected", redraw);
on("theme", () => { readColors(); drawLegend(); redraw(); });

// The errors of very many cases, as a histogram: how many lie how far below or above their limit, by half decades.

const scores = { bins: null };

async function askScores() {
  try {
    const answer = await fetch("data/scores");
    if (answer.ok) { scores.bins = (await answer.json()).bins; redraw(); }
  } catch { /* the page is of use without */ }
}

// For each bin: passed, to look at or not compared, wrong.
function scoreStacks() {
  const stacks = Array.from({ length: data.edges.length + 3 }, () => [0, 0, 0]);
  for (const [told, bin, cases] of scores.bins) stacks[bin][told >= 3 ? 2 : told === 0 ? 0 : 1] += cases;
  return stacks;
}

function drawScores() {
  const c = plot.colors, stacks = scores.bins ? scoreStacks() : [], left = MARGIN.left, bottom = plot.height - 40, room = bottom - MARGIN.top - 16;
  if (!stacks.length) return;
  const highest = Math.max(1, ...stacks.map((stack) => stack[0] + stack[1] + stack[2])), wide = innerWidth_() / stacks.length;
  const heightOfCount = (n) => (n ? Math.max(3, (Math.log10(1 + n) / Math.log10(1 + highest)) * room) : 0); // one case among a million is seen
  pen.font = "11.5px system-ui, sans-serif"; pen.textAlign = "center"; pen.textBaseline = "top";
  const limit = left + wide * (data.edges.findIndex((edge) => edge >= 0.999) + 2);
  stacks.forEach((stack, bin) => drawStack(stack, left + bin * wide, wide, bottom, heightOfCount));
  pen.strokeStyle = c.limit; pen.setLineDash([5, 4]); pen.beginPath(); pen.moveTo(limit, MARGIN.top); pen.lineTo(limit, bottom); pen.stroke(); pen.setLineDash([]);
  pen.fillStyle = c.ink; pen.fillText(say("limit"), limit, bottom + 8);
  pen.fillStyle = c.muted;
  pen.fillText("0", left + wide / 2, bottom + 8);
  pen.fillText("∞", left + (stacks.length - 0.5) * wide, bottom + 8);
  const stride = wide < 26 ? 4 : 2;
  data.edges.forEach((edge, n) => {
    if (n % stride || Math.abs(Math.log10(edge)) < 0.6) return;
    pen.fillText(edge >= 1000 || edge < 0.01 ? `1e${Math.round(Math.log10(edge))}` : `${Number(edge.toPrecision(1))} ×`, left + (n + 2) * wide, bottom + 8);
  });
}

// The parts of a bar share its height by their numbers; the height itself is logarithmic.
function drawStack(stack, x, wide, bottom, heightOfCount) {
  const c = plot.colors, total = stack[0] + stack[1] + stack[2], high = heightOfCount(total);
  let y = bottom;
  stack.forEach((n, part) => {
    if (!n) return;
    const size = Math.max(2, (n / total) * high);
    pen.fillStyle = [c.forward, c.warn, c.bad][part];
    pen.globalAlpha = part ? 1 : 0.7;
    pen.fillRect(x + 1.5, y - size, Math.max(1, wide - 3), size);
    y -= size;
  });
  pen.globalAlpha = 1;
}

function scoreTip(x) {
  const stacks = scoreStacks(), bin = Math.floor(((x - MARGIN.left) / innerWidth_()) * stacks.length), stack = stacks[bin];
  if (!stack || !(stack[0] + stack[1] + stack[2])) return null;
  const edge = (n) => times(data.edges[n]);
  const where = bin === 0 ? say("no error at all") : bin === stacks.length - 1 ? say("beyond any limit") : bin === 1 ? say("below {high} the limit", { high: edge(0) }) : bin === stacks.length - 2 ? say("above {low} the limit", { low: edge(bin - 2) }) : say("{low} to {high} the limit", { low: edge(bin - 2), high: edge(bin - 1) });
  return [where, say("{n} passed", { n: grouped(stack[0]) }), say("{n} to look at", { n: grouped(stack[1]) }), say("{n} wrong", { n: grouped(stack[2]) })];
}

// The rows of the table come first: they are what people look at.
if (windowed) {
  let asked = false;
  on("view", () => { if (!asked) askScores(); asked = true; });
  on("counts", askScores);
}

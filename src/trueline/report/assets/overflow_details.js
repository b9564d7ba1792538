// One birth: what happened and whether it had to, its operands, its way, and the calls before it.

const CALL_COLUMNS = [[say("call"), "mono"], [say("module"), ""], [say("largest"), "number"], [say("bits left"), "number"], [say("norm"), "number wide"], [say("mean"), "number wide"], [say("not finite"), "number"]];
function bitsOf(value) { const number = toNumber(value); return number === null || Number.isNaN(number) ? "–" : number.toFixed(1); }
function callRow(one) {
  const bad = one.nan + one.infinite, largest = toNumber(one.largest);
  return {
    cells: [one.name, one.module || "", Number.isNaN(largest) ? "–" : short(2 ** largest), bitsOf(one.headroom), short(one.norm), short(one.mean), { text: bad ? `✕ ${countsText(one)}` : "", className: bad ? "bad" : "" }],
    pick: () => showCall(one),
  };
}

// One call of the way or before the birth: what it gave, and how to look at it.
function showCall(one) {
  const list = element("dl");
  definition(list, say("module"), one.module || say("outside any module"));
  definition(list, say("source"), one.source);
  if (one.step !== undefined) definition(list, say("step"), String(one.step));
  if (one.elements) {
    definition(list, say("outputs"), countsText(one));
    definition(list, say("largest"), Number.isNaN(toNumber(one.largest)) ? "–" : exact(2 ** toNumber(one.largest)));
    definition(list, say("bits left"), bitsOf(one.headroom));
    definition(list, say("norm"), exact(one.norm));
    definition(list, say("mean"), exact(one.mean));
  }
  const command = `trueline show ${quote(head.path)} ${quote(one.name)}${one.step === undefined ? "" : ` --step ${one.step}`}`;
  lookAt(one);
  fillDrawer(element("span", "tag none", say("one call")), one.name, list, element("h3", "", say("Go on")), commandBox(say("this call on the terminal"), command), one.position === undefined ? null : commandBox(say("this call among all others"), `trueline view ${quote(head.path)}`));
  saveAddress();
}

// What is open besides the births; the address names it by its place.
let looking = "";
function lookAt(one) {
  if (state.selected >= 0) select(-1);
  looking = Object.entries(looks()).map(([where, all]) => (all.includes(one) ? `${where} ${all.indexOf(one)}` : "")).find(Boolean) || "";
}
on("selected", () => { looking = ""; });

function showDetails() {
  const i = state.selected;
  if (i < 0) return;
  const detail = data.details[i];
  const parts = detail ? birthParts(detail) : askDetail(i, showDetails) ? [loadingNote()] : [];
  fillDrawer(element("span", `tag ${classOf(i)}`, wordOf(i)), nameOf(i), birthFacts(i, detail), ...parts);
  if (detail && detail.course && byId("birth-course")) drawLines(byId("birth-course"), { ...courseChart([detail]), height: 150 }, byId("birth-reading"));
}

function birthFacts(i, detail) {
  const list = element("dl");
  definition(list, say("module"), (detail && detail.in_module) || moduleOf(i) || say("outside any module"));
  definition(list, say("source"), sourceOf(i) || say("no stack was kept"));
  definition(list, say("where"), say("step {step}, rank {rank}", { step: step[i], rank: rank[i] }));
  definition(list, say("kind"), kindText(kindOf(i)));
  definition(list, say("nature"), NATURE_TEXT[natureOf(i)] || natureOf(i));
  definition(list, say("why"), data.names.why[columns.why[i]]);
  definition(list, say("ends in"), `${data.names.ends[columns.ends[i]] || "–"}; ${several(victims[i], "{n} call inherited it", "{n} calls inherited it")}`);
  if (!detail) return list;
  definition(list, say("tensor"), `${detail.path}, ${detail.dtype} [${detail.shape.join(", ")}]: ${countsText({ nan: detail.nan, infinite: detail.positive_infinity + detail.negative_infinity, elements: detail.count })}`);
  if (detail.element) definition(list, say("element"), `[${detail.element.join(", ")}]${operandsText(detail)}`);
  definition(list, say("what helps"), detail.advice);
  return list;
}

function operandsText(detail) {
  const given = Object.entries(detail.operands).map(([name, value]) => `${name} = ${exact(value)}`);
  return given.length ? `: ${given.join(", ")}` : "";
}

function birthParts(detail) {
  const parts = [];
  if (detail.way.length) parts.push(element("h3", "", say("The way it took")), wayPicture(detail.way, detail.ends, detail.way[0].step === undefined ? null : showCall));
  if (detail.course) parts.push(element("h3", "", say("Bits left, over the steps")), named("birth-course", element("div", "line-plot")), named("birth-reading", element("p", "muted reading")));
  if (detail.before.length) parts.push(element("h3", "", say("The calls just before")), smallTable(CALL_COLUMNS.slice(0, 4), detail.before.map((one) => { const row = callRow(one); return { ...row, cells: row.cells.slice(0, 4) }; })));
  if (detail.stack.length) parts.push(element("h3", "", say("Stack")), element("pre", "", detail.stack.join("\n")));
  parts.push(element("h3", "", say("Go on")), commandBox(say("this call on the terminal"), `trueline show ${quote(head.path)} ${quote(detail.call)} --step ${detail.at_step}`));
  return parts;
}

on("selected", showDetails);

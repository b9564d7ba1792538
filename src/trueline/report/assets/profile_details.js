// One case: what was found, both sides beside each other, ratios with their spread, and how to go on.

const PHASES = [["forward", say("forward")], ["backward", say("backward")]];
const VERDICT_NUMBER = { PASS: 0, WARN: 1, NOT_COMPARED: 2, FAIL: 3, ERROR: 4 };

function showDetails() {
  const i = state.selected;
  if (i < 0) return;
  const detail = data.details[i];
  const parts = detail ? caseParts(i, detail) : askDetail(i, showDetails) ? [loadingNote()] : [];
  fillDrawer(wordOf(i) ? element("span", `tag ${classOf(i)}`, wordOf(i)) : null, apiOf(i), caseFacts(i), ...parts, ...goOn(detail));
}

function caseFacts(i) {
  const list = element("dl");
  definition(list, say("call"), apiOf(i) + callOf(i));
  definition(list, say("calls"), grouped(calls[i]));
  definition(list, say("module"), moduleOf(i));
  definition(list, say("source"), sourceOf(i));
  definition(list, say("of a step"), duration(total[i] / stepsTold) + (compared && !Number.isNaN(ratio[i]) ? `, ${lost[i] >= 0 ? say("{time} lost", { time: duration(lost[i] / stepsTold) }) : say("{time} gained", { time: duration(-lost[i] / stepsTold) })}` : ""));
  if (checked) definition(list, say("accuracy"), accuracyText(i));
  return list;
}

function caseParts(i, detail) {
  const parts = [];
  if (detail.findings.length) parts.push(element("h3", "", say("Findings")), append(element("ul", "findings"), ...detail.findings.map(findingItem)));
  else if (detail.reason) parts.push(element("h3", "", say("Findings")), element("p", "", detail.reason));
  for (const [name, word] of PHASES) if (detail.ratios[name]) parts.push(...ratioParts(name, word, detail));
  for (const [name, word] of PHASES) if (detail.target.phases[name]) parts.push(element("h3", "", word), sidesTable(name, detail));
  for (const [side, title] of [["target", head.info.target], ["against", head.info.against]]) {
    const one = detail[side];
    if (!one) continue;
    if (one.outcome.status !== "returned") parts.push(element("h3", "", title), element("pre", "", `${one.outcome.status}: ${one.outcome.reason}`));
    if (one.notes.length) parts.push(element("h3", "", say("How {target} was measured", { target: title })), append(element("ul", "notes"), ...one.notes.map((text) => element("li", "", text))));
  }
  if (detail.accuracy_reason) parts.push(element("h3", "", say("accuracy")), element("p", "", detail.accuracy_reason));
  return parts;
}

function findingItem(one) {
  const number = VERDICT_NUMBER[one.verdict];
  return append(element("li"), element("b", CLASSES[number], `${MARKS[number]} `), element("span", "", one.reason));
}

// The ratio with the middle four fifths of what was measured, on a logarithmic scale beside the limit.
function ratioParts(name, word, detail) {
  const found = detail.ratios[name], limit = head.info.limits.time, place = (value) => `${Math.min(100, Math.max(0, 50 + (Math.log2(Math.max(value, 1e-9)) / 4) * 50))}%`;
  const scale = element("div", "ratio-scale"), range = element("i", "range"), middle = element("i", "middle"), border = element("i", "limit");
  range.style.left = place(found.low);
  range.style.width = `max(3px, calc(${place(found.high)} - ${place(found.low)}))`;
  middle.style.left = place(found.value);
  border.style.left = place(limit);
  if (found.low > limit) range.classList.add("bad");
  for (const value of [0.25, 1, 4]) { const tick = element("span", "", `${value} ×`); tick.style.left = place(value); scale.append(tick); }
  append(scale, range, middle, border);
  return [element("h3", "", say("Time ratio, {phase}", { phase: word })), element("p", "", say("{value} (spread {low} to {high}, limit {limit})", { value: ratioText(found.value), low: ratioText(found.low), high: ratioText(found.high), limit: ratioText(limit) })), scale];
}

function sidesTable(name, detail) {
  const columns = [["", ""], [head.info.target, "number"], ...(detail.against ? [[head.info.against, "number"]] : [])];
  const sides = [detail.target, ...(detail.against ? [detail.against] : [])].map((side) => side.phases[name] || null);
  const row = (label, of) => ({ cells: [label, ...sides.map((side) => (side ? of(side) : "–"))] });
  const rows = [
    row(say("median"), (side) => duration(side.timing.median)), row(say("10 % to 90 %"), (side) => `${duration(side.timing.low)} – ${duration(side.timing.high)}`), row(say("least"), (side) => duration(side.timing.smallest)),
    row(say("laps, calls"), (side) => `${grouped(side.timing.laps)}, ${grouped(side.timing.calls)}`), ...(sides.some((side) => side && side.timing.launch !== null) ? [row(say("the host is busy"), (side) => duration(side.timing.launch))] : []),
    row(say("peak memory"), (side) => (side.memory ? bytes(side.memory.peak) : "–")), row(say("kept memory"), (side) => (side.memory ? bytes(side.memory.retained) : "–")),
    row(say("operations"), (side) => (side.cost.flops === null ? "–" : exact(side.cost.flops))), row(say("bytes to and fro"), (side) => (side.cost.bytes === null ? "–" : bytes(side.cost.bytes))),
    row(say("of the roofline"), (side) => (side.share === null ? "–" : `${Math.round(100 * side.share)} % ${side.bound === "memory" ? say("memory") : side.bound === "arithmetic" ? say("arithmetic") : ""}`)),
  ];
  return smallTable(columns, rows);
}

function goOn(detail) {
  const parts = [], run = head.info.sources.length === 1 ? head.info.sources[0] : "";
  if (detail && run && detail.calls.length) parts.push(commandBox(say("this call on the terminal"), `trueline show ${quote(run)} ${quote(detail.calls[0])}`));
  const overrides = Object.entries(head.info.overrides).map(([api, place]) => ` --override ${quote(`${api}=${place}`)}`).join("");
  if (run) parts.push(commandBox(say("are its numbers right?"), `trueline check ${quote(run)} --target ${quote(head.info.target)}${overrides}`));
  return parts.length ? [element("h3", "", say("Go on")), ...parts] : [];
}

on("selected", showDetails);

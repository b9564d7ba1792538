// One call: what it was given and gave back, how it went over the steps, what it costs, and where it was made.

const STATISTICS = [say("least"), say("largest"), say("mean"), say("norm"), "NaN", "Inf", say("zeros")];
const SPEED_WORDS = [say("within the limits"), say("to look at"), say("not compared"), say("beyond the limits"), say("beyond the limits")];
const ACCURACY_WORDS = [say("pass"), say("warn"), say("not compared"), say("fail"), say("fail")];

function showDetails() {
  const i = state.selected;
  if (i < 0) return;
  const detail = data.details[i], courses = coursesOf(i);
  const parts = detail ? detailParts(detail) : askDetail(i, showDetails) ? [loadingNote()] : [];
  fillDrawer(wordOf(i) ? element("span", `tag ${classOf(i)}`, wordOf(i)) : null, nameOf(i), summaryOf(i, detail), ...courses.flatMap(([title, , box, reading]) => [element("h3", "", title), box, reading]), ...costParts(i), ...parts, ...goOn(i));
  for (const [, chart, box, reading] of courses) drawLines(box, chart, reading); // only what is in the page has a width
}

// The charts of one call over the steps: its room and its norm, of a call with parameters that of their gradients.
function coursesOf(i) {
  const rows = sameCalls(i);
  if (rows.length < 2) return [];
  const second = backward[i] && !Number.isNaN(gradient[i]) ? ["gradient", say("Gradient norm, over the steps")] : ["norm", say("Norm, over the steps")];
  return [["headroom", say("Bits left, over the steps")], second].map(([value, title]) => [title, chartOf(rows, value, 150), element("div", "small-chart line-plot"), element("p", "muted reading")]).filter(([, chart]) => chart);
}

function costParts(i) {
  if (!timed || Number.isNaN(columns.seconds[i])) return [];
  const list = element("dl"), other = head.profile.against;
  definition(list, say("time"), duration(columns.seconds[i]) + (other && !Number.isNaN(columns.against_seconds[i]) ? ` (${say("{time} on {target}", { time: duration(columns.against_seconds[i]), target: other })})` : ""));
  definition(list, say("memory"), bytes(columns.peak[i]) + (other && !Number.isNaN(columns.against_peak[i]) ? ` (${say("{time} on {target}", { time: bytes(columns.against_peak[i]), target: other })})` : ""));
  if (columns.speed[i] !== NO_VERDICT) definition(list, say("judged"), `${isSlow(i) ? "✕ " : ""}${SPEED_WORDS[columns.speed[i]]}`);
  if (columns.accuracy[i] !== NO_VERDICT) definition(list, say("accuracy"), `${isWrong(i) ? "✕ " : ""}${ACCURACY_WORDS[columns.accuracy[i]]}`);
  return [element("h3", "", say("Alone, on {target}", { target: head.profile.target })), list];
}

function goOn(i) {
  const path = quote(head.path);
  return [
    element("h3", "", say("Go on")),
    commandBox(say("this call on the terminal"), `trueline show ${path} ${quote(nameOf(i))} --step ${step[i]} --rank ${rank[i]}`),
    commandBox(say("execute it alone against float64"), `trueline check ${path} --target ${head.run.framework.split(/[ ,+]/)[0]}:cpu`),
  ];
}

function summaryOf(i, detail) {
  const list = element("dl");
  definition(list, say("module"), (moduleOf(i) || say("outside any module")) + (detail && detail.module_class ? ` (${detail.module_class})` : ""));
  definition(list, say("source"), (detail && detail.stack[0]) || sourceOf(i));
  definition(list, say("where"), placeOf(i) + (detail && detail.context ? `, ${detail.context}` : ""));
  definition(list, say("outputs"), `${say("largest {largest}, {bits} bits left", { largest: largestText(i), bits: bitsText(headroom[i]) })}, ${several(elements[i], "{n} element", "{n} elements")}`);
  if (nan[i] || infinite[i]) definition(list, say("not finite"), say("{nan} NaN, {infinite} infinite", { nan: grouped(nan[i]), infinite: grouped(infinite[i]) }));
  if (detail && detail.raised) definition(list, say("raised"), detail.raised);
  return list;
}

function detailParts(detail) {
  const parts = [element("h3", "", say("Call")), element("pre", "", `${detail.call}\n→ ${detail.result}`)];
  if (detail.tensors.length) parts.push(element("h3", "", say("Tensors")), ...detail.tensors.map(tensorBox));
  if (detail.stack.length) parts.push(element("h3", "", say("Stack")), element("pre", "", detail.stack.join("\n")));
  return parts;
}

const ROLES = { input: say("input"), output: say("output"), parameter: say("parameter") };
function tensorBox(tensor) {
  const box = element("div", "tensor"), title = element("div", "title"), record = tensor.record;
  append(title, element("b", "", `${ROLES[tensor.role] || tensor.role} ${tensor.path}`), element("span", "muted", `${record.dtype} [${record.shape.join(", ")}] ${record.device}`));
  box.append(title);
  if (!record.statistics) { box.append(element("div", "muted", record.missing)); return box; }
  const pairs = {};
  record.statistics.forEach((value, n) => { pairs[STATISTICS[n]] = value; });
  box.append(pairsOf(pairs));
  return box;
}

on("selected", showDetails);

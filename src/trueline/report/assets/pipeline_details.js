// One stage: its command, how it ended, what its numbers say, what changed, and the end of what it wrote.

const NUMBER_OF = { PASS: 0, WARN: 1, NOT_COMPARED: 2, FAIL: 3, ERROR: 4 };
const logs = {};

function showDetails() {
  const i = state.selected;
  if (i < 0) return;
  const detail = data.details[i];
  const parts = [...findingParts(i, detail), ...changeParts(i), ...logParts(i, detail)];
  fillDrawer(element("span", `tag ${classOf(i)}`, wordOf(i)), nameOf(i), stageFacts(i, detail), ...(detail.command ? [element("h3", "", say("Command")), commandBox("", detail.command)] : []), ...parts);
}

function stageFacts(i, detail) {
  const list = element("dl");
  definition(list, say("kind"), KIND_WORDS[kindOf(i)] || kindOf(i));
  definition(list, say("reason"), textOf("reason", i));
  if (detail.candidate) definition(list, say("of"), detail.candidate);
  if (detail.reference) definition(list, say("against"), detail.reference);
  definition(list, say("trainer"), textOf("trainer", i));
  definition(list, say("precision"), textOf("precision", i));
  definition(list, say("settings"), Object.entries(detail.settings).map(([name, value]) => `${name} ${value}`).join(", "));
  if (!isCheck(i)) {
    definition(list, say("time"), seconds[i] ? duration(seconds[i]) : "");
    definition(list, say("peak memory"), peak[i] ? bytes(peak[i]) : "");
    definition(list, say("exit code"), detail.exit_code === null ? "" : String(detail.exit_code));
    if (detail.attempts > 1) definition(list, say("attempts"), String(detail.attempts));
    definition(list, say("not warm"), detail.not_warm);
    definition(list, say("started"), detail.started);
  }
  definition(list, say("after"), detail.after.join(", "));
  definition(list, say("environment"), Object.entries(detail.environment).map(([name, value]) => `${name}=${value}`).join(" "));
  return list;
}

// The checks of a command are told with it, and those of a check alone.
function findingParts(i, detail) {
  const checks = isCheck(i) ? [[i, detail]] : head.edges.filter((edge) => edge.candidate === nameOf(i)).map((edge) => [edge.position, data.details[edge.position]]);
  const parts = [];
  for (const [place, one] of checks) {
    if (!one.findings.length) continue;
    parts.push(element("h3", "", isCheck(i) ? say("Findings") : say("Numbers, against {stage}", { stage: one.reference })), ...one.findings.map(findingBox));
    if (!isCheck(i)) { const link = element("button", "ghost", say("this check")); link.type = "button"; link.addEventListener("click", () => showRow(place)); parts.push(link); }
  }
  return parts;
}

function findingBox(one) {
  const box = element("div", "tensor"), title = element("div", "title");
  append(title, element("span", `tag ${CLASSES[one.verdict]}`, `${MARKS[one.verdict]} ${WORDS[one.verdict]}`), element("b", "", one.what), one.blamed ? element("span", "muted", say("at {stage}", { stage: one.blamed })) : null);
  append(box, title, element("div", "reason", one.reason));
  if (Object.keys(one.numbers).length) box.append(pairsOf(one.numbers));
  return box;
}

function changeParts(i) {
  const found = head.changes.filter((one) => one.stage === nameOf(i));
  return found.length ? [element("h3", "", say("Since the last run")), ...found.map((one) => element("p", "", `${CHANGE_WORDS[one.what] || one.what}: ${one.before} → ${one.now}`))] : [];
}

// What it wrote: asked of the server, or what came with the page; beside the page lies the whole of it.
function logParts(i, detail) {
  if (!detail.log) return [];
  const title = element("h3", "", say("Output")), box = element("div"), tail = logs[i] || detail.tail;
  if (tail) {
    if (tail.before) box.append(element("p", "muted", say("the last {n} of {all}", { n: bytes(tail.size - tail.before), all: bytes(tail.size) })));
    const text = element("pre", "log", tail.text);
    box.append(text);
    requestAnimationFrame(() => { text.scrollTop = text.scrollHeight; });
  }
  if (data.served && !logs[i]) {
    const button = element("button", "ghost", say("show the end of its output"));
    button.type = "button";
    button.addEventListener("click", () => askLog(i, box));
    box.append(button);
  }
  if (!data.served) { const link = element("a", "", say("the whole output, beside this page")); link.href = detail.log; box.append(link); }
  return [title, box];
}

function askLog(i, box) {
  fetch(`data/log?position=${i}`)
    .then((answer) => { if (!answer.ok) throw new Error(`${answer.status}`); return answer.json(); })
    .then((tail) => { logs[i] = tail; if (state.selected === i) showDetails(); })
    .catch(() => box.replaceChildren(element("p", "muted", say("Its output is not there any more."))));
}

on("selected", showDetails);

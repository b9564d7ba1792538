// The data of a check: what each case is, and how cases are filtered, sorted and shown in the table. Where the cases lie
// with the server (windowed) the columns are there, but empty: rows are put in as they are asked for (check_rows.js).

const windowed = Boolean(data.windowed);
const TEXTS = ["api", "call", "module", "source", "reason", "dtype", "ending"];
const NO_VERDICT = 255;
if (windowed) {
  for (const name of TEXTS) { columns[name] = new Uint32Array(count); data.names[name] = []; }
  for (const name of ["verdict", "forward_verdict", "backward_verdict"]) columns[name] = new Uint8Array(count);
  for (const name of ["forward", "backward", "seconds"]) columns[name] = new Float32Array(count);
  columns.calls = new Uint32Array(count);
}
const { verdict, calls, forward, backward, seconds } = columns;
const forwardVerdict = columns.forward_verdict, backwardVerdict = columns.backward_verdict;
const { api: apis, call: callTexts, module: modules, source: sources, reason: reasons, dtype: dtypes, ending: endings } = data.names;

const KIND_CLASS = ["pass", "warn", "none", "fail", "fail"];
const KIND_WORD = [say("pass"), say("warn"), say("not compared"), say("fail"), say("with errors")];
// How a case can end: its word, its look, its mark.
const ENDINGS = {
  "pass": [say("pass"), "good", "✓"], "mismatch": [say("mismatch"), "bad", "✕"], "target raises": [say("target raises"), "bad", "✕"],
  "crashed": [say("crashed"), "bad", "✕"], "timed out": [say("timed out"), "bad", "✕"], "out of memory": [say("out of memory"), "bad", "✕"],
  "reference raises": [say("reference raises"), "warn", "!"], "harness error": [say("harness error"), "warn", "!"],
  "unsupported here": [say("unsupported here"), "dim", "–"], "skipped": [say("skipped"), "dim", "–"], "waiting": [say("waiting"), "wait", "…"],
};
function endingLook(name) { return ENDINGS[name] || [name, "dim", "–"]; }

function apiOf(i) { return apis[columns.api[i]] || ""; }
function callOf(i) { return callTexts[columns.call[i]] || ""; }
function moduleOf(i) { return modules[columns.module[i]] || ""; }
function sourceOf(i) { return sources[columns.source[i]] || ""; }
function reasonOf(i) { return reasons[columns.reason[i]] || ""; }
function endingOf(i) { return endings[columns.ending[i]] || ""; }
function isBad(i) { return verdict[i] >= 3; }
function isWaiting(i) { return endingOf(i) === "waiting"; }
function classOf(i) { return i < 0 ? "absent" : isWaiting(i) ? "none" : KIND_CLASS[verdict[i]]; }
function wordOf(i) { return i < 0 ? "" : verdict[i] === 1 ? KIND_WORD[1] : endingLook(endingOf(i))[0]; }
function shortApi(api) { return api.replace(/^(torch|paddle)\.(nn\.functional\.)?/, ""); }
function timeText(value) {
  if (!(value > 0)) return "–";
  return value < 1e-3 ? `${short(value * 1e6)} µs` : value < 1 ? `${short(value * 1e3)} ms` : `${short(value)} s`;
}

// The worst of the two scores of a case; NaN where it has none.
function scoreOf(i) {
  if (Number.isNaN(forward[i])) return backward[i];
  return Number.isNaN(backward[i]) ? forward[i] : Math.max(forward[i], backward[i]);
}
function scoreText(value) { return Number.isNaN(value) ? "–" : value === Infinity ? "∞" : short(value); }

const filter = { text: "", kind: "", ending: "", part: "", dtype: "", api: "" };
const sorting = { key: "verdict", down: true };

const KIND_TESTS = { wrong: isBad, notright: (i) => verdict[i] !== 0, fail: (i) => verdict[i] === 3, error: (i) => verdict[i] === 4, warn: (i) => verdict[i] === 1, none: (i) => verdict[i] === 2, pass: (i) => verdict[i] === 0 };
const PART_TESTS = { forward: (i) => forwardVerdict[i] !== NO_VERDICT && forwardVerdict[i] >= 1, backward: (i) => backwardVerdict[i] !== NO_VERDICT && backwardVerdict[i] >= 1 };

function filterTests() {
  const tests = [];
  if (filter.text.trim()) tests.push(textTest(filter.text, ["api", "call", "module", "source", "reason"]));
  if (KIND_TESTS[filter.kind]) tests.push(KIND_TESTS[filter.kind]);
  if (PART_TESTS[filter.part]) tests.push(PART_TESTS[filter.part]);
  for (const [name, texts] of [["ending", endings], ["dtype", dtypes], ["api", apis]]) {
    if (filter[name]) { const code = texts.indexOf(filter[name]); tests.push((i) => columns[name][i] === code); }
  }
  return tests;
}

// Texts sort by their place in the alphabet, not by that of their first appearance.
function alphabetic(texts) {
  const order = texts.map((_, n) => n).sort((a, b) => (texts[a] < texts[b] ? -1 : 1)), place = new Float64Array(texts.length);
  order.forEach((n, at) => { place[n] = at; });
  return place;
}
const apiPlace = alphabetic(apis), callPlace = alphabetic(callTexts), modulePlace = alphabetic(modules);

const SORT_VALUE = {
  api: (i) => apiPlace[columns.api[i]], call: (i) => callPlace[columns.call[i]], where: (i) => modulePlace[columns.module[i]],
  calls: (i) => calls[i], seconds: (i) => seconds[i], forward: (i) => forward[i], backward: (i) => backward[i], score: scoreOf,
  verdict: (i) => verdict[i] * 100 + Math.min(99, 50 + 4 * Math.log10(Math.max(1e-12, scoreOf(i) || 0))), // among equals the worse first
};

const NOUN = "case";
const TABLE = {
  title: say("Cases"), search: windowed ? say("Search API, reason") : say("Search API, call, module, reason"), none: say("No case matches."),
  narrowed: () => filter.api && say("clear ({api})", { api: shortApi(filter.api) }),
  selects: [
    ["kind", say("Which verdicts"), [["", say("all verdicts")], ["wrong", say("wrong")], ["notright", say("all but passed")], ["fail", say("failed")], ["error", say("with errors")], ["warn", say("to look at")], ["none", say("not compared")], ["pass", say("passed")]]],
    ["ending", say("Which status"), [["", say("every status")], ...Object.keys(ENDINGS).filter((name) => data.matrix.endings.includes(name)).map((name) => [name, ENDINGS[name][0]])]],
    ["part", say("Forward or backward"), windowed ? [] : [["", say("forward and backward")], ["forward", say("forward not right")], ["backward", say("backward not right")]]],
    ["dtype", say("Dtype"), [["", say("all dtypes")], ...data.matrix.dtypes.map((name) => [name, name])]],
  ],
};
const COLUMNS = [
  ["position", "#", "position number"], ["api", say("API"), "name"], ["call", say("call"), "call"], ["where", say("module"), "place"],
  ["calls", say("calls"), "calls number"], ["seconds", say("time"), "seconds number"], ["forward", say("forward"), "forward number"], ["backward", say("backward"), "backward number"], ["score", say("÷ limit"), "score number"],
  ["verdict", say("status"), "verdict-cell"],
];
const LEFT = ["position", "api", "call", "where"], TITLED = ["api", "call", "where"];
const narrow = window.matchMedia("(max-width: 720px)");
function cellTexts(i) {
  if (i < 0) return ["…", "", "", "", "", "", "", "", ""];
  return [i, narrow.matches ? shortApi(apiOf(i)) : apiOf(i), callOf(i), moduleOf(i), calls[i], timeText(seconds[i]), scoreText(forward[i]), scoreText(backward[i]), scoreText(scoreOf(i))];
}

// Who shows counts is told when they change: while a campaign runs.
listeners.counts = [];

// A case by its key, where the page knows in which row it is.
function caseButton(key, text, className = "link") {
  const row = data.rows[key];
  if (row === undefined) return element("span", className === "link" ? "" : className, text);
  const button = element("button", className, text);
  button.type = "button";
  button.addEventListener("click", () => openCase(row));
  return button;
}
function openCase(row) { if (windowed) select(row); else showRow(row); }

// Filters the cases and goes to them.
function filterCases(change) {
  setFilter({ ...Object.fromEntries(Object.keys(filter).map((key) => [key, ""])), ...change });
  byId("cases").scrollIntoView({ block: "nearest" });
}

// The data of a Run: what each call is, and how calls are filtered, sorted and shown in the table.

const KIND = { PASS: 0, NONE: 1, CLOSE: 2, RAISED: 3, INFINITE: 4, NAN: 5 };
const KIND_CLASS = ["pass", "none", "warn", "warn", "fail", "fail"];
const KIND_WORD = ["", say("no statistics"), say("little room"), say("raised"), say("infinity"), "NaN"];
const CLOSE_BITS = 2;

const { step, rank, backward, index, largest, headroom, norm, mean, gradient, nan, infinite, elements, raised } = columns;
const timed = Boolean(head.profile); // a profile was handed in: then each call has its time and its memory
const apis = data.names.api, modules = data.names.module, sources = data.names.source, dtypes = data.names.dtype;

const kind = new Uint8Array(count);
for (let i = 0; i < count; i++) {
  if (nan[i]) kind[i] = KIND.NAN;
  else if (infinite[i]) kind[i] = KIND.INFINITE;
  else if (raised[i]) kind[i] = KIND.RAISED;
  else if (headroom[i] < CLOSE_BITS) kind[i] = KIND.CLOSE;
  else kind[i] = elements[i] ? KIND.PASS : KIND.NONE;
}

function classOf(i) { return KIND_CLASS[kind[i]]; }
function wordOf(i) { return KIND_WORD[kind[i]]; }
function apiOf(i) { return apis[columns.api[i]]; }
function moduleOf(i) { return modules[columns.module[i]]; }
function sourceOf(i) { return sources[columns.source[i]]; }
function dtypeOf(i) { return dtypes[columns.dtype[i]]; }
function nameOf(i) { return `${apiOf(i)}.${index[i]}.${backward[i] ? "backward" : "forward"}`; }
function bitsText(value) { return Number.isNaN(value) ? "–" : value.toFixed(1); }
function largestText(i) { return Number.isNaN(largest[i]) ? "–" : short(2 ** largest[i]); }

const filter = { text: "", module: "", kind: "", phase: "", step: "", rank: "" };
const sorting = { key: "position", down: false };

const KIND_TESTS = { odd: (i) => kind[i] >= KIND.CLOSE, nan: (i) => nan[i] > 0, infinite: (i) => infinite[i] > 0, close: (i) => headroom[i] < CLOSE_BITS, raised: (i) => raised[i] > 0, slow: (i) => timed && isSlow(i), wrong: (i) => timed && isWrong(i) };
const NO_VERDICT = 255, FAIL = 3;
function isSlow(i) { return columns.speed[i] >= FAIL && columns.speed[i] !== NO_VERDICT; }
function isWrong(i) { return columns.accuracy[i] >= FAIL && columns.accuracy[i] !== NO_VERDICT; }

function filterTests() {
  const tests = [];
  if (filter.text.trim()) tests.push(textTest(filter.text, ["api", "module", "source", "dtype"], nameOf));
  if (filter.module !== "") { const inside = modules.map((name) => name === filter.module || name.startsWith(`${filter.module}.`)); tests.push((i) => inside[columns.module[i]]); }
  if (KIND_TESTS[filter.kind]) tests.push(KIND_TESTS[filter.kind]);
  if (filter.phase !== "") tests.push((i) => backward[i] === Number(filter.phase));
  if (filter.step !== "") tests.push((i) => step[i] === Number(filter.step));
  if (filter.rank !== "") tests.push((i) => rank[i] === Number(filter.rank));
  return tests;
}

const SORT_VALUE = {
  largest: (i) => largest[i], headroom: (i) => headroom[i], step: (i) => step[i], rank: (i) => rank[i], verdict: (i) => kind[i],
  module: (i) => columns.module[i], dtype: (i) => columns.dtype[i], infinite: (i) => nan[i] + infinite[i],
  name: (i) => columns.api[i] * 2 ** 32 + index[i] * 2 + backward[i],
  ...(timed ? { seconds: (i) => columns.seconds[i], peak: (i) => columns.peak[i] } : {}),
};

const NOUN = "call";
const TABLE = {
  title: say("Calls"), search: say("Search call, module, source"), none: say("No call matches."),
  selects: [
    ["kind", say("Which calls"), [["", say("all calls")], ["odd", say("all that are odd")], ["nan", say("with NaN")], ["infinite", say("with infinity")], ["close", say("little room")], ["raised", say("raised")], ...(timed ? [["slow", say("slower or larger than allowed")], ["wrong", say("wrong numbers in the check")]] : [])]],
    ["phase", say("Phase"), [["", say("forward and backward")], ["0", say("forward")], ["1", say("backward")]]],
    ["step", say("Step"), choicesOf(say("all steps"), step, (n) => say("step {n}", { n }))],
    ["rank", say("Rank"), choicesOf(say("all ranks"), rank, (n) => say("rank {n}", { n }))],
  ],
  narrowed: () => (filter.module ? say("clear: {module}", { module: filter.module }) : ""),
};
const COLUMNS = [
  ["position", "#", "position number"], ["name", say("call"), "name"], ["module", say("module"), "module"], ["step", say("step"), "step number"],
  ["rank", say("rank"), "rank number"], ["dtype", say("dtype"), "dtype"], ["largest", say("largest"), "largest number"],
  ["headroom", say("bits left"), "headroom number"], ["infinite", "NaN, Inf", "infinite number"],
  ...(timed ? [["seconds", say("time"), "seconds number"], ["peak", say("memory"), "peak number"]] : []), ["verdict", say("verdict"), "verdict-cell"],
];
const LEFT = ["position", "name", "module", "step", "rank", "dtype", "headroom"], TITLED = ["name", "module"];
function cellTexts(i) {
  const cells = [i, nameOf(i), moduleOf(i), step[i], rank[i], dtypeOf(i), largestText(i), bitsText(headroom[i]), nan[i] + infinite[i] ? grouped(nan[i] + infinite[i]) : ""];
  if (timed) cells.push(duration(columns.seconds[i]) + (isSlow(i) ? " ✕" : ""), bytes(columns.peak[i]));
  return cells;
}

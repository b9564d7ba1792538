// The data of a profile: what each case costs on both sides, how cases are filtered, sorted and shown.

const WORDS = [say("pass"), say("to look at"), say("not compared"), say("over the limit"), say("over the limit")];
const CLASSES = ["pass", "warn", "none", "fail", "fail"], MARKS = ["✓", "!", "–", "✕", "✕"];
const NO_VERDICT = 255;
const compared = Boolean(head.info.against), checked = Boolean(head.info.check);
const { verdict, accuracy, calls, forward, backward, total, lost, peak, against_peak, against_forward, against_backward, ratio, ratio_forward, ratio_backward, share } = columns;
const stepsTold = Math.max(1, head.info.steps);

function apiOf(i) { return data.names.api[columns.api[i]]; }
function callOf(i) { return data.names.call[columns.call[i]]; }
function moduleOf(i) { return data.names.module[columns.module[i]]; }
function sourceOf(i) { return data.names.source[columns.source[i]]; }
function reasonOf(i) { return data.names.reason[columns.reason[i]]; }
function isTimed(i) { return !Number.isNaN(forward[i]) || !Number.isNaN(backward[i]); }
function classOf(i) { return compared ? CLASSES[verdict[i]] : isTimed(i) ? "pass" : "none"; }
function wordOf(i) { return compared ? `${MARKS[verdict[i]]} ${WORDS[verdict[i]]}` : isTimed(i) ? "" : `– ${say("not timed")}`; }
function accuracyText(i) { return accuracy[i] === NO_VERDICT ? "–" : `${MARKS[accuracy[i]]} ${[say("pass"), say("warn"), say("not compared"), say("fail"), say("fail")][accuracy[i]]}`; }
function ratioText(value) { return Number.isNaN(value) ? "–" : `${value < 10 ? value.toFixed(2) : Number(value.toPrecision(3))} ×`; }
function memoryRatio(i) { return peak[i] / against_peak[i]; }

const filter = { text: "", kind: "", dtype: "" };
const sorting = { key: "position", down: false };
const DTYPES = ["float32", "float16", "bfloat16", "float64", "int64", "int32", "bool"].filter((name) => data.names.call.some((text) => text.includes(`${name}[`)));
const KIND_TESTS = {
  bad: (i) => verdict[i] >= 3, warn: (i) => verdict[i] === 1, slow: (i) => ratio[i] > head.info.limits.time, large: (i) => memoryRatio(i) > head.info.limits.memory,
  missing: (i) => verdict[i] === 2, wrong: (i) => accuracy[i] >= 3 && accuracy[i] !== NO_VERDICT,
};

function filterTests() {
  const tests = [];
  if (filter.text.trim()) tests.push(textTest(filter.text, ["api", "call", "module", "source", "reason"]));
  if (KIND_TESTS[filter.kind]) tests.push(KIND_TESTS[filter.kind]);
  if (filter.dtype) { const inside = data.names.call.map((text) => text.includes(`${filter.dtype}[`)); tests.push((i) => inside[columns.call[i]]); }
  return tests;
}

const SORT_VALUE = {
  api: (i) => columns.api[i], call: (i) => columns.call[i], calls: (i) => calls[i], forward: (i) => forward[i], backward: (i) => backward[i], total: (i) => total[i],
  ratio: (i) => ratio[i], lost: (i) => lost[i], peak: (i) => peak[i], memory: memoryRatio, share: (i) => share[i], accuracy: (i) => (accuracy[i] === NO_VERDICT ? NaN : accuracy[i]), verdict: (i) => verdict[i],
};

const NOUN = "case";
const TABLE = {
  title: say("Cases"), search: say("Search API, call, module, source"), none: say("No case matches."),
  selects: [
    ["kind", say("Which cases"), [["", say("all cases")], ...(compared ? [["bad", say("beyond the limits")], ["warn", say("to look at")], ["slow", say("slower")], ["large", say("more memory")]] : []), ["missing", say("not compared")], ...(checked ? [["wrong", say("wrong numbers")]] : [])]],
    ["dtype", say("dtype"), [["", say("every dtype")], ...DTYPES.map((name) => [name, name])]],
  ],
};
const COLUMNS = [
  ["position", "#", "position number"], ["api", say("API"), "name"], ["call", say("call"), "call"], ["calls", say("calls"), "calls number"], ["forward", say("forward"), "forward number"], ["backward", say("backward"), "backward number"],
  ["total", say("of a step"), "total number"], ...(compared ? [["ratio", say("time ratio"), "ratio number"], ["lost", say("lost"), "lost number"]] : []), ["peak", say("peak memory"), "peak number"],
  ...(compared ? [["memory", say("memory ratio"), "memory number"]] : []), ["share", say("roofline"), "share number"], ...(checked ? [["accuracy", say("accuracy"), "accuracy"]] : []), ["verdict", say("verdict"), "verdict-cell"],
];
const LEFT = ["position", "api", "call"], TITLED = ["api", "call"];
function cellTexts(i) {
  return [
    i, apiOf(i), callOf(i), grouped(calls[i]), duration(forward[i]), duration(backward[i]), duration(total[i] / stepsTold),
    ...(compared ? [ratioText(ratio[i]), Number.isNaN(ratio[i]) ? "–" : duration(lost[i] / stepsTold)] : []), bytes(peak[i]), ...(compared ? [ratioText(memoryRatio(i))] : []),
    Number.isNaN(share[i]) ? "–" : `${Math.round(100 * Math.min(share[i], 1))} %`, ...(checked ? [accuracyText(i)] : []),
  ];
}

// The data of an overflow report: where numbers stopped being numbers, how these places are filtered, sorted and shown.

const { step, rank, index, backward, alarm, nan, infinite, elements, victims } = columns;
const natures = data.names.nature, kinds = data.names.kind;
const NATURE_WORD = { abnormal: say("abnormal"), expected: say("expected"), inherited: say("inherited"), meant: say("meant"), "not known": say("not known") };
const KIND_TEXT = {
  "0/0": "0/0", "division by zero": say("division by zero"), "inf - inf": "∞ − ∞", "0 x inf": "0 × ∞", "exp or pow overflow": say("exp or pow overflow"), "log or sqrt of a negative": say("log or sqrt of a negative"),
  "cast overflow": say("cast overflow"), "accumulation overflow": say("accumulation overflow"), "product overflow": say("product overflow"), "uninitialised memory": say("uninitialised memory"), "input data": say("input data"),
  "a gradient scaled too far": say("a gradient scaled too far"), "a parameter already bad": say("a parameter already bad"), "filled by the program": say("filled by the program"), "received from another rank": say("received from another rank"), unknown: say("unknown"),
};
function kindText(kind) { return Object.hasOwn(KIND_TEXT, kind) ? KIND_TEXT[kind] : kind; }

function apiOf(i) { return data.names.api[columns.api[i]]; }
function moduleOf(i) { return data.names.module[columns.module[i]]; }
function sourceOf(i) { return data.names.source[columns.source[i]]; }
function natureOf(i) { return natures[columns.nature[i]]; }
function kindOf(i) { return kinds[columns.kind[i]]; }
function nameOf(i) { return `${apiOf(i)}.${index[i]}.${backward[i] ? "backward" : "forward"}`; }
function whatOf(i) { return nan[i] ? "NaN" : infinite[i] ? "∞" : "–"; }
function classOf(i) { return i === head.position ? "origin" : alarm[i] ? "fail" : natureOf(i) === "meant" ? "pass" : "none"; }
function wordOf(i) { return i === head.position ? `✕ ${say("origin")}` : alarm[i] ? `✕ ${say("alarm")}` : natureOf(i) === "meant" ? `✓ ${say("meant")}` : `– ${say("inherited")}`; }

const filter = { text: "", alarm: "", nature: "", kind: "", rank: "", step: "" };
const sorting = { key: "position", down: false };

function filterTests() {
  const tests = [];
  if (filter.text.trim()) tests.push(textTest(filter.text, ["api", "module", "source", "kind", "nature", "why", "ends"], nameOf));
  if (filter.alarm !== "") tests.push((i) => Boolean(alarm[i]) === (filter.alarm === "1"));
  if (filter.nature !== "") tests.push((i) => natureOf(i) === filter.nature);
  if (filter.kind !== "") tests.push((i) => kindOf(i) === filter.kind);
  if (filter.rank !== "") tests.push((i) => rank[i] === Number(filter.rank));
  if (filter.step !== "") tests.push((i) => step[i] === Number(filter.step));
  return tests;
}

const SORT_VALUE = {
  name: (i) => columns.api[i] * 2 ** 32 + index[i] * 2 + backward[i], step: (i) => step[i], rank: (i) => rank[i], module: (i) => columns.module[i], kind: (i) => columns.kind[i],
  nature: (i) => columns.nature[i], ends: (i) => columns.ends[i], bad: (i) => nan[i] + infinite[i], victims: (i) => victims[i], verdict: (i) => alarm[i],
};

const NOUN = "birth";
const TABLE = {
  title: say("Where it was born"), search: say("Search call, module, source, reason"), none: head.wrong && head.position === null ? say("The call that made it was not held.") : say("Nothing was born that is not a number."),
  selects: [
    ["alarm", say("Which births"), [["", say("all births")], ["1", say("alarms")], ["0", say("no alarms")]]],
    ["nature", say("Nature"), [["", say("every nature")], ...natures.map((one) => [one, NATURE_WORD[one] || one])]],
    ["kind", say("Kind"), [["", say("every kind")], ...kinds.map((one) => [one, kindText(one)])]],
    ["step", say("Step"), choicesOf(say("all steps"), step, (n) => say("step {n}", { n }))],
    ["rank", say("Rank"), choicesOf(say("all ranks"), rank, (n) => say("rank {n}", { n }))],
  ],
};
const COLUMNS = [
  ["position", "#", "position number"], ["name", say("call"), "name"], ["module", say("module"), "module"], ["step", say("step"), "step number"], ["rank", say("rank"), "rank number"],
  ["bad", say("not finite"), "bad number"], ["kind", say("kind"), "kind"], ["nature", say("nature"), "nature"], ["ends", say("ends in"), "ends"], ["victims", say("inherited by"), "victims number"], ["verdict", say("verdict"), "verdict-cell"],
];
const LEFT = ["position", "name", "module", "step", "rank", "kind", "nature", "ends"], TITLED = ["name", "module", "ends", "kind"];
function cellTexts(i) {
  return [i, nameOf(i), moduleOf(i), step[i], rank[i], `${grouped(nan[i] + infinite[i])} ${whatOf(i)}`, kindText(kindOf(i)), NATURE_WORD[natureOf(i)] || natureOf(i), data.names.ends[columns.ends[i]], grouped(victims[i])];
}

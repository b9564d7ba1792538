// The data of a comparison: what each call is, and how calls are filtered, sorted and shown in the table.

const KIND = { PASS: 0, NONE: 1, VICTIM: 2, WARN: 3, FAIL: 4, ORIGIN: 5 };
const KIND_CLASS = ["pass", "none", "victim", "warn", "fail", "origin"];
const KIND_WORD = [say("pass"), say("not compared"), say("follows"), say("warn"), say("fail"), say("origin")];

const { step, rank, verdict, inherited, backward, index, alone } = columns;
const ALONE = { BOTH: 0, CANDIDATE: 1, REFERENCE: 2 };
const output = columns.output_distance, input = columns.input_distance, limit = columns.limit;
const apis = data.names.api, modules = data.names.module, sources = data.names.source;

// What each call is in the story; a number, so that 200,000 of them are cheap to filter and draw.
const kind = new Uint8Array(count);
for (let i = 0; i < count; i++) {
  if (i === head.position) kind[i] = KIND.ORIGIN;
  else if (verdict[i] >= 3) kind[i] = KIND.FAIL;
  else if (inherited[i]) kind[i] = KIND.VICTIM;
  else kind[i] = verdict[i] === 2 ? KIND.NONE : verdict[i] === 1 ? KIND.WARN : KIND.PASS;
}

// Where the Runs part without a fault (a warning), the origin is marked but not called bad.
function isBad(i) { return verdict[i] >= 3; }
function classOf(i) { return KIND_CLASS[kind[i]] + (kind[i] === KIND.ORIGIN && !isBad(i) ? " mild" : ""); }

function apiOf(i) { return apis[columns.api[i]]; }
function moduleOf(i) { return modules[columns.module[i]]; }
function sourceOf(i) { return sources[columns.source[i]]; }
function nameOf(i) { return `${apiOf(i)}${index[i] < 0 ? "" : "." + index[i]}.${backward[i] ? "backward" : "forward"}`; }
function ratioOf(i) { return limit[i] > 0 ? output[i] / limit[i] : NaN; }

const filter = { text: "", kind: "", phase: "", step: "", rank: "", module: "" };
const sorting = { key: "position", down: false };

function kindTest(choice) {
  if (choice === "differ") return (i) => kind[i] >= KIND.VICTIM;
  if (choice === "bad") return isBad;
  if (choice === "extra") return (i) => alone[i] === ALONE.CANDIDATE;
  if (choice === "missing") return (i) => alone[i] === ALONE.REFERENCE;
  if (choice === "") return () => true;
  if (choice === "2") return (i) => kind[i] === KIND.VICTIM;
  const wanted = { 0: 0, 1: 2, 3: 1 }[choice]; // by verdict, as all reports count: what follows from the origin may pass
  return (i) => verdict[i] === wanted;
}

const SORT_VALUE = {
  output: (i) => output[i], input: (i) => input[i], limit: (i) => limit[i], ratio: ratioOf,
  step: (i) => step[i], rank: (i) => rank[i], verdict: (i) => kind[i], module: (i) => columns.module[i],
  name: (i) => columns.api[i] * 2 ** 32 + index[i] * 2 + backward[i],
};

// What the filter asks of a call.
function filterTests() {
  const tests = [];
  if (filter.text.trim()) tests.push(textTest(filter.text, ["api", "module", "reference_module", "source"], nameOf));
  if (filter.kind) tests.push(kindTest(filter.kind));
  if (filter.phase !== "") tests.push((i) => backward[i] === Number(filter.phase));
  if (filter.step !== "") tests.push((i) => step[i] === Number(filter.step));
  if (filter.rank !== "") tests.push((i) => rank[i] === Number(filter.rank));
  if (filter.module && moduleNodes.has(filter.module)) tests.push(branchTest(filter.module));
  return tests;
}

// Calls that one side alone makes can be asked for where there are any.
function isOffered(choice) {
  const side = { extra: ALONE.CANDIDATE, missing: ALONE.REFERENCE }[choice];
  return side === undefined || alone.includes(side);
}

const NOUN = "call";
const TABLE = {
  title: say("Calls"), search: say("Search call, module, source"), none: say("No call matches."),
  narrowed: () => filter.module && say("clear (module {module})", { module: filter.module === OUTSIDE ? say("(outside any module)") : filter.module.replace(/^-/, "") }),
  selects: [
    ["kind", say("Which calls"), [["", say("all calls")], ["differ", say("all that differ")], ["bad", say("failed")], ["3", say("to look at")], ["2", say("that follow from the origin")], ["0", say("passed")], ["1", say("not compared")], ["extra", say("only in the candidate")], ["missing", say("only in the reference")]].filter(([value]) => isOffered(value))],
    ["phase", say("Phase"), [["", say("forward and backward")], ["0", say("forward")], ["1", say("backward")]]],
    ["step", say("Step"), choicesOf(say("all steps"), step, (n) => say("step {n}", { n }))],
    ["rank", say("Rank"), choicesOf(say("all ranks"), rank, (n) => say("rank {n}", { n }))],
  ],
};
const COLUMNS = [
  ["position", "#", "position number"], ["name", say("call"), "name"], ["module", say("module"), "module"], ["step", say("step"), "step number"],
  ["rank", say("rank"), "rank number"], ["input", say("inputs"), "inputs number"], ["output", say("output"), "output number"],
  ["limit", say("limit"), "limit number"], ["ratio", say("÷ limit"), "ratio number"], ["verdict", say("verdict"), "verdict-cell"],
];
const LEFT = ["position", "name", "module", "step", "rank"], TITLED = ["name", "module"];
function wordOf(i) { return alone[i] ? [, say("only candidate"), say("only reference")][alone[i]] : KIND_WORD[kind[i]]; }
function cellTexts(i) {
  return [i, nameOf(i), moduleOf(i), step[i], rank[i], short(input[i]), short(output[i]), limit[i] > 0 ? short(limit[i]) : "–", times(ratioOf(i))];
}

// The data of a comparison: what each call is, and how calls are filtered, sorted and shown in the table.

const KIND = { PASS: 0, NONE: 1, VICTIM: 2, WARN: 3, FAIL: 4, ORIGIN: 5 };
const KIND_CLASS = ["pass", "none", "victim", "warn", "fail", "origin"];
const KIND_WORD = ["pass", "not compared", "victim", "warn", "fail", "origin"];

const { step, rank, verdict, inherited, backward, index } = columns;
const output = columns.output_distance, input = columns.input_distance, limit = columns.limit;
const apis = data.names.api, modules = data.names.module, sources = data.names.source;

// What each call is in the story; a number, so that 200,000 of them are cheap to filter and draw.
const kind = new Uint8Array(count);
for (let i = 0; i < count; i++) {
  if (i === head.position) kind[i] = KIND.ORIGIN;
  else if (verdict[i] >= 3) kind[i] = inherited[i] ? KIND.VICTIM : KIND.FAIL;
  else if (inherited[i]) kind[i] = KIND.VICTIM;
  else kind[i] = verdict[i] === 2 ? KIND.NONE : verdict[i] === 1 ? KIND.WARN : KIND.PASS;
}

// Where the Runs part without a fault (a warning), the origin is marked but not called bad.
function isBad(i) { return verdict[i] >= 3 && !inherited[i]; }
function classOf(i) { return KIND_CLASS[kind[i]] + (kind[i] === KIND.ORIGIN && !isBad(i) ? " mild" : ""); }

function apiOf(i) { return apis[columns.api[i]]; }
function moduleOf(i) { return modules[columns.module[i]]; }
function sourceOf(i) { return sources[columns.source[i]]; }
function nameOf(i) { return `${apiOf(i)}${index[i] < 0 ? "" : "." + index[i]}.${backward[i] ? "backward" : "forward"}`; }
function ratioOf(i) { return limit[i] > 0 ? output[i] / limit[i] : NaN; }

const filter = { text: "", kind: "", phase: "", step: "", rank: "", module: "" };
const sorting = { key: "position", down: false };

// One boolean per distinct text tells most rows apart; only names with their number need a look at the row itself.
function textTest(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => {
    const has = (texts) => texts.map((name) => name.toLowerCase().includes(word));
    const inApi = has(apis), inModule = has(modules), inSource = has(sources);
    const numbered = /[.\d]/.test(word) || "forward".startsWith(word) || "backward".startsWith(word);
    return (i) => inApi[columns.api[i]] || inModule[columns.module[i]] || inSource[columns.source[i]]
      || (numbered && nameOf(i).toLowerCase().includes(word));
  });
  return (i) => tests.every((test) => test(i));
}

function kindTest(choice) {
  if (choice === "differ") return (i) => kind[i] >= KIND.VICTIM;
  if (choice === "bad") return isBad;
  if (choice === "") return () => true;
  return (i) => kind[i] === Number(choice);
}

function moduleTest(path) {
  const inside = modules.map((name) => name === path || name.startsWith(path + "."));
  return (i) => inside[columns.module[i]];
}

const SORT_VALUE = {
  output: (i) => output[i], input: (i) => input[i], limit: (i) => limit[i], ratio: ratioOf,
  step: (i) => step[i], rank: (i) => rank[i], verdict: (i) => kind[i], module: (i) => columns.module[i],
  name: (i) => columns.api[i] * 1e6 + index[i] * 2 + backward[i],
};

// What the filter asks of a call.
function filterTests() {
  const tests = [];
  if (filter.text.trim()) tests.push(textTest(filter.text));
  if (filter.kind) tests.push(kindTest(filter.kind));
  if (filter.phase !== "") tests.push((i) => backward[i] === Number(filter.phase));
  if (filter.step !== "") tests.push((i) => step[i] === Number(filter.step));
  if (filter.rank !== "") tests.push((i) => rank[i] === Number(filter.rank));
  if (filter.module) tests.push(moduleTest(filter.module));
  return tests;
}

const NOUN = "call";
const COLUMNS = [
  ["position", "#", "position number"], ["name", "call", "name"], ["module", "module", "module"], ["step", "step", "step number"],
  ["rank", "rank", "rank number"], ["input", "inputs", "inputs number"], ["output", "output", "output number"],
  ["limit", "limit", "limit number"], ["ratio", "÷ limit", "ratio number"], ["verdict", "verdict", "verdict-cell"],
];
const LEFT = ["position", "name", "module", "step", "rank"], TITLED = ["name", "module"];
function wordOf(i) { return KIND_WORD[kind[i]]; }
function cellTexts(i) {
  return [i, nameOf(i), moduleOf(i), step[i], rank[i], short(input[i]), short(output[i]), limit[i] > 0 ? short(limit[i]) : "–", times(ratioOf(i))];
}

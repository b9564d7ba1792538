// The data of a Run: what each call is, and how calls are filtered, sorted and shown in the table.

const KIND = { PASS: 0, NONE: 1, CLOSE: 2, RAISED: 3, INFINITE: 4, NAN: 5 };
const KIND_CLASS = ["pass", "none", "warn", "warn", "fail", "fail"];
const KIND_WORD = ["", "no statistics", "little room", "raised", "infinity", "NaN"];
const CLOSE_BITS = 2;

const { step, rank, backward, index, largest, headroom, nan, infinite, elements, raised } = columns;
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

const filter = { text: "", kind: "", phase: "", step: "", rank: "" };
const sorting = { key: "position", down: false };

function textTest(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => {
    const has = (texts) => texts.map((name) => name.toLowerCase().includes(word));
    const inApi = has(apis), inModule = has(modules), inSource = has(sources), inDtype = has(dtypes);
    const numbered = /[.\d]/.test(word) || "forward".startsWith(word) || "backward".startsWith(word);
    return (i) => inApi[columns.api[i]] || inModule[columns.module[i]] || inSource[columns.source[i]] || inDtype[columns.dtype[i]]
      || (numbered && nameOf(i).toLowerCase().includes(word));
  });
  return (i) => tests.every((test) => test(i));
}

const KIND_TESTS = { odd: (i) => kind[i] >= KIND.CLOSE, nan: (i) => nan[i] > 0, infinite: (i) => infinite[i] > 0, close: (i) => headroom[i] < CLOSE_BITS, raised: (i) => raised[i] > 0 };

function filterTests() {
  const tests = [];
  if (filter.text.trim()) tests.push(textTest(filter.text));
  if (KIND_TESTS[filter.kind]) tests.push(KIND_TESTS[filter.kind]);
  if (filter.phase !== "") tests.push((i) => backward[i] === Number(filter.phase));
  if (filter.step !== "") tests.push((i) => step[i] === Number(filter.step));
  if (filter.rank !== "") tests.push((i) => rank[i] === Number(filter.rank));
  return tests;
}

const SORT_VALUE = {
  largest: (i) => largest[i], headroom: (i) => headroom[i], step: (i) => step[i], rank: (i) => rank[i], verdict: (i) => kind[i],
  module: (i) => columns.module[i], dtype: (i) => columns.dtype[i], infinite: (i) => nan[i] + infinite[i],
  name: (i) => columns.api[i] * 1e6 + index[i] * 2 + backward[i],
};

const NOUN = "call";
const COLUMNS = [
  ["position", "#", "position number"], ["name", "call", "name"], ["module", "module", "module"], ["step", "step", "step number"],
  ["rank", "rank", "rank number"], ["dtype", "dtype", "dtype"], ["largest", "largest", "largest number"],
  ["headroom", "bits left", "headroom number"], ["infinite", "NaN, Inf", "infinite number"], ["verdict", "", "verdict-cell"],
];
const LEFT = ["position", "name", "module", "step", "rank", "dtype", "headroom"], TITLED = ["name", "module"];
function cellTexts(i) {
  return [i, nameOf(i), moduleOf(i), step[i], rank[i], dtypeOf(i), largestText(i), bitsText(headroom[i]), nan[i] + infinite[i] || ""];
}

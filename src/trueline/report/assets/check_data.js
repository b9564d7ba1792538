// The data of a check: what each case is, and how cases are filtered, sorted and shown in the table.

const { verdict, calls, forward, backward } = columns;
const forwardVerdict = columns.forward_verdict, backwardVerdict = columns.backward_verdict;
const { api: apis, call: callTexts, module: modules, source: sources, reason: reasons, dtype: dtypes } = data.names;
const KIND_CLASS = ["pass", "warn", "none", "fail", "fail"];
const KIND_WORD = ["pass", "warn", "not compared", "fail", "error"];
const NO_VERDICT = 255;

function apiOf(i) { return apis[columns.api[i]]; }
function callOf(i) { return callTexts[columns.call[i]]; }
function moduleOf(i) { return modules[columns.module[i]]; }
function sourceOf(i) { return sources[columns.source[i]]; }
function reasonOf(i) { return reasons[columns.reason[i]]; }
function dtypeOf(i) { return dtypes[columns.dtype[i]]; }
function isBad(i) { return verdict[i] >= 3; }
function classOf(i) { return KIND_CLASS[verdict[i]]; }
function wordOf(i) { return KIND_WORD[verdict[i]]; }
function shortApi(api) { return api.replace(/^torch\.(nn\.functional\.)?/, ""); }

// The worst of the two scores of a case; NaN where it has none.
function scoreOf(i) {
  if (Number.isNaN(forward[i])) return backward[i];
  return Number.isNaN(backward[i]) ? forward[i] : Math.max(forward[i], backward[i]);
}
function scoreText(value) { return Number.isNaN(value) ? "–" : value === Infinity ? "∞" : short(value); }

const filter = { text: "", kind: "", part: "", dtype: "", api: "" };
const sorting = { key: "verdict", down: true };
const CONTROLS = [["text", "search"], ["kind", "kind"], ["part", "part"], ["dtype", "dtype"]];

function textTest(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => {
    const has = (texts) => texts.map((name) => name.toLowerCase().includes(word));
    const inside = [["api", apis], ["call", callTexts], ["module", modules], ["source", sources], ["reason", reasons]].map(([name, texts]) => [columns[name], has(texts)]);
    return (i) => inside.some(([codes, found]) => found[codes[i]]);
  });
  return (i) => tests.every((test) => test(i));
}

const KIND_TESTS = { wrong: isBad, notright: (i) => verdict[i] !== 0, fail: (i) => verdict[i] === 3, error: (i) => verdict[i] === 4, warn: (i) => verdict[i] === 1, none: (i) => verdict[i] === 2, pass: (i) => verdict[i] === 0 };
const PART_TESTS = { forward: (i) => forwardVerdict[i] !== NO_VERDICT && forwardVerdict[i] >= 1, backward: (i) => backwardVerdict[i] !== NO_VERDICT && backwardVerdict[i] >= 1 };

function filterTests() {
  const tests = [];
  if (filter.text.trim()) tests.push(textTest(filter.text));
  if (KIND_TESTS[filter.kind]) tests.push(KIND_TESTS[filter.kind]);
  if (PART_TESTS[filter.part]) tests.push(PART_TESTS[filter.part]);
  if (filter.dtype) { const code = dtypes.indexOf(filter.dtype); tests.push((i) => columns.dtype[i] === code); }
  if (filter.api) { const code = apis.indexOf(filter.api); tests.push((i) => columns.api[i] === code); }
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
  calls: (i) => calls[i], forward: (i) => forward[i], backward: (i) => backward[i], score: scoreOf,
  verdict: (i) => verdict[i] * 100 + Math.min(99, 50 + 4 * Math.log10(Math.max(1e-12, scoreOf(i) || 0))), // among equals the worse first
};

const NOUN = "case";
const COLUMNS = [
  ["position", "#", "position number"], ["api", "API", "name"], ["call", "call", "call"], ["where", "module", "place"],
  ["calls", "calls", "calls number"], ["forward", "forward", "forward number"], ["backward", "backward", "backward number"], ["score", "÷ limit", "score number"],
  ["verdict", "verdict", "verdict-cell"],
];
const LEFT = ["position", "api", "call", "where"], TITLED = ["api", "call", "where"];
const narrow = window.matchMedia("(max-width: 720px)");
function cellTexts(i) {
  return [i, narrow.matches ? shortApi(apiOf(i)) : apiOf(i), callOf(i), moduleOf(i), calls[i], scoreText(forward[i]), scoreText(backward[i]), scoreText(scoreOf(i))];
}

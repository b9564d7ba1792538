// The data of a pipeline: what each stage is and how it ended, how stages are filtered, sorted and shown.

const WORDS = [say("pass"), say("warn"), say("not compared"), say("fail"), say("with errors")];
const CLASSES = ["pass", "warn", "none", "fail", "fail"], MARKS = ["✓", "!", "–", "✕", "✕"];
const STATUS_WORDS = {
  done: say("done"), "done before": say("done before"), failed: say("failed"), crashed: say("crashed"), "timed out": say("timed out"), "out of memory": say("out of memory"), unsupported: say("unsupported"), skipped: say("skipped"),
  pass: say("pass"), warn: say("warn"), "not compared": say("not compared"), fail: say("fail"), error: say("with errors"),
};
const KIND_WORDS = { prepare: say("prepare"), train: say("train"), eval: say("evaluate"), export: say("export"), infer: say("infer"), check: say("check of numbers") };
const { verdict, seconds, peak } = columns;

function textOf(name, i) { return data.names[name][columns[name][i]]; }
function nameOf(i) { return textOf("name", i); }
function kindOf(i) { return textOf("kind", i); }
function isCheck(i) { return kindOf(i) === "check"; }
function statusText(i) { const status = textOf("status", i); return STATUS_WORDS[status] || status; }
function sourceOf(i) { return textOf("command", i); }
function classOf(i) { return CLASSES[verdict[i]]; }
function wordOf(i) { return `${MARKS[verdict[i]]} ${isCheck(i) ? WORDS[verdict[i]] : statusText(i)}`; }

const filter = { text: "", kind: "", ending: "", precision: "", trainer: "" };
const sorting = { key: "position", down: false };

function filterTests() {
  const tests = [];
  if (filter.text.trim()) tests.push(textTest(filter.text, ["name", "variant", "reason", "command", "said"]));
  for (const name of ["kind", "precision", "trainer"]) if (filter[name] !== "") tests.push((i) => textOf(name, i) === filter[name]);
  if (filter.ending === "odd") tests.push((i) => verdict[i] > 0);
  else if (filter.ending !== "") tests.push((i) => verdict[i] === Number(filter.ending));
  return tests;
}

const SORT_VALUE = {
  name: (i) => columns.name[i], kind: (i) => columns.kind[i], precision: (i) => columns.precision[i], seconds: (i) => (isCheck(i) ? NaN : seconds[i]), peak: (i) => peak[i] || NaN, verdict: (i) => verdict[i], said: (i) => columns.said[i],
};

const NOUN = "stage";
const choices = (all, name, words = {}) => [["", all], ...data.names[name].filter(Boolean).map((one) => [one, words[one] || one])];
const TABLE = {
  title: say("Stages"), search: say("Search stage, command, reason"), none: say("No stage matches."),
  selects: [
    ["ending", say("Which verdicts"), [["", say("all verdicts")], ["odd", say("not simply right")], ["3", say("fail")], ["4", say("with errors")], ["1", say("warn")], ["2", say("not compared")], ["0", say("pass")]]],
    ["kind", say("Kind"), choices(say("every kind"), "kind", KIND_WORDS)],
    ["trainer", say("Trainer"), choices(say("every trainer"), "trainer")],
    ["precision", say("Precision"), choices(say("every precision"), "precision")],
  ],
};
const COLUMNS = [
  ["position", "#", "position number"], ["name", say("stage"), "name"], ["kind", say("kind"), "kind"], ["precision", say("precision"), "precision"], ["variant", say("settings"), "module"],
  ["seconds", say("time"), "seconds number"], ["peak", say("peak memory"), "peak number"], ["said", say("numbers"), "said"], ["verdict", say("verdict"), "verdict-cell"],
];
const LEFT = ["position", "name", "kind", "precision", "variant", "said"], TITLED = ["name", "variant", "said"];
function cellTexts(i) {
  return [i, nameOf(i), KIND_WORDS[kindOf(i)] || kindOf(i), textOf("precision", i), textOf("variant", i), isCheck(i) || !seconds[i] ? "" : duration(seconds[i]), peak[i] ? bytes(peak[i]) : "", textOf("said", i)];
}

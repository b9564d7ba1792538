// Failures in groups: those of a triage with their likely cause and the script that shows them, else those that look
// alike.

const GROUPS_SHOWN = 12;
const LABELS = {
  "target wrong": [say("target wrong"), "bad", "✕"], "crashes the process": [say("crashes the process"), "bad", "✕"], "too slow": [say("too slow"), "bad", "✕"],
  "nondeterministic": [say("nondeterministic"), "warn", "!"], "undecided": [say("undecided"), "warn", "!"], "reference or mapping wrong": [say("reference or mapping wrong"), "dim", "–"],
  "ill-conditioned": [say("ill-conditioned"), "dim", "–"], "unsupported": [say("unsupported"), "dim", "–"], "fault of the tool": [say("fault of the tool"), "dim", "–"],
};
const groupsShown = { all: false, open: new Set() };

function groupLook(group) { return group.label ? LABELS[group.label] || [group.label, "dim", "–"] : endingLook(group.ending); }

function groupBox(group, n) {
  const box = element("details", "group"), top = element("summary"), name = group.name || String(n + 1);
  append(top, pill(...groupLook(group)), element("span", "what", group.label ? group.what : `${group.what}, ${group.dtype}`), element("b", "size", several(group.size, "{n} case", "{n} cases")), element("span", "why", group.why));
  box.append(top);
  box.open = groupsShown.open.has(name);
  let filled = false;
  const fill = () => { if (!filled) append(box, ...groupParts(group)); filled = true; };
  if (box.open) fill();
  box.addEventListener("toggle", () => {
    if (box.open) { fill(); groupsShown.open.add(name); } else groupsShown.open.delete(name);
    saveAddress();
  });
  return box;
}

function groupParts(group) {
  const list = element("dl");
  if (group.of) definition(list, say("size"), say("{n} of {all} cases of {apis}", { n: grouped(group.size), all: grouped(group.of), apis: group.apis.join(", ") }));
  definition(list, say("done again"), group.tried);
  definition(list, say("note"), group.note);
  const members = element("ul", "members");
  for (const one of group.members) append(members, append(element("li"), caseButton(one.key, one.line || one.api), element("span", "muted", one.reason)));
  return [list, members, filterButton(group), ...scriptParts(group.script, group.text, group.script && !group.shown)];
}

function filterButton(group) {
  const button = element("button", "ghost", say("show these cases")), shown = data.matrix.dtypes.includes(group.dtype) ? group.dtype : "";
  button.type = "button";
  button.hidden = group.apis.length !== 1;
  button.addEventListener("click", () => filterCases({ api: group.apis[0], dtype: shown, ending: group.ending }));
  return button;
}

// A script that was kept: the command that runs it, and its text.
function scriptParts(command, text, isQuiet) {
  if (!command) return [];
  const parts = [commandBox(isQuiet ? say("runs one of these cases; it did not show the failure when it was written") : say("shows it by itself"), command)];
  if (!text) return parts;
  const box = element("details", "script"), button = element("button", "ghost", say("copy"));
  button.type = "button";
  button.addEventListener("click", () => copy(text, button));
  return [...parts, append(box, element("summary", "", say("the script")), button, element("pre", "", text))];
}

function showGroups() {
  const { made, groups, more, command } = data.groups, place = byId("groups");
  byId("groups-card").hidden = !groups.length;
  byId("groups-shown").textContent = grouped(groups.length + more);
  byId("groups-note").textContent = made ? say("by likely cause, what wants attention first") : say("by API, dtype and reason, the largest first");
  const some = groupsShown.all ? groups : groups.slice(0, GROUPS_SHOWN);
  place.replaceChildren(...some.map(groupBox));
  const left = groups.length + more - some.length;
  if (left > 0) {
    const button = element("button", "ghost", some.length < groups.length ? say("show all") : say("and {n} more", { n: grouped(left) }));
    button.type = "button";
    button.disabled = some.length === groups.length;
    button.addEventListener("click", () => { groupsShown.all = true; showGroups(); saveAddress(); });
    place.append(button);
  }
  if (command) place.append(commandBox(say("find the cause of each group: does some cases again and writes scripts"), command));
}

hold((words) => {
  if (groupsShown.all) words.set("groups", "all");
  if (groupsShown.open.size) words.set("open", [...groupsShown.open].join(" "));
}, (words) => {
  groupsShown.all = words.get("groups") === "all";
  groupsShown.open = new Set((words.get("open") || "").split(" ").filter(Boolean));
  showGroups();
});
on("counts", showGroups);

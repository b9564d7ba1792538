// What changed since an earlier check: new failures, what is fixed, what ends otherwise, cases that appeared or are gone.

const CHANGE_KINDS = {
  "new failure": [say("new failures"), "bad", "✕"], "fixed": [say("fixed"), "good", "✓"], "changed": [say("changed"), "warn", "!"],
  "appeared": [say("appeared"), "dim", "+"], "gone": [say("gone"), "dim", "–"],
};
const changeState = { kind: "" };

function firstKind(counts) { return Object.keys(CHANGE_KINDS).find((kind) => counts[kind]) || ""; }

function changeTabs(changes) {
  const tabs = element("div", "segmented");
  tabs.setAttribute("role", "group");
  tabs.setAttribute("aria-label", say("What changed"));
  for (const [kind, [word, , mark]] of Object.entries(CHANGE_KINDS)) {
    const amount = changes.counts[kind] || 0, button = element("button", "", `${mark} ${word} ${grouped(amount)}`);
    button.type = "button";
    button.disabled = !amount;
    button.setAttribute("aria-pressed", String(kind === shownKind(changes)));
    button.addEventListener("click", () => { changeState.kind = kind; showChanges(); saveAddress(); });
    tabs.append(button);
  }
  return tabs;
}

function shownKind(changes) { return changes.counts[changeState.kind] ? changeState.kind : firstKind(changes.counts); }

function changeRow(one) {
  const row = element("li"), reason = one.new && one.new !== "pass" ? one.new_reason : one.old_reason;
  const way = [one.old, one.new].map((ending) => (ending ? endingLook(ending)[0] : "–")).join(" → ");
  return append(row, caseButton(one.key, one.api), element("span", "way", way), element("span", "muted", one.line), element("span", "reason", reason));
}

function showChanges() {
  const changes = data.changes, place = byId("changes"), card = byId("changes-card");
  card.hidden = !changes && !data.baseline;
  if (card.hidden) return;
  if (!changes) { place.replaceChildren(loadingNote()); return; }
  const kind = shownKind(changes), rows = changes.cases.filter((one) => one.kind === kind), more = (changes.counts[kind] || 0) - rows.length;
  byId("changes-note").textContent = say("since {old}", { old: changes.old });
  const counts = element("p", "muted", say("{known} fail in both, {same} are as before", { known: grouped(changes.known), same: grouped(changes.same) }));
  const list = append(element("ul", "change-list"), ...rows.map(changeRow));
  place.replaceChildren(changeTabs(changes), counts);
  append(place, kind ? list : element("p", "", say("Nothing changed.")), more > 0 ? element("p", "muted", say("and {n} more", { n: grouped(more) })) : null);
}

// A campaign of a million cases is matched with another one by the server, while the page is already there.
async function askChanges() {
  if (!windowed || !data.baseline) return;
  try {
    const answer = await fetch("data/changes");
    if (!answer.ok) return;
    const found = await answer.json();
    data.changes = found.changes;
    Object.assign(data.rows, found.rows);
    showChanges();
  } catch { /* the page is of use without */ }
}

holdValue("change", () => changeState.kind, (kind) => { changeState.kind = kind in CHANGE_KINDS ? kind : ""; showChanges(); });
askChanges();

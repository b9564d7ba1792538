// The way that bad numbers took, as a picture: one box for each call, from where they were born to where they ended. The
// bar in a box is the share of its outputs that is not finite. What is backward has a dashed edge.

const smallScreen = window.matchMedia("(max-width: 720px)").matches;
const WAY_FIRST = smallScreen ? 3 : 7, WAY_LAST = smallScreen ? 2 : 3;

function wayPicture(way, ends, pick) {
  const flow = element("ol", "way");
  const draw = (whole) => {
    const hidden = whole ? 0 : Math.max(0, way.length - WAY_FIRST - WAY_LAST);
    const steps = hidden > 1 ? [...way.slice(0, WAY_FIRST), null, ...way.slice(-WAY_LAST)] : way;
    flow.replaceChildren(...steps.map((one, n) => (one ? wayBox(one, n === 0, pick) : wayGap(hidden, () => draw(true)))));
    if (ends) flow.append(append(element("li", "way-end"), append(element("div", "way-box end"), element("span", "muted", say("ends in")), element("b", "", ends))));
  };
  draw(way.length <= WAY_FIRST + WAY_LAST + 1);
  return flow;
}

function wayGap(hidden, open) {
  const button = element("button", "way-box gap", several(hidden, "{n} more call", "{n} more calls"));
  button.type = "button";
  button.addEventListener("click", open);
  return append(element("li"), button);
}

function wayBox(one, first, pick) {
  const back = (one.phase || one.name.split(".").pop()) === "backward";
  const box = element("button", `way-box${first ? " born" : ""}${back ? " back" : ""}`), parts = one.name.split(".");
  box.type = "button";
  box.title = one.name;
  const called = parts.slice(0, -2), number = parts[parts.length - 2];
  append(box, element("span", "way-mark", first ? `✕ ${say("born here")}` : back ? say("backward") : say("forward")), element("b", "", `${called[called.length - 1]}.${number}`), element("span", "way-where", one.module || ""));
  if (one.elements) {
    const bad = one.nan + one.infinite, bar = element("i", "way-bar"), fill = element("i");
    fill.style.width = `${Math.max(bad ? 3 : 0, (100 * bad) / one.elements)}%`;
    append(box, element("span", "way-counts", countsText(one)), append(bar, fill));
  }
  box.disabled = !pick;
  if (pick) box.addEventListener("click", () => pick(one));
  return append(element("li"), box);
}

function countsText(one) {
  const bad = [one.nan ? `${grouped(one.nan)} NaN` : "", one.infinite ? `${grouped(one.infinite)} ∞` : ""].filter(Boolean).join(", ");
  return say("{bad} of {all}", { bad: bad || "0", all: grouped(one.elements) });
}

// What is said of where bad numbers were born, above the picture.
const NATURE_LOOK = { abnormal: ["bad", "✕"], expected: ["warn", "!"], inherited: ["dim", "–"], meant: ["good", "✓"], "not known": ["dim", "?"] };
const NATURE_TEXT = {
  abnormal: say("abnormal: the exact result fits, the kernel is wrong"), expected: say("expected: the exact result does not fit either"), inherited: say("inherited: what came in was bad already"),
  meant: say("meant: the program asked for it, or a later call makes numbers of it"), "not known": say("not known: the call was not executed again"),
};
function naturePill(nature) { const [style, mark] = NATURE_LOOK[nature] || ["dim", "?"]; return pill(NATURE_TEXT[nature] || nature, style, mark); }

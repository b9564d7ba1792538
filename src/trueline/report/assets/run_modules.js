// The modules of the program as a tree: how many calls each made, how little room they have left, what is not finite.

const moduleTree = byId("modules"), openModules = new Set(), MODULES_SHOWN = 600;

function newModule(path, label) { return { path, label, children: new Map(), calls: 0, bad: 0, room: Infinity, seconds: 0 }; }

const moduleRoot = (() => {
  const root = newModule("", ""), byModule = modules.map(() => newModule("", ""));
  for (let i = 0; i < count; i++) {
    const sum = byModule[columns.module[i]];
    sum.calls++;
    if (nan[i] || infinite[i]) sum.bad++;
    if (headroom[i] < sum.room) sum.room = headroom[i];
    if (timed && columns.seconds[i] > 0) sum.seconds += columns.seconds[i];
  }
  byModule.forEach((sum, number) => {
    if (!sum.calls) return;
    const parts = modules[number] ? modules[number].split(".") : [""];
    let node = root, path = "";
    for (const part of parts) {
      path = path ? `${path}.${part}` : part;
      if (!node.children.has(part)) node.children.set(part, newModule(path, part || say("outside any module")));
      node = node.children.get(part);
      node.calls += sum.calls;
      node.bad += sum.bad;
      node.room = Math.min(node.room, sum.room);
      node.seconds += sum.seconds;
    }
  });
  return root;
})();

function moduleRow(node, depth) {
  const row = element("div", `node${filter.module === node.path && node.path ? " selected" : ""}`), label = element("div", "label"), isOpen = openModules.has(node.path);
  const fold = element("button", "fold", node.children.size ? (isOpen ? "▾" : "▸") : "");
  fold.type = "button";
  fold.disabled = !node.children.size;
  fold.setAttribute("aria-label", isOpen ? say("Close {module}", { module: node.label }) : say("Open {module}", { module: node.label }));
  fold.setAttribute("aria-expanded", String(isOpen));
  fold.addEventListener("click", () => { if (isOpen) openModules.delete(node.path); else openModules.add(node.path); drawModules(); saveAddress(); });
  const name = element("button", node.bad ? "bad" : "", node.label);
  name.type = "button";
  name.title = node.path;
  name.disabled = !node.path;
  name.addEventListener("click", () => setFilter({ module: filter.module === node.path ? "" : node.path }));
  label.style.paddingLeft = `${depth * 16}px`;
  append(label, fold, name);
  // The bar: no room is a full one, 16 bits and more an empty one; where something is not finite, the share of such calls.
  const heat = element("div", `heat${node.bad || node.room < CLOSE_BITS ? " bad" : " good"}`), fill = element("i");
  fill.style.width = `${node.bad ? Math.max(8, (100 * node.bad) / node.calls) : Math.max(0, Math.min(100, 100 - (node.room / 16) * 100))}%`;
  heat.append(fill);
  const bad = element("span", "number" + (node.bad ? " bad" : ""), node.bad ? `✕ ${grouped(node.bad)}` : "");
  return append(row, append(label), element("span", "number", grouped(node.calls)), bad, element("span", "number", Number.isFinite(node.room) ? node.room.toFixed(1) : "–"), timed ? element("span", "number", node.seconds ? duration(node.seconds) : "–") : null, heat);
}

function drawModules() {
  const top = append(element("div", "node head"), element("span", "", say("module")), element("span", "number", say("calls")), element("span", "number", say("not finite")), element("span", "number", say("bits left")), timed ? element("span", "number", say("time")) : null, element("span", "", say("how near to the limit")));
  const rows = [top];
  const walk = (node, depth) => {
    for (const child of node.children.values()) {
      if (rows.length > MODULES_SHOWN) return;
      rows.push(moduleRow(child, depth));
      if (openModules.has(child.path)) walk(child, depth + 1);
    }
  };
  walk(moduleRoot, 0);
  if (rows.length > MODULES_SHOWN) rows.push(element("div", "empty", say("Only {n} modules are shown; close branches to see others.", { n: MODULES_SHOWN })));
  moduleTree.replaceChildren(...rows);
}

// Open at first: the only branch there is, and those with something that is not finite.
function openUsefulModules() {
  const walk = (node, depth) => {
    for (const child of node.children.values()) if (node.children.size < 4 || (child.bad && depth < 3)) { openModules.add(child.path); walk(child, depth + 1); }
  };
  walk(moduleRoot, 0);
}
openUsefulModules();
const openAtFirst = [...openModules].join(" ");
holdValue("open", () => { const now = [...openModules].join(" "); return now === openAtFirst ? "" : now || "-"; }, (text) => {
  openModules.clear();
  for (const path of (text === "" ? openAtFirst : text).split(" ")) if (path && path !== "-") openModules.add(path);
  drawModules();
});
on("view", drawModules);

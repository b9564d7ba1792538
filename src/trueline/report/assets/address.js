// The page around its content: the address that holds its state, its language, its theme, its keys.

// Who holds a part of the state says how it is written into the words of the address and how it is read back.
const held = [];
function hold(save, read) { held.push({ save, read }); }
function holdValue(name, get, set) {
  hold((words) => { const value = get(); if (value !== "") words.set(name, value); }, (words) => set(words.get(name) || ""));
}

let reading = false;
function saveAddress() {
  if (reading) return;
  const words = new URLSearchParams();
  for (const one of held) one.save(words);
  try { history.replaceState(null, "", `#${words}`); } catch { /* a sandboxed page has no history */ }
}

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  reading = true;
  for (const one of held) one.read(words);
  reading = false;
}

// The language: a text of the page's own HTML is said anew before any data is in the page.
let chosen = new URLSearchParams(location.hash.slice(1)).has("lang");
hold((words) => { if (chosen) words.set("lang", language); }, (words) => { if (words.has("lang") && words.get("lang") !== language) location.reload(); });

function translatePage() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.nodeValue.trim();
    if (Object.hasOwn(CHINESE, text)) node.nodeValue = node.nodeValue.replace(text, CHINESE[text]);
  }
  for (const name of ["aria-label", "placeholder", "title"]) {
    for (const node of document.querySelectorAll(`[${name}]`)) if (Object.hasOwn(CHINESE, node.getAttribute(name))) node.setAttribute(name, CHINESE[node.getAttribute(name)]);
  }
}

function switchLanguage() {
  chosen = true;
  saveAddress();
  const words = new URLSearchParams(location.hash.slice(1)), other = language === "zh" ? "en" : "zh";
  words.set("lang", other);
  store("trueline-language", other);
  history.replaceState(null, "", `#${words}`);
  location.reload();
}
byId("language").textContent = language === "zh" ? "English" : "中文";
byId("language").lang = language === "zh" ? "en" : "zh-CN";
byId("language").addEventListener("click", switchLanguage);
if (language === "zh") translatePage();

// The theme is that of the system until one is chosen.
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? say("Light") : say("Dark");
  emit("theme");
}
byId("theme").addEventListener("click", () => { const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; store("trueline-theme", next); setTheme(next); });
systemDark.addEventListener("change", () => { if (!store("trueline-theme")) setTheme(systemDark.matches ? "dark" : "light"); });

// The keys: [key, what it does, action]. The line at the foot of the page and the help are made of the same table.
function keyList(keys, tag) {
  return keys.map(([key, words]) => append(element(tag), element("kbd", "", key), " ", words));
}

function showHelp() {
  const help = byId("help");
  if (help.open) help.close(); else help.showModal();
}

function makeHelp(keys) {
  const close = element("button", "ghost", say("close"));
  close.type = "button";
  close.addEventListener("click", () => byId("help").close());
  append(byId("help"), element("h2", "", say("Keys")), append(element("ul", "key-list"), ...keyList(keys, "li")), close);
  byId("keys").append(...keyList(keys, "span"));
  byId("keys-button").addEventListener("click", showHelp);
}

function escape() {
  if (byId("help").open) byId("help").close();
  else if (!drawer.hidden) select(-1);
  else if (document.activeElement) document.activeElement.blur();
}

function listenToKeys(keys) {
  const actions = new Map(keys.map(([key, , action]) => [key, action]));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { escape(); return; }
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = actions.get(event.key);
    if (action) { event.preventDefault(); action(event); }
  });
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  const place = document.querySelector(event.target.hash);
  if (!place) return;
  place.scrollIntoView();
  (place.querySelector("input, button, [tabindex]") || place).focus();
});

// The last thing that a page does: from here on it can be used. `keys` are the page's own, `afterwards` what is left to
// do once the state of the address is shown.
function startPage(keys, afterwards = () => {}) {
  const all = [...keys];
  if (byId("search")) all.unshift(["/", say("search"), () => byId("search").focus()]);
  all.push(["Esc", say("close"), escape], ["?", say("keys"), showHelp]);
  makeHelp(all);
  listenToKeys(all);
  setTheme(store("trueline-theme") || (systemDark.matches ? "dark" : "light"));
  on("selected", saveAddress);
  readAddress();
  window.addEventListener("hashchange", readAddress);
  afterwards();
  document.documentElement.dataset.ready = String(Math.round(performance.now())); // milliseconds since the page was opened
}

// Puts the page of a Run together: what is in it, the way of what is not finite, about, keys.

function showHead() {
  const place = byId("verdict"), facts = element("div", "facts");
  const look = head.bad ? [say("NaN or infinity"), "bad", "✕"] : head.close ? [say("little room"), "warn", "!"] : [say("finite"), "good", "✓"];
  append(place, pill(...look), element("h1", "lead", tell(head.summary)));
  append(facts, fact(grouped(count), say("calls")), fact(grouped(head.bad), say("calls with NaN or infinity"), head.bad ? "bad" : ""), fact(grouped(head.close), say("calls with less than 2 bits left")), fact(grouped(modules.length), say("modules")));
  if (timed) facts.append(fact(duration(totalSeconds()), say("of one step, by the profile")));
  place.append(facts);
  const path = quote(head.path);
  const commands = head.bad || head.close ? [[say("where it was born, and whether it was meant"), `trueline overflow ${path}`]] : [];
  if (!timed) commands.push([say("time and memory of each call, to show them here"), `trueline profile ${path} --target ${head.run.framework.split(/[ ,+]/)[0]}:cpu --out PROFILE`]);
  commands.push([say("hold it against another Run"), `trueline compare REFERENCE ${path}`]);
  append(place, append(element("div", "next"), ...commands.map((item) => commandBox(...item))));
}

// Of the calls of one step and rank: all seconds over how many of these there are.
function totalSeconds() {
  const places = new Set();
  let sum = 0;
  for (let i = 0; i < count; i++) if (columns.seconds[i] > 0) { places.add(step[i] * 1e5 + rank[i]); sum += columns.seconds[i]; }
  return places.size ? sum / places.size : NaN;
}

// From where bad numbers were born to where they ended: each box selects its call.
function showWay() {
  const story = head.overflow, place = byId("way");
  if (!story) return;
  place.hidden = false;
  place.append(append(element("div", "card-head"), element("h2", "", say("Where it was born, and where it went")), element("span", "muted", several(story.births, "{n} birth", "{n} births"))));
  place.append(element("p", "", tell(story.summary)));
  const origin = story.origin;
  if (!origin) return;
  place.append(wayPicture(origin.way, origin.ends, (one) => { if (one.position !== undefined) showRow(one.position); }));
  const list = element("dl", "way-facts");
  definition(list, say("source"), origin.source);
  definition(list, say("why"), origin.why);
  definition(list, say("what helps"), origin.advice);
  definition(list, say("inherited by"), several(origin.victims, "{n} call", "{n} calls"));
  place.append(list);
}

function showAbout() {
  const about = byId("about"), list = element("dl"), run = head.run, sides = element("div", "sides");
  about.append(append(element("div", "card-head"), element("h2", "", say("About this Run"))));
  definition(list, say("program"), run.command.join(" "));
  definition(list, say("made"), say("{when} on {host}", { when: run.created, host: run.host }));
  definition(list, say("framework"), `${run.framework} ${run.framework_version}, Python ${run.python}`);
  definition(list, say("devices"), run.devices.join(", "));
  definition(list, say("commit"), run.git_commit);
  definition(list, say("seed"), run.seed === null ? "" : String(run.seed));
  if (timed) definition(list, say("profile"), tell(head.profile.summary));
  sides.append(append(element("div"), list));
  for (const one of head.certificates) sides.append(append(element("div"), certificateList(one)));
  about.append(sides);
}

const CERTIFICATE_WORDS = {
  rank: say("rank"), calls: say("calls"), tensors: say("tensors"), visits: say("visits"), bytes_seen: say("bytes seen"), bytes_stored: say("bytes stored"), not_recorded: say("not recorded"),
  kernels_outside: say("kernels outside"), kernels_inside: say("kernels inside"), gradient_sums: say("gradient sums"), complete: say("complete"), stopped_because: say("stopped because"),
};
function certificateList(one) {
  const told = element("dl");
  for (const [name, value] of Object.entries(one)) {
    const text = typeof value === "object" && value !== null ? Object.entries(value).map(([key, amount]) => `${key}: ${exact(amount)}`).join(", ") : typeof value === "boolean" ? (value ? say("yes") : say("no")) : typeof value === "number" ? grouped(value) : value;
    definition(told, CERTIFICATE_WORDS[name] || name.replaceAll("_", " "), text);
  }
  return told;
}

function isOdd(i) { return kind[i] >= KIND.CLOSE; }
function showBorn() { const origin = head.overflow && head.overflow.origin; if (origin && origin.way.length && origin.way[0].position !== undefined) showRow(origin.way[0].position); }

byId("runs").textContent = head.path;
document.body.classList.toggle("timed", timed);
showHead();
showWay();
showAbout();
startPage([
  ...(head.overflow && head.overflow.origin ? [["o", say("where it was born"), showBorn]] : []),
  ["j", say("next call with NaN, infinity or little room"), () => nextRow(1, isOdd)],
  ["k", say("previous call with NaN, infinity or little room"), () => nextRow(-1, isOdd)],
]);

// What is remembered across sessions, and what runs in the background.

import { get } from "./api.js";
import { card, h, replace } from "./dom.js";
import { toggle } from "./items.js";
import { orderButton } from "./orders.js";
import { money, pause, plural, when, whole } from "./format.js";

export async function memoryPage() {
  const { scopes } = await get("/api/memory");
  const known = scopes.filter((scope) => scope.entries.length || scope.changes.length || scope.error);
  const node = h("div", null, h("div", { class: "head" }, h("h1", null, "What is remembered")),
    h("p", { class: "about" }, "Facts that outlive a session, with the words they rest on. What is forgotten here can be brought back from the history; sevenfold memory changes entries."),
    known.length ? known.map(scopeView) : h("p", { class: "notice" }, "Nothing is remembered yet."));
  return { node, title: "Memory" };
}

function scopeView(scope) {
  return card(scope.name, plural(scope.entries.length, "entry").replace("entrys", "entries"),
    scope.error ? h("p", { class: "bad" }, scope.error) : null,
    scope.entries.map((entry) => entryView(scope, entry)),
    scope.changes.length ? h("details", null, h("summary", null, `History: ${plural(scope.changes.length, "change")}`), scope.changes.map((change) => changeView(scope, change))) : null);
}

const reload = () => setTimeout(() => dispatchEvent(new Event("reload-page")), 1200);

function entryView(scope, entry) {
  const origins = { user: ["good", "your words"], tool: ["warn", "from a tool’s output"], model: ["note", "a model’s words"] };
  const [level, origin] = origins[entry.origin] ?? ["note", entry.origin];
  const use = entry.used ? `shown ${whole(entry.used)} ${entry.used === 1 ? "time" : "times"}, ${entry.helped ? `used in ${plural(entry.helped, "answer")}` : "used in no answer"}${entry.lastUsed ? `, last ${when(entry.lastUsed)}` : ""}` : "not shown to a model yet";
  const facts = [entry.created ? `since ${when(entry.created)}` : "", entry.verified ? `confirmed ${when(entry.verified)}` : "", use, entry.until ? `holds until ${entry.until}` : "", entry.source, entry.name].filter(Boolean);
  return h("article", { class: "fact" },
    h("p", null, h("b", null, entry.description || entry.name), " ", h("span", { class: "pill" }, entry.kind), h("span", { class: `pill ${level}` }, origin),
      entry.pinned ? h("span", { class: "pill" }, "pinned") : null),
    entry.quotes.map((quote) => h("div", { class: "quote" }, "“", quote, "”")),
    h("p", { class: "sub" }, facts.join(" · ")),
    recordsView("It rests on", entry.evidence),
    recordsView("It went into", entry.answers),
    h("p", null, orderButton("Forget", "No session is told of it any more; its versions are kept.", "/api/memory/forget", { scope: scope.key, name: entry.name }, reload)),
    h("details", null, h("summary", { class: "sub" }, "The whole entry"), h("pre", { tabindex: "0" }, entry.body)));
}

// Records that memory names, each to be opened where it was said.
function recordsView(label, records) {
  if (!records.length) return null;
  const holder = h("div");
  const open = (record) => {
    const button = h("button", { type: "button", class: "plain", "aria-expanded": "false",
      onclick: () => toggle(record.session, record.record, button, holder) }, "Read it");
    return button;
  };
  return h("div", null, h("p", { class: "sub" }, `${label} `, records.map((record, place) => [place ? ", " : "",
    record.session ? ["a message of ", h("a", { href: `#/s/${record.session}` }, record.name), " ", open(record)] : `a message of ${record.name}, which is gone`])), holder);
}

function changeView(scope, change) {
  return h("div", { class: "fact" },
    h("p", null, h("b", null, `${whole(change.number)}. ${change.reason}`), " ", h("span", { class: "pill" }, change.by), h("span", { class: "sub" }, when(change.at))),
    h("details", null, h("summary", { class: "sub" }, change.files.join(", ")), h("pre", { tabindex: "0" }, change.diff.split("\n").map((line) =>
      h("span", { class: line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : line.startsWith("@") ? "at" : "same" }, line || " ")))),
    h("p", null, orderButton("Undo", "Entries are again as they were before this change.", "/api/memory/undo", { scope: scope.key, number: change.number }, reload)));
}

export async function tasksPage() {
  const body = h("div");
  const draw = async () => {
    if (body.querySelector(".order .danger, .order [role=status]")) return; // somebody is about to stop one
    const { tasks } = await get("/api/tasks");
    replace(body, tasks.length ? card("Tasks", `${plural(tasks.filter((task) => !task.over).length, "task")} running`, h("div", { class: "scroll" }, h("table", null,
      h("thead", null, h("tr", null, ["Task", "State", "Session", "Since"].map((name) => h("th", null, name)), h("th", { class: "num" }, "Cost"), h("th", null, "Order"))),
      h("tbody", null, tasks.map(taskLine)))))
      : h("p", { class: "notice" }, "Nothing runs in the background of any session of Sevenfold that is open."));
  };
  await draw();
  const clock = setInterval(() => { draw().catch(() => {}); }, 2000);
  const node = h("div", null, h("div", { class: "head" }, h("h1", null, "What runs now")),
    h("p", { class: "about" }, "Commands, agents and the engine’s own work in the background. What other tools run is not on record."), body);
  return { node, title: "Tasks", leave: () => clearInterval(clock) };
}

function taskLine(task) {
  const state = task.over ? "" : "good";
  return h("tr", null,
    h("td", null, h("div", null, task.name), h("div", { class: "sub" }, `${task.kind} · ${task.id}${task.progress ? ` · ${task.progress}` : ""}`)),
    h("td", null, h("span", { class: `pill ${state}` }, task.state.replace("_", " "))),
    h("td", null, h("a", { href: `#/s/${task.session}` }, task.sessionName), h("div", { class: "sub" }, task.project)),
    h("td", null, task.started ? `${pause(Math.max(0, Date.now() / 1000 - task.started))} ago` : ""),
    h("td", { class: "num" }, task.usd === null ? "–" : money(task.usd)),
    h("td", null, task.over ? "" : orderButton("Stop", "What it has done so far stays.", `/api/s/${task.session}/stop`, { target: task.id }, reload)));
}

// Which page is shown, the theme, and the keys that work everywhere.

import { Refused, takeToken } from "./api.js";
import { h, replace } from "./dom.js";
import { sessionsPage } from "./sessions.js";
import { sessionPage } from "./session.js";
import { requestPage } from "./request.js";
import { memoryPage, tasksPage } from "./memory.js";

const main = document.getElementById("main");
const live = document.getElementById("live");
const PAGES = [["Sessions", "#/"], ["Memory", "#/memory"], ["Tasks", "#/tasks"]];
let leave = () => {};
let shown = 0;

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.dispatchEvent(new CustomEvent("theme"));
}

function startTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(localStorage.getItem("theme") ?? (dark.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", theme);
    setTheme(theme);
  });
}

function setState(state) {
  const words = { live: "live", lost: "reconnecting", refused: "no token" };
  replace(live, words[state] ? [h("span", { class: `dot ${state === "live" ? "on" : "off"}` }), h("span", { class: "word" }, words[state])] : "");
}

function route() {
  const path = location.hash.replace(/^#/, "").split("?")[0] || "/";
  const parts = path.split("/").filter(Boolean);
  if (parts[0] === "s" && parts[2] === "r") return () => requestPage(parts[1], Number(parts[3]));
  if (parts[0] === "s") return () => sessionPage(parts[1], setState);
  if (parts[0] === "memory") return memoryPage;
  if (parts[0] === "tasks") return tasksPage;
  return () => sessionsPage(setState);
}

async function show() {
  takeToken();
  const turn = ++shown;
  leave();
  leave = () => {};
  setState("");
  const path = location.hash || "#/";
  replace(document.getElementById("nav"), PAGES.map(([name, address]) =>
    h("a", { href: address, "aria-current": path === address ? "page" : null }, name)));
  replace(main, h("p", { class: "notice", role: "status" }, "Reading …"));
  try {
    const page = await route()();
    if (turn !== shown) { page.leave?.(); return; }
    replace(main, page.node);
    document.title = `${page.title} – Sevenfold inspector`;
    leave = page.leave ?? leave;
    page.ready?.();
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  } catch (error) {
    if (turn !== shown) return;
    if (error instanceof Refused) setState("refused");
    replace(main, h("div", { class: "notice", role: "alert" }, h("p", null, h("b", null, error.message)),
      h("p", null, h("a", { href: "#/" }, "All sessions"))));
  }
}

addEventListener("hashchange", () => {
  if (location.hash !== "#main") show();
});
addEventListener("reload-page", show);
startTheme();
show();

// The list of sessions.

import { follow, get } from "./api.js";
import { arrange, card, h, replace, svg, tile } from "./dom.js";
import { day, money, percent, plural, tokens, whole } from "./format.js";

const FIRST = 60;
const MORE = 100;
const SORTS = {
  modified: (row) => -(row.running ? Infinity : row.ended ? Date.parse(row.ended) / 1000 : row.modified),
  requests: (row) => -(row.requests ?? 0),
  usd: (row) => -(row.usd ?? -1),
  lost: (row) => -(row.lostUsd ?? -1),
  title: (row) => row.title.toLowerCase(),
};

export async function sessionsPage(setState) {
  let data = await get("/api/sessions");
  const view = { filter: "", sort: "modified", cursor: -1, rows: FIRST };
  const tiles = h("div", { class: "tiles" });
  const dayBox = h("div");
  const body = h("tbody");
  const note = h("p", { class: "quiet", role: "status" });
  const filter = h("input", {
    class: "filter", type: "search", placeholder: "Filter by title, project or model  /", "aria-label": "Filter the sessions",
    size: 36, oninput: () => { view.filter = filter.value; anew(); },
  });
  // Few of a long list are ever looked at: more rows are drawn when the end of those that there are comes near.
  const more = h("button", { type: "button", onclick: () => { view.rows += MORE; draw(); } });
  const rest = h("p", { class: "rest" });
  const nearEnd = new IntersectionObserver((seen) => { if (seen.some((entry) => entry.isIntersecting)) more.click(); },
    { rootMargin: "500px" });
  const lineOf = keptLines();
  let days = "";

  function anew() {
    view.cursor = -1;
    view.rows = FIRST;
    draw();
  }

  function rows() {
    const wanted = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (row) => {
      const text = [row.title, row.project, row.model, row.tool, row.name].join(" ").toLowerCase();
      return wanted.every((word) => text.includes(word));
    };
    const listed = data.sessions.filter((row) => (!row.parent || wanted.length) && matches(row));
    const by = SORTS[view.sort];
    return listed.sort((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0));
  }

  function draw() {
    const total = data.totals;
    replace(tiles,
      tile(money(total.usd), `${plural(total.sessions, "session")}, ${plural(total.requests, "request")}`),
      tile(money(total.lostUsd), `${percent(total.usd ? total.lostUsd / total.usd : 0)} of it for lost cache`, total.lostUsd ? "bad" : null),
      tile(money(total.savedUsd), "saved by the cache", "good"),
      tile(whole(total.compactions), total.compactions === 1 ? "compaction" : "compactions"),
      tile(whole(total.breaks), `cache breaks, ${whole(total.unexplained)} unexplained`));
    if (days !== JSON.stringify(data.days)) {
      days = JSON.stringify(data.days);
      replace(dayBox, dayChart(data.days));
    }
    const listed = rows();
    for (const [name, header] of Object.entries(sorted)) {
      if (name !== view.sort) header.removeAttribute("aria-sort");
      else header.setAttribute("aria-sort", name === "title" ? "ascending" : "descending");
    }
    if (view.cursor >= view.rows) view.rows = view.cursor + MORE;
    arrange(body, listed.slice(0, view.rows).map((row, place) => lineOf(row, place === view.cursor)));
    const left = listed.length - view.rows;
    more.textContent = `Show ${whole(Math.min(left, MORE))} more of ${whole(left)}`;
    replace(rest, left > 0 ? more : null);
    note.textContent = data.reading ? `Reading ${plural(data.reading, "more session")} …`
      : listed.length ? "" : view.filter ? "No session matches the filter."
      : "There are no recorded sessions on this machine yet. Run an agent, or sevenfold demo --keep.";
  }

  const sorted = {};
  const column = (name, label, kind) => {
    sorted[name] = h("th", { class: kind ?? null }, h("button", { type: "button", onclick: () => { view.sort = name; anew(); } }, label));
    return sorted[name];
  };
  const table = h("table", { class: "sessions" },
    h("thead", null, h("tr", null, column("title", "Session"), column("modified", "Last used", "used"), h("th", { class: "spark" }, "Context"),
      column("requests", "Requests", "num requests"), column("usd", "Cost", "num usd"), column("lost", "Cache lost", "num lost"),
      h("th", { class: "health" }, "Health"))), body);

  function onKey(event) {
    if (event.target instanceof HTMLInputElement) {
      if (event.key === "Escape") filter.blur();
      return;
    }
    const listed = rows();
    if (event.key === "/") { event.preventDefault(); filter.focus(); }
    else if (event.key === "j") view.cursor = Math.min(view.cursor + 1, listed.length - 1);
    else if (event.key === "k") view.cursor = Math.max(view.cursor - 1, 0);
    else if (event.key === "Enter" && listed[view.cursor] && event.target === document.getElementById("main")) {
      location.hash = `#/s/${listed[view.cursor].key}`;
      return;
    } else return;
    draw();
    body.children[view.cursor]?.scrollIntoView({ block: "nearest" });
  }

  draw();
  addEventListener("keydown", onKey);
  const stop = follow(() => `/api/sessions/stream?since=${data.changes}`, (news) => { data = news; draw(); }, setState);
  const node = h("div", null,
    h("div", { class: "head" }, h("h1", null, "Sessions on this machine"), filter),
    tiles, dayBox,
    h("section", { class: "card", "aria-label": "Sessions" }, note, table, rest),
    h("p", { class: "sub" }, "Keys: j and k move, Enter opens, / filters. Amounts are list prices; an unknown price counts as nothing."));
  const leave = () => { stop(); nearEnd.disconnect(); removeEventListener("keydown", onKey); };
  return { node, title: "Sessions", ready: () => nearEnd.observe(rest), leave };
}

// The line of a session stays the same element while nothing in it changes: the list is told anew every second or two.
function keptLines() {
  const kept = new Map();
  return (row, current) => {
    const text = JSON.stringify([row, current]);
    const before = kept.get(row.key);
    if (before?.text === text) return before.node;
    const node = line(row, current);
    kept.set(row.key, { text, node });
    return node;
  };
}

function line(row, current) {
  const used = day(row.ended ? Date.parse(row.ended) / 1000 : row.modified);
  const about = [row.tool, row.project, row.model].filter(Boolean).join(" · ");
  const sick = row.usd && row.lostUsd / row.usd >= 0.25;
  return h("tr", { class: `link${current ? " cursor" : ""}`, onclick: (event) => {
    if (!(event.target instanceof HTMLAnchorElement)) location.hash = `#/s/${row.key}`;
  } },
  h("td", { class: "clip" },
    h("div", { class: "name" }, row.running ? h("span", { class: "dot on", title: "running" }) : null,
      h("a", { href: `#/s/${row.key}` }, row.title || row.name)),
    h("div", { class: "sub" }, row.error ? row.error : about, h("span", { class: "used" }, ` · ${used}`))),
  h("td", { class: "used" }, used),
  h("td", { class: "spark" }, row.known && row.sparks.length ? [sparkline(row), h("div", { class: "sub" },
    row.window ? `peak ${tokens(row.peak)} of ${tokens(row.window)}` : `peak ${tokens(row.peak)}`)] : h("span", { class: "sub" }, row.known ? "" : "not read yet")),
  h("td", { class: "num requests" }, row.known ? whole(row.requests) : ""),
  h("td", { class: "num usd" }, row.known && row.requests ? h("b", null, money(row.usd)) : ""),
  h("td", { class: `num lost${sick ? " bad" : ""}` }, row.known ? (row.lostUsd ? money(row.lostUsd) : "–") : ""),
  h("td", { class: "health" }, row.health.map((mark) => h("span", { class: `pill ${mark.level}` }, mark.text))));
}

function sparkline(row) {
  const sizes = row.sparks;
  const top = Math.max(...sizes, 1);
  const at = (place) => (sizes.length === 1 ? 0 : (place / (sizes.length - 1)) * 120);
  const points = sizes.map((size, place) => `${at(place).toFixed(1)},${(24 - (size / top) * 22).toFixed(1)}`);
  if (sizes.length === 1) points.push(`120,${(24 - (sizes[0] / top) * 22).toFixed(1)}`);
  return svg("svg", { class: "sparkline", viewBox: "0 0 120 25", preserveAspectRatio: "none", role: "img",
    "aria-label": `Context over time, at most ${tokens(row.peak)} tokens` },
  svg("path", { class: "area", d: `M0,25 L${points.join(" L")} L120,25 Z` }),
  svg("path", { class: "line", d: `M${points.join(" L")}` }));
}

function dayChart(days) {
  if (days.length < 2) return null;
  const top = Math.max(...days.map((day) => day.usd), 0.000001);
  const most = days.reduce((best, day) => (day.usd > best.usd ? day : best));
  const step = 1000 / days.length;
  const bars = days.map((day, place) => {
    const height = Math.max((day.usd / top) * 78, 1.2);
    return svg("rect", { x: place * step + step * 0.06, y: 80 - height, width: step * 0.88, height, rx: 1 },
      svg("title", null, `${day.day}: ${money(day.usd)}`));
  });
  const table = h("table", null, h("thead", null, h("tr", null, h("th", null, "Day"), h("th", { class: "num" }, "Spent"))),
    h("tbody", null, days.map((day) => h("tr", null, h("td", null, day.day), h("td", { class: "num" }, money(day.usd))))));
  return card("Spent by day", "list prices; only days with requests",
    h("div", { class: "days" }, svg("svg", { viewBox: "0 0 1000 80", preserveAspectRatio: "none", role: "img",
      "aria-label": `Spent by day, most on ${most.day}: ${money(most.usd)}` }, ...bars)),
    h("div", { class: "axis" }, h("span", null, days[0].day), h("span", null, `most: ${money(most.usd)} on ${most.day}`),
      h("span", null, days[days.length - 1].day)),
    h("details", null, h("summary", { class: "sub" }, "As a table"), h("div", { class: "tall" }, table)));
}

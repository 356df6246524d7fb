// The page of one session.

import { follow, get } from "./api.js";
import { CostChart, SessionCharts, bandClass } from "./charts.js";
import { append, bar, card, h, replace, swatch, tile } from "./dom.js";
import { bytes, money, pause, percent, plural, stamp, tokens, whole } from "./format.js";
import { itemLine, toggle } from "./items.js";
import { undoButton } from "./orders.js";
import { proposalsCard } from "./proposals.js";

const ROWS = 50;
const KINDS = [["", "everything"], ["user", "your words"], ["assistant", "the model’s words"], ["tool_use", "calls"], ["edit", "edits"],
  ["tool_result", "results"], ["error", "failures"], ["summary", "summaries"], ["attachment", "attachments"]];

export async function sessionPage(key, setState) {
  const session = await withProgress(key, get(`/api/s/${key}`));
  const tools = encodeURIComponent(JSON.stringify(session.tools));
  const findings = h("div");
  const tiles = h("div", { class: "tiles" });
  const about = h("p", { class: "about" });
  const breaks = h("tbody");
  const idle = h("div");
  const idleCard = card("If you pause", "what going on will cost, and what else could be done; estimates from list prices", idle);
  const running = h("span");
  const fetchSeries = (from, to) => get(`/api/s/${key}/series?from=${from}${to === null ? "" : `&to=${to}`}&tools=${tools}`);
  const charts = new SessionCharts(session, fetchSeries, (number) => { location.hash = `#/s/${key}/r/${number}`; });

  function drawHead() {
    const { head } = session;
    const span = [stamp(head.started), stamp(head.ended)].filter(Boolean);
    replace(about, [session.tool, head.models.join(", "), span.join(" – "), bytes(session.size), plural(head.records, "record"),
      head.damaged ? `${head.damaged} damaged` : "", session.name].filter(Boolean).join(" · "));
    replace(findings, head.findings.map((finding) => h("div", { class: `finding ${finding.level === "bad" ? "bad-edge" : ""}` },
      h("p", null, h("b", null, finding.strong), finding.text),
      finding.request ? h("a", { href: `#/s/${key}/r/${finding.request}` }, finding.link) : null)));
    const share = head.window ? `, ${percent(head.now / head.window)} of ${tokens(head.window)}` : "";
    const withAgents = head.agentsUsd ? `paid; with its agents ${money(head.usd + head.agentsUsd)}` : null;
    replace(tiles,
      tile(money(head.usd), withAgents ?? (head.engineCalls ? `paid, ${money(head.engineUsd)} of it for ${plural(head.engineCalls, "call")} of the engine` : "paid")),
      tile(head.lostUsd || !head.breaks ? money(head.lostUsd) : "unknown", plural(head.breaks, "cache break"), head.breaks ? "bad" : null),
      tile(percent(head.readShare), "of prompts read from the cache"),
      tile(whole(head.requests), head.sideRequests ? `requests, and ${whole(head.sideRequests)} of sub-agents` : "requests"),
      tile(tokens(head.now), `in context now${share}`),
      tile(tokens(head.peak), "largest prompt"));
    replace(breaks, session.breaks.map((lost) => breakLine(key, lost)));
    replace(running, session.running ? [h("span", { class: "dot on" }), " running"] : null);
    drawIdle();
  }

  function drawIdle() {
    const left = session.head.idle;
    const passed = left ? Date.now() / 1000 - left.at : 0;
    idleCard.hidden = !left || passed < -60; // of the future: recorded on another clock
    if (idleCard.hidden) return;
    const remaining = left.lifetime - passed;
    const alive = remaining > 0;
    const clock = alive ? `The cache of the newest prompt lives another ${pause(remaining)}.`
      : `The cache of the newest prompt has expired: going on costs about ${money(left.coldUsd)} instead of ${money(left.warmUsd)}.`;
    replace(idle, h("p", null, h("b", null, clock)), choicesTable(alive ? left.alive : left.expired));
  }

  const breakCard = card("Cache breaks", "what had to be paid again, the dearest first", session.breaks.length
    ? h("div", { class: "scroll tall" }, h("table", null, h("thead", null, h("tr", null, h("th", { class: "num" }, "Request"), h("th", null, "Cause"),
      h("th", { class: "num" }, "Tokens"), h("th", { class: "num" }, "Price"))), breaks))
    : h("p", { class: "quiet" }, "No prompt was paid for twice."));

  const whatif = whatIfCard(session, charts);
  const proposals = proposalsCard(session);
  drawHead();
  const clock = setInterval(drawIdle, 5000);
  const cursor = () => `/api/s/${key}/stream?cursor=${session.cursor}&revised=${session.series.revised}&tools=${tools}`;
  const stop = follow(cursor, (news) => {
    if (news.reload) { dispatchEvent(new Event("reload-page")); return; }
    if (news.running !== undefined) session.running = news.running;
    if (news.head) {
      session.head = { ...news.head, findings: news.head.findings ?? session.head.findings };
    }
    if (news.series) {
      session.breaks = news.breaks;
      session.marks = news.marks;
      session.series.total = news.series.total;
      session.series.revised = news.series.revised;
      charts.series.total = news.series.total;
      charts.add(news.series);
      if (charts.series !== session.series) charts.series.revised = news.series.revised;
    }
    drawHead();
  }, setState);

  const node = h("div", null,
    h("div", { class: "crumbs" }, h("a", { href: "#/" }, "Sessions"), session.project ? ` / ${session.project}` : ""),
    h("h1", null, session.title, " ", h("small", { class: "sub" }, running)),
    about, proposals.card, findings, tiles,
    chartCard(session, charts),
    idleCard,
    whatif.card,
    h("div", { class: "two" }, breakCard, itemsCard(session)),
    session.marks.some((mark) => mark.kind === "compaction") ? compactionsCard(session) : null,
    h("div", { class: "two" }, ledgerCard(session), leftCard(session)),
    session.agents.length ? agentsCard(session) : null);
  return { node, title: session.title, ready: () => charts.start(), leave: () => { stop(); clearInterval(clock); charts.stop(); whatif.stop(); proposals.stop(); } };
}

function choicesTable(choices) {
  return h("div", { class: "scroll" }, h("table", { class: "choices" }, h("thead", null, h("tr", null, h("th", null, "Choice"), h("th", { class: "num" }, "At once"),
    h("th", { class: "num" }, "Next prompt"), h("th", { class: "num" }, "Its tokens"))),
  h("tbody", null, choices.map((choice) => h("tr", null, h("td", null, choice.name), h("td", { class: "num" }, choice.atOnceUsd ? money(choice.atOnceUsd) : "–"),
    h("td", { class: "num" }, h("b", null, money(choice.promptUsd))), h("td", { class: "num" }, tokens(choice.tokens)))))));
}

function whatIfCard(session, charts) {
  if (!session.series.request.length || session.head.usd === null) return { card: null, stop: () => {} };
  let chart = null;
  const box = h("div");
  // A curve may end early, where its policy no longer fitted the window: it has no total then.
  const show = async (button, address, notes) => {
    button.disabled = true;
    try {
      const found = await get(`/api/s/${session.key}/${address}`);
      chart?.stop();
      const totals = found.curves.map((curve) => [curve, curve.usd[curve.usd.length - 1]]);
      const [, paid] = totals[0];
      const told = (usd) => (usd === null ? "–" : money(usd));
      const beside = (usd) => (usd === null || paid === null || usd === paid ? "" : usd < paid ? `${money(paid - usd)} less` : `${money(usd - paid)} more`);
      chart = new CostChart(found, totals.map(([curve, usd]) => `${curve.label}: ${told(usd)}`).join("; "));
      replace(box, chart.node, h("table", null, h("tbody", null, totals.map(([curve, usd]) => h("tr", null, h("td", null, swatch(curve.name), " ", curve.label),
        h("td", { class: "num" }, h("b", null, told(usd))), h("td", { class: "num quiet" }, beside(usd)))))), costTable(found), notes(found));
      chart.start();
      if (found.curves[0].tokens) charts.compareWith(found);
    } catch (error) {
      replace(box, h("p", { class: "bad" }, error.message));
    }
    button.disabled = false;
  };
  const unpriced = (found) => found.unpriced ? h("p", { class: "sub" }, `${plural(found.unpriced, "request")} without a known price ${found.unpriced === 1 ? "counts" : "count"} as nothing.`) : null;
  const simulated = (found) => h("p", { class: "sub" }, `Replayed with a simulated provider, ${found.model} in ${whole(found.window)} tokens: compare these curves with each other, not with the bill. The chart above shows how large the prompts would have been. Where no summary is on record, its text says nothing: what a model might have kept is counted for nobody.`);
  const lifetimes = h("button", { type: "button", onclick: () => show(lifetimes, "whatif", unpriced) }, "Another cache");
  const policies = h("button", { type: "button", onclick: () => show(policies, "replay", simulated) }, "Another policy");
  const made = card("What if", "the same requests with another cache, from their recorded usage; or the session replayed under other policies for its context", box);
  made.firstChild.append(lifetimes, policies);
  return { card: made, stop: () => chart?.stop() };
}

function costTable(found) {
  const step = Math.max(1, Math.ceil(found.request.length / ROWS));
  const shown = found.request.map((_, place) => place).filter((place) => place % step === 0 || place === found.request.length - 1);
  const cell = (usd) => h("td", { class: "num" }, usd === null ? "–" : money(usd));
  return h("details", null, h("summary", { class: "sub" }, "As a table"), h("div", { class: "scroll tall", tabindex: "0" }, h("table", null,
    h("thead", null, h("tr", null, h("th", { class: "num" }, "Up to request"), found.curves.map((curve) => h("th", { class: "num" }, curve.label)))),
    h("tbody", null, shown.map((place) => h("tr", null, h("td", { class: "num" }, whole(found.request[place])), found.curves.map((curve) => cell(curve.usd[place]))))))));
}

// A long session is read for the first time: say how far.
async function withProgress(key, asked) {
  const clock = setInterval(async () => {
    const { done, total } = await get(`/api/s/${key}/progress`).catch(() => ({ total: 0 }));
    const notice = document.querySelector("main .notice");
    if (total && notice) replace(notice, h("progress", { max: total, value: done, "aria-label": "Reading the session" }), ` ${bytes(done)} of ${bytes(total)} read`);
  }, 700);
  try {
    return await asked;
  } finally {
    clearInterval(clock);
  }
}

function chartCard(session, charts) {
  if (!session.series.request.length) {
    return card("What filled the context", "", h("p", { class: "quiet" }, "No request of this session has its usage on record, so there is nothing to draw."));
  }
  const table = h("div");
  let first = 0;
  const draw = () => {
    const total = charts.series.request.length;
    const move = (step) => () => { first = Math.min(Math.max(first + step, 0), Math.max(0, total - 1)); draw(); };
    replace(table, h("div", { class: "scroll tall", tabindex: "0" }, charts.table(first, ROWS)), total > ROWS ? h("p", { class: "steps" },
      h("button", { type: "button", onclick: move(-ROWS) }, "Earlier"), h("button", { type: "button", onclick: move(ROWS) }, "Later"),
      h("span", { class: "sub" }, `rows ${whole(first + 1)} to ${whole(Math.min(first + ROWS, total))} of ${whole(total)}`)) : null);
  };
  const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
    const open = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!open));
    if (open) replace(table);
    else draw();
  } }, "Table");
  const whose = session.series.bucketed ? "each point is the largest of its neighbours; drag to see every request" : "drag to zoom, double-click to reset, click to open a request";
  const made = card("What filled the context", `tokens by category at each request; ${whose}`, charts.node,
    h("h3", null, "How it was billed"), charts.billingNode, table);
  made.firstChild.append(button);
  return made;
}

function breakLine(key, lost) {
  const idle = lost.idle && lost.cause === "expired" ? h("span", { class: "quiet" }, ` (${pause(lost.idle)})`) : null;
  return h("tr", null,
    h("td", { class: "num" }, lost.lane ? h("span", { class: "quiet", title: "of a sub-agent" }, `agent ${lost.lane}`)
      : h("a", { href: `#/s/${key}/r/${lost.request}` }, whole(lost.request))),
    h("td", null, lost.words, idle), h("td", { class: "num" }, whole(lost.tokens)), h("td", { class: "num" }, money(lost.usd)));
}

function itemsCard(session) {
  return card("Dearest items", "tokens × prompts that carried them", session.items.length
    ? h("div", { class: "tall" }, session.items.map((item) => itemLine(session, item, [
      h("span", { class: "num extra" }, tokens(item.tokens)), h("span", { class: "num quiet extra" }, `× ${whole(item.prompts)}`),
      h("span", { class: "num" }, tokens(item.carried))], true)))
    : h("p", { class: "quiet" }, "Nothing was carried."));
}

function ledgerCard(session) {
  const { entries, total } = session.ledger;
  const choices = entries.filter((entry) => entry.kind === "choice").length;
  const box = h("div", { class: "tall" });
  let all = choices === entries.length;
  const draw = () => replace(box, entries.filter((entry) => all || entry.kind !== "choice").map((entry) => ledgerLine(session, entry)));
  draw();
  const made = card("Ledger", session.own ? "every decision about the context, with what else could have been done" : "what the transcript records",
    entries.length ? box : h("p", { class: "quiet" }, "Nothing was decided about the context: no compaction, no clearing."),
    session.readOnly ? h("p", { class: "sub" }, session.readOnly) : null,
    total > entries.length ? h("p", { class: "sub" }, `The newest ${whole(entries.length)} of ${whole(total)}.`) : null);
  if (choices && choices < entries.length) {
    const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
      all = !all;
      button.setAttribute("aria-pressed", String(all));
      draw();
    } }, `With ${plural(choices, "choice")} before requests`);
    made.firstChild.append(button);
  }
  return made;
}

export function ledgerLine(session, entry) {
  const next = Math.min(entry.request + 1, session.series ? session.series.total : entry.request + 1);
  const options = entry.options.length ? h("details", null, h("summary", { class: "sub" }, plural(entry.options.length, "alternative")),
    h("table", null, h("tbody", null, entry.options.map((option) => h("tr", null,
      h("td", null, option.chosen ? h("b", null, `✓ ${option.name}`) : option.name), h("td", { class: "num" }, option.tokens ? `${tokens(option.tokens)} freed` : ""),
      h("td", { class: "num" }, option.usd === null ? "" : `saves ${money(option.usd)}`), h("td", { class: "quiet" }, option.because)))))) : null;
  const cost = entry.predictedUsd === null ? "" : costLine(session, entry);
  const undo = !entry.id || session.readOnly !== "" ? null : entry.undone ? h("p", { class: "sub" }, "Undone since.") : h("p", null, undoButton(session, entry.id));
  return h("div", { class: "entry" }, h("a", { href: `#/s/${session.key}/r/${Math.max(1, next)}` }, `at ${whole(entry.request)}`),
    h("span", null, h("span", { class: "pill" }, entry.kind)),
    h("div", null, h("p", null, entry.title), h("p", { class: "sub" }, entry.detail), cost ? h("p", { class: "sub" }, cost) : null, options, undo));
}

function costLine(session, entry) {
  const { series } = session;
  if (!series?.place) return `expected to cost ${money(entry.predictedUsd)} without its answer`;
  const place = series.place.indexOf(entry.request);
  const real = place >= 0 ? `; with its answer it cost ${money(series.usd[place])}` : "";
  return `expected to cost ${money(entry.predictedUsd)} without its answer${real}`;
}

function leftCard(session) {
  const { left } = session;
  const hits = h("div", { role: "status" });
  const field = h("input", { type: "search", placeholder: "Search everything said, also what left", "aria-label": "Search the session" });
  const kinds = h("select", { "aria-label": "Among what" }, KINDS.map(([kind, label]) => h("option", { value: kind }, label)));
  const search = async (event) => {
    event?.preventDefault();
    replace(hits, h("p", { class: "sub" }, "Searching …"));
    const asked = `q=${encodeURIComponent(field.value)}&kind=${encodeURIComponent(kinds.value)}`;
    try {
      const found = await get(`/api/s/${session.key}/recall?${asked}`);
      replace(hits, found.hits.length ? found.hits.map((hit) => hitLine(session, hit)) : h("p", { class: "quiet" }, "Nothing like that was said."));
    } catch (error) {
      replace(hits, h("p", { class: "bad" }, error.message));
    }
  };
  // A fact that left is looked for as the check did: by its own words, among records of its kind.
  session.lookFor = (fact) => {
    const sought = fact.sought.join(",");
    if (![...kinds.options].some((option) => option.value === sought)) kinds.append(h("option", { value: sought }, fact.sought.join(", ").replaceAll("_", " ")));
    field.value = fact.query;
    kinds.value = sought;
    field.scrollIntoView({ block: "center" });
    return search();
  };
  const parts = left.bands.map((part) => ({ name: bandClass(session.bands, part.band), label: session.bands[part.band].label, value: part.tokens }));
  const summary = left.items ? [
    h("p", null, `${plural(left.items, "item")}, ${tokens(left.tokens)} tokens: `,
      left.reasons.map((one) => `${tokens(one.tokens)} by ${one.reason}`).join(", "), "."),
    bar(parts, "What left, by category"),
    h("ul", { class: "keys" }, parts.slice(0, 8).map((part) => h("li", null, swatch(part.name), part.label, h("b", null, tokens(part.value))))),
    h("details", null, h("summary", { class: "sub" }, `The largest ${whole(left.largest.length)}`),
      h("div", { class: "tall" }, left.largest.map((item) => itemLine(session, item, [
        h("span", { class: "of" }, item.reason), h("span", { class: "num" }, tokens(item.tokens))])))),
  ] : h("p", { class: "quiet" }, "Nothing has left yet.");
  return card("What left the context", "still in the log, and searchable", summary,
    h("form", { class: "search", role: "search", onsubmit: search }, field, kinds, h("button", { type: "submit" }, "Search")), hits);
}

function compactionsCard(session) {
  const box = h("div");
  const button = h("button", { type: "button", onclick: async () => {
    replace(box, h("p", { class: "quiet", role: "status" }, "Looking for every fact in the context and by search; a long session takes some seconds …"));
    button.disabled = true;
    try {
      const found = await get(`/api/s/${session.key}/compactions`);
      replace(box, found.compactions.map((one, place) => compactionView(session, one, place === 0)));
      button.remove();
    } catch (error) {
      replace(box, h("p", { class: "bad" }, error.message));
      button.disabled = false;
    }
  } }, "Check them");
  const made = card("Compactions", "what each kept in the context, what only a search finds, and what went, your words first", box);
  made.firstChild.append(button);
  return made;
}

function compactionView(session, one, first) {
  const lostWords = one.own ? "Gone" : "Gone, and out of reach";
  const column = (title, about, part, level) => h("div", null,
    h("h3", null, title, " ", h("span", { class: `pill ${part.total ? level : ""}` }, part.users ? `${whole(part.total)}, ${whole(part.users)} of them yours` : whole(part.total))),
    h("p", { class: "sub" }, about),
    h("div", { class: "tall" }, part.total ? part.facts.map((fact) => factLine(session, fact)) : h("p", { class: "quiet" }, "Nothing."),
      part.total > part.facts.length ? h("p", { class: "sub" }, `and ${whole(part.total - part.facts.length)} more`) : null));
  const holder = h("div");
  const summary = one.summary ? h("button", { type: "button", class: "plain", "aria-expanded": "false",
    onclick: () => toggle(session.key, one.summary, summary, holder) }, "Its summary") : null;
  const undo = one.own && session.readOnly === "" ? undoButton(session, one.id) : null;
  const reach = one.own ? "the session's own search finds them" : "sevenfold recall finds them; the tool's own model cannot";
  const count = (name, part, level) => h("span", { class: `pill ${part.total ? level : ""}` }, `${whole(part.total)} ${name}`);
  const yours = one.lost.users ? h("span", { class: "pill bad" }, `${whole(one.lost.users)} of yours gone`) : null;
  return h("details", { class: "compaction", open: first, "aria-label": `Compaction of ${stamp(one.at)}` },
    h("summary", null, h("b", null, stamp(one.at) || "Compaction"), h("span", { class: "quiet" }, `${one.trigger} · ${plural(one.hidden, "record")} left the context`),
      h("span", null, count("kept", one.kept, "good"), count("reachable", one.reachable, "warn"), count("gone", one.lost, "bad"), yours)),
    h("p", null, summary, " ", undo), holder,
    h("div", { class: "three" },
      column("Kept", "in the summary, or still in the context", one.kept, "good"),
      column("Reachable", reach, one.reachable, "warn"),
      column(lostWords, "neither in the context nor found by a search", one.lost, "bad")),
    one.leftOut ? h("p", { class: "sub" }, `${whole(one.leftOut)} more facts were not looked for.`) : null);
}

function factLine(session, fact) {
  const holder = h("div");
  const button = h("button", { type: "button", class: "plain", "aria-expanded": "false",
    onclick: () => toggle(session.key, fact.record, button, holder) }, "Open");
  const find = fact.query ? h("button", { type: "button", class: "plain find", onclick: () => session.lookFor(fact) }, "Find") : null;
  return h("div", { class: "fact", "data-record": fact.record }, h("span", { class: `pill ${fact.users ? "warn" : ""}` }, fact.kind), fact.text, " ", button, find, holder);
}

function hitLine(session, hit) {
  const holder = h("div", { class: "content" });
  const button = h("button", { type: "button", class: "plain", "aria-expanded": "false",
    onclick: () => toggle(session.key, hit.record, button, holder) }, "Open");
  return h("div", { class: "hit", "data-record": hit.record },
    h("span", { class: `pill ${hit.inContext ? "good" : "warn"}` }, hit.inContext ? "in context"
      : hit.lastRequest ? `left after request ${whole(hit.lastRequest)}` : "not in context"),
    hit.weak ? h("span", { class: "pill" }, "matches in part") : null,
    h("span", { class: "sub" }, [hit.kind, hit.tool, stamp(hit.at)].filter(Boolean).join(" · ")), button, h("p", null, hit.excerpt), holder);
}

function agentsCard(session) {
  const children = (owner) => session.agents.filter((agent) => (agent.owner || "") === owner);
  const known = new Set(session.agents.map((agent) => agent.id));
  const branch = (agent) => h("li", null, agentLine(session, agent),
    children(agent.id).length ? h("ul", { class: "tree" }, children(agent.id).map(branch)) : null);
  const roots = session.agents.filter((agent) => !agent.owner || !known.has(agent.owner));
  return card("Agents", "who did what for this session, and whether they shared its cached prefix",
    append(h("ul", { class: "tree" }), roots.map(branch)));
}

function agentLine(session, agent) {
  const facts = [agent.state, agent.model, agent.turns ? plural(agent.turns, "turn") : "", agent.usd === null ? "" : money(agent.usd),
    agent.savedUsd ? `${money(agent.savedUsd)} saved by the cache` : "",
    agent.readShare !== undefined ? `${percent(agent.readShare)} read from the cache` : "",
    agent.request ? `started after request ${whole(agent.request)}` : ""].filter(Boolean).join(" · ");
  const shared = agent.fork === null || agent.fork === undefined ? null
    : h("span", { class: "pill" }, agent.fork ? "fork: shares the prefix" : "starts afresh");
  return [h("b", null, agent.key ? h("a", { href: `#/s/${agent.key}` }, agent.name) : agent.name), " ", shared, h("div", null, agent.what),
    h("div", { class: "sub" }, facts, agent.because ? ` · ${agent.because}` : "", agent.detail ? ` · ${agent.detail}` : "")];
}

// The page of one request.

import { get, getBytes } from "./api.js";
import { bandClass } from "./charts.js";
import { bar, card, h, replace, swatch, tile } from "./dom.js";
import { bytes, money, pause, percent, plural, tokens, when, whole } from "./format.js";
import { itemLine } from "./items.js";
import { ledgerLine } from "./session.js";

const SHOWN = 12;
const CHUNK = 200000;

export async function requestPage(key, number) {
  const request = await get(`/api/s/${key}/r/${number}`);
  const session = { key, bands: request.bands, own: request.record !== null };
  const go = (other) => { if (other) location.hash = `#/s/${key}/r/${other}`; };
  const onKey = (event) => {
    if (event.target instanceof HTMLInputElement || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowLeft" || event.key === "p") go(request.previous);
    else if (event.key === "ArrowRight" || event.key === "n") go(request.next);
  };
  addEventListener("keydown", onKey);
  const exact = h("div");
  const node = h("div", null,
    h("div", { class: "crumbs" }, h("a", { href: "#/" }, "Sessions"), " / ", h("a", { href: `#/s/${key}` }, request.title)),
    h("div", { class: "head" }, h("h1", null, `Request ${whole(request.request)}`),
      h("div", { class: "steps" },
        request.previous ? h("a", { href: `#/s/${key}/r/${request.previous}` }, `← ${whole(request.previous)}`) : null,
        h("span", { class: "quiet" }, `of ${whole(request.newest)}`),
        request.next ? h("a", { href: `#/s/${key}/r/${request.next}` }, `${whole(request.next)} →`) : null)),
    h("p", { class: "about" }, [when(request.at), request.model, request.record !== null ? `record ${request.record}` : "",
      request.pause !== null ? `${pause(request.pause)} after the one before` : ""].filter(Boolean).join(" · ")),
    brokenView(request),
    h("div", { class: "tiles" },
      tile(money(request.usd), "paid"), tile(whole(request.prompt), "prompt tokens"),
      tile(request.change === null ? "–" : `${request.change < 0 ? "−" : "+"}${whole(Math.abs(request.change))}`, "since the one before"),
      tile(percent(request.prompt ? request.billed.read / request.prompt : 0), "read from the cache"),
      tile(whole(request.billed.output), "output tokens")),
    billedCard(request), madeOfCard(request),
    h("div", { class: "two" },
      changeCard(session, "Entered since the one before", request.entered, request.enteredTotal, "+"),
      changeCard(session, "Left since the one before", request.left, request.leftTotal, "−")),
    unloggedNote(request),
    request.decisions.length ? card("Decided before it was sent", "", request.decisions.map((entry) => ledgerLine(session, entry))) : null,
    exact,
    everythingCard(session, request),
    h("p", { class: "sub" }, "Keys: ← and → go to the neighbouring requests."));
  get(`/api/s/${key}/r/${number}/bytes`).then((found) => replace(exact, bytesView(key, number, found)), (error) =>
    replace(exact, h("p", { class: "bad" }, error.message)));
  return { node, title: `Request ${request.request}`, leave: () => removeEventListener("keydown", onKey) };
}

function brokenView(request) {
  const lost = request.break;
  if (!lost) return null;
  const idle = lost.idle ? ` ${pause(lost.idle)} had passed since the one before.` : "";
  return h("div", { class: "finding bad-edge" }, h("p", null,
    h("b", null, `The cache broke here: ${whole(lost.tokens)} tokens were paid again, ${money(lost.usd)}.`), ` Cause: ${lost.words}.${idle}`));
}

function billedCard(request) {
  const { billed, prices } = request;
  const kinds = [["read", "read from the cache"], ["written", "written to the cache"], ["fresh", "not cached"]];
  const parts = kinds.map(([name, label]) => ({ name, label, value: billed[name] }));
  const price = (name, count) => (prices ? `, ${money((count * prices[name]) / 1e6)}` : "");
  return card("How it was billed", "as the provider reported it", bar(parts, "How the prompt was billed"),
    h("ul", { class: "keys" }, parts.filter((part) => part.value).map((part) => h("li", null, swatch(part.name), part.label,
      h("b", null, tokens(part.value)), `${percent(part.value / request.prompt)}${price(part.name, part.value)}`)),
    h("li", null, swatch("out"), "answer", h("b", null, tokens(billed.output)), price("output", billed.output).slice(2))));
}

function madeOfCard(request) {
  const parts = request.sums.map((value, place) => ({ name: bandClass(request.bands, place), label: request.bands[place].label, value }));
  return card("What it was made of", "sizes fitted to the reported prompt", bar(parts, "What the prompt was made of"),
    h("ul", { class: "keys" }, parts.filter((part) => Math.round(part.value) > 0).map((part) => h("li", null, swatch(part.name), part.label,
      h("b", null, tokens(part.value)), percent(part.value / request.prompt)))));
}

function folded(lines, most, more) {
  if (lines.length <= most) return lines;
  const rest = h("div");
  const button = h("button", { type: "button", class: "plain", onclick: () => { replace(rest, lines.slice(most)); button.remove(); } },
    `Show ${whole(lines.length - most)} more${more}`);
  return [lines.slice(0, most), rest, button];
}

function changeCard(session, title, items, total, sign) {
  const lines = items.map((item) => itemLine(session, item, [h("span", { class: "of" }, item.reason ?? item.category),
    h("span", { class: "num" }, `${sign}${whole(item.tokens)}`)]));
  return card(title, plural(total, "item"), lines.length ? folded(lines, SHOWN, "") : h("p", { class: "quiet" }, "Nothing."),
    total > items.length ? h("p", { class: "sub" }, `The largest ${whole(items.length)} of ${whole(total)}.`) : null);
}

function unloggedNote(request) {
  if (Math.abs(request.unlogged) < 50) return null;
  const words = request.unlogged > 0 ? `${whole(request.unlogged)} tokens entered` : `${whole(-request.unlogged)} tokens left`;
  return h("p", { class: "quiet" }, `${words} that the transcript does not record.`);
}

function everythingCard(session, request) {
  const lines = request.items.map((item) => itemLine(session, item, [h("span", { class: "of" }, item.category), h("span", { class: "num" }, whole(item.tokens))]));
  return card("Everything in it", `${plural(request.itemsTotal, "item")}, the largest first; open one to read it`, folded(lines, 2 * SHOWN, ""),
    request.itemsTotal > request.items.length ? h("p", { class: "sub" }, `The largest ${whole(request.items.length)} of ${whole(request.itemsTotal)}.`) : null);
}

// -- exact bytes --------------------------------------------------------------------------------

function bytesView(key, number, found) {
  if (found.relayed) return relayedCard(found);
  if (!found.known) return card("Exact bytes", "", h("p", { class: "quiet" }, found.why));
  return [comparisonCard(found), bodyCard(key, number, found)];
}

// A request of a program that the gateway watched.
function relayedCard({ relayed, why }) {
  const grown = relayed.before === null ? "" : `, ${whole(Math.abs(relayed.size - relayed.before))} ${relayed.size < relayed.before ? "fewer" : "more"} than the one before`;
  const differs = relayed.before === null ? "This is the first request."
    : relayed.same ? "It is the one before, to the byte."
    : relayed.parts.length ? h("b", { class: "bad" }, `${relayed.parts.join(", ")} differ${relayed.parts.length === 1 ? "s" : ""} from the one before: the cache breaks at the first of them`)
    : h("b", { class: "good" }, "It extends the one before: everything that was cached can be read.");
  return card("Difference to the request before", "as the gateway saw it", h("p", null, differs),
    h("p", { class: "sub" }, `${whole(relayed.size)} bytes${grown}`, relayed.client ? ` · sent by ${relayed.client}` : "",
      relayed.milliseconds === null ? "" : ` · first byte of the answer after ${whole(relayed.milliseconds)} ms`),
    relayed.parts.length ? h("p", null, `Changed by ${relayed.client || "the program that was watched"}.`) : null,
    h("p", { class: "sub" }, "SHA-256 ", h("span", { class: "code", id: "sha" }, relayed.sha256)), h("p", { class: "quiet" }, why));
}

function comparisonCard(found) {
  const { comparison } = found;
  if (!comparison) return card("Difference to the request before", "", h("p", { class: "quiet" }, "This is the first request."));
  if (!comparison.known) return card("Difference to the request before", "", h("p", { class: "quiet" }, comparison.why));
  const fresh = found.size - comparison.same;
  const first = `The first ${whole(comparison.same)} of ${whole(comparison.before)} bytes are the same, then ${whole(fresh)} are new.`;
  if (!comparison.breaks) {
    return card("Difference to the request before", "", h("p", null, h("b", { class: "good" }, "It extends the one before: "),
      `everything that was cached can be read. ${first}`));
  }
  const price = comparison.usd === null ? "" : `, about ${money(comparison.usd)}`;
  return card("Difference to the request before", "",
    h("p", null, h("b", { class: "bad" }, `${comparison.part} differs: the cache breaks there`), ` · about ${whole(comparison.tokens)} tokens${price} · ${first}`),
    comparison.who ? h("p", null, `Changed by ${comparison.who}.`) : h("p", { class: "quiet" }, "Who changed it is not on record."),
    comparison.also.length ? h("p", { class: "quiet" }, `Also different: ${comparison.also.join(", ")}`) : null,
    comparison.diff.length ? diffView(comparison) : null);
}

function diffView(comparison) {
  const kind = (line) => (line.startsWith("@@") || line.startsWith("---") || line.startsWith("+++") ? "at" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "same");
  return h("pre", { tabindex: "0", class: "diff" }, comparison.diff.map((line) => h("span", { class: kind(line) }, line || " ")),
    comparison.diffLines > comparison.diff.length ? h("span", { class: "at" }, `… ${whole(comparison.diffLines - comparison.diff.length)} more lines`) : null);
}

function bodyCard(key, number, found) {
  const levels = { tools: "tools", system: "systempart", messages: "messages" };
  const label = (part) => `${part.level} ${part.index + 1}${part.role ? `, ${part.role}` : ""}${part.markers ? `, ${plural(part.markers, "cache marker")}` : ""}`;
  const parts = found.parts.map((part) => ({ name: levels[part.level], label: label(part), value: part.bytes }));
  const sums = Object.keys(levels).map((level) => {
    const own = found.parts.filter((part) => part.level === level);
    return [level, own.length, own.reduce((sum, part) => sum + part.bytes, 0)];
  });
  const marked = found.parts.filter((part) => part.markers);
  const text = h("div");
  const button = h("button", { type: "button", onclick: () => showBody(key, number, button, text) }, "Show the bytes");
  const real = found.promptUsd === null || found.predictedUsd === null ? null
    : h("p", { class: "sub" }, `Before it was sent, its prompt was expected to cost ${money(found.predictedUsd)}; it cost ${money(found.promptUsd)}.`);
  const made = card("Exact bytes", `${bytes(found.size)}, rebuilt from the record and checked against the hash it had when it was sent`,
    bar(parts, "The parts of the request, in order"),
    h("ul", { class: "keys" }, sums.map(([level, count, size]) => h("li", null, swatch(levels[level]), level, h("b", null, bytes(size)), plural(count, "part")))),
    h("p", { class: "sub" }, marked.length ? `⚑ ${plural(marked.reduce((sum, part) => sum + part.markers, 0), "cache marker")}: behind ${marked.map((part) => `${part.level} ${part.index + 1}`).join(", ")}` : "No cache markers."),
    real, h("p", { class: "sub" }, "On the wire, a client that streams adds the field stream; it is not part of what is cached."),
    h("p", { class: "sub" }, "SHA-256 ", h("span", { class: "code", id: "sha" }, found.sha256)), text);
  made.firstChild.append(button);
  return made;
}

async function showBody(key, number, button, holder) {
  if (holder.firstChild) { replace(holder); button.textContent = "Show the bytes"; return; }
  try {
    const { body, masked } = await getBytes(`/api/s/${key}/r/${number}/body`);
    const text = new TextDecoder().decode(body);
    const pre = h("pre", { tabindex: "0", id: "body" }, text.slice(0, CHUNK));
    const more = text.length > CHUNK ? h("button", { type: "button", onclick: () => { pre.append(document.createTextNode(text.slice(CHUNK))); more.remove(); } },
      `Show the other ${whole(text.length - CHUNK)} characters`) : null;
    replace(holder, masked ? h("p", { class: "bad" }, `${plural(masked, "secret")} in it ${masked === 1 ? "is" : "are"} masked here.`) : null, pre, more);
    button.textContent = "Hide the bytes";
  } catch (error) {
    replace(holder, h("p", { class: "bad" }, error.message));
  }
}

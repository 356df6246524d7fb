// Pieces of content in lists: each opens to its text and its life in the context.

import { get } from "./api.js";
import { append, h, replace, swatch } from "./dom.js";
import { bandClass } from "./charts.js";
import { money, plural, stamp, tokens, whole } from "./format.js";

export function itemLine(session, item, columns, wide) {
  const holder = h("div", { class: "content" });
  const name = item.record
    ? h("button", { type: "button", class: "what", "aria-expanded": "false", title: item.what,
      onclick: () => toggle(session.key, item.record, name, holder) }, item.what)
    : h("span", { class: "what", title: item.what }, item.what);
  return h("div", { class: wide ? "item wide" : "item" }, swatch(bandClass(session.bands, item.band)), name, columns, holder);
}

export async function toggle(key, record, button, holder) {
  if (holder.firstChild) {
    replace(holder);
    button.setAttribute("aria-expanded", "false");
    return;
  }
  button.setAttribute("aria-expanded", "true");
  replace(holder, h("p", { class: "sub" }, "Reading …"));
  const id = encodeURIComponent(record);
  try {
    const content = await get(`/api/s/${key}/record?id=${id}`);
    const life = await get(`/api/s/${key}/item?id=${id}`).catch(() => null);
    replace(holder, lifeView(key, life), contentView(content));
  } catch (error) {
    replace(holder, h("p", { class: "bad" }, error.message));
  }
}

export function contentView(content) {
  const speakers = { user: "you", model: content.model || "the model", tool: "a tool", note: "a program", summary: "a summary" };
  return [
    h("p", { class: "sub" }, `From ${speakers[content.speaker]}`, content.at ? ` · ${stamp(content.at)}` : ""),
    content.blocks.map((block) => [
      content.blocks.length > 1 || block.cut ? h("p", { class: "sub" }, `${block.kind}, ${plural(block.characters, "character")}`,
        block.cut ? `; the last ${whole(block.cut)} are not shown` : "") : null,
      h("pre", { tabindex: "0" }, block.text || "(empty)"),
    ]),
  ];
}

function lifeView(key, life) {
  if (!life) return null;
  const link = (number) => h("a", { href: `#/s/${key}/r/${number}` }, whole(number));
  return append(h("div", null), [life.stays.map((stay) => h("p", { class: "sub" },
    `${tokens(stay.tokens)} tokens: entered with request `, link(stay.entered),
    stay.left === null ? ", still in the context" : [", last in request ", link(stay.left), ` (${stay.reason})`],
    `; carried by ${plural(stay.prompts, "prompt")}`, stay.usd === null ? "" : `, ${money(stay.usd)} of their cost`,
    life.stored ? "; the whole of it is on disk, a preview was sent" : "")),
    life.recalled.length ? h("p", { class: "sub" }, "Recalled by a search before request ", life.recalled.map((number, place) => [place ? ", " : "", link(number)])) : null]);
}

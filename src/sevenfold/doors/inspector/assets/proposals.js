// What a gateway that asks would do in this session, with the buttons that decide it.

import { get } from "./api.js";
import { card, h, replace } from "./dom.js";
import { orderButton } from "./orders.js";

const LOOK_MS = 2000;

export function proposalsCard(session) {
  const list = h("div", null);
  const box = h("div", { hidden: "" }, card("Waiting for your decision", "until then, the program's own requests are sent", list));
  let drawn = "";
  const draw = (proposals) => {
    // Drawn anew only when something else waits: a question that is being answered stays.
    const ids = proposals.map((proposal) => proposal.id).join(" ");
    box.toggleAttribute("hidden", !proposals.length && !drawn);
    if (ids === drawn || !proposals.length) return;
    drawn = ids;
    replace(list, proposals.map((proposal) => proposalLine(session, proposal)));
  };
  const look = async () => {
    try {
      draw((await get(`/api/s/${session.key}/proposals`)).proposals);
    } catch {
      // The page says elsewhere that its server is gone.
    }
  };
  // A session that a gateway records holds another program's messages, but the file is our own.
  const clock = session.readOnly === "" ? setInterval(look, LOOK_MS) : 0;
  if (clock) look();
  return { card: box, stop: () => clearInterval(clock) };
}

function proposalLine(session, proposal) {
  const path = (verb) => `/api/s/${session.key}/${verb}`;
  return h("div", null, h("p", null, h("span", { class: "pill" }, proposal.layer), " ", proposal.text),
    h("p", null, orderButton("Agree", "It happens with the program's next request, and can be undone.", path("agree"), { target: proposal.id }), " ",
      orderButton("Decline", "It is proposed again when the conversation has grown.", path("decline"), { target: proposal.id })));
}

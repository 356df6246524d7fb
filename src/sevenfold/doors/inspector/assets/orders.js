// Buttons that have something done: the first click says what, the second one does it.

import { post } from "./api.js";
import { append, h, replace } from "./dom.js";

export function orderButton(label, consequence, path, body, done) {
  const box = h("span", { class: "order", role: "group", "aria-label": label });
  const offer = () => {
    const button = h("button", { type: "button", class: "plain", onclick: ask }, label);
    replace(box, button);
    return button;
  };
  const ask = () => {
    const yes = h("button", { type: "button", class: "danger", onclick: act }, `${label} now`);
    replace(box, h("span", { class: "sub" }, consequence, " "), yes, " ",
      h("button", { type: "button", class: "plain", onclick: () => offer().focus() }, "Leave it"));
    yes.focus();
  };
  const act = async () => {
    replace(box, h("span", { class: "sub", role: "status" }, "Waiting for its owner …"));
    try {
      const answer = await post(path, body);
      replace(box, h("span", { class: answer.done ? "good-text" : "bad", role: "status" }, answer.text));
      if (answer.done) done?.();
    } catch (error) {
      const again = offer();
      append(box, [" ", h("span", { class: "bad", role: "alert" }, error.message)]);
      again.focus();
    }
  };
  offer();
  return box;
}

export function undoButton(session, id) {
  return orderButton("Undo", "What it took out goes back into the context, and the next prompt is written to the cache anew.",
    `/api/s/${session.key}/undo`, { target: id }, () => setTimeout(() => dispatchEvent(new Event("reload-page")), 1200));
}

// Builds the page from elements and text nodes alone: nothing of a session is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren();
  return append(node, children);
}

// Makes these the children of a node, in this order, touching only what is elsewhere.
export function arrange(node, children) {
  children.forEach((child, place) => {
    const there = node.children[place];
    if (there !== child) node.insertBefore(child, there ?? null);
  });
  while (node.children.length > children.length) node.lastElementChild.remove();
}

export function card(title, about, ...children) {
  const header = h("header", null, h("h2", null, title), h("span", { class: "quiet" }, about ?? ""));
  return h("section", { class: "card", "aria-label": title }, header, ...children);
}

export function tile(value, label, kind) {
  return h("div", { class: "tile" }, h("b", { class: kind ?? null }, value), h("span", null, label));
}

export function swatch(name) {
  return h("span", { class: `swatch b-${name}`, "aria-hidden": "true" });
}

export function speak(text) {
  document.getElementById("spoken").textContent = text;
}

// A bar whose parts are as wide as their numbers; a list beside it says the same.
export function bar(parts, label) {
  const whole = parts.reduce((sum, part) => sum + Math.max(0, part.value), 0) || 1;
  let left = 0;
  const rects = parts.filter((part) => part.value > 0).map((part) => {
    const width = (part.value / whole) * 1000;
    const rect = svg("rect", { x: left, y: 0, width: Math.max(width - 1.2, 0.6), height: 20, class: `b-${part.name}` },
      svg("title", null, `${part.label}: ${Math.round(part.value).toLocaleString("en")}`));
    left += width;
    return rect;
  });
  return svg("svg", { class: "bar", viewBox: "0 0 1000 20", preserveAspectRatio: "none", role: "img", "aria-label": label },
    ...rects);
}

// The charts of a session: what filled the context, and below it, with the same scale, how it was billed.

import { append, h, replace, speak, svg, swatch } from "./dom.js";
import { money, percent, tokens, when, whole } from "./format.js";

const uPlot = globalThis.uPlot;
const TAILED = 3000;
const DASHES = { recorded: [], hour: [6, 4], uncached: [2, 3], nothing: [], "claude-code": [2, 3], ours: [6, 4] };

export function bandClass(bands, place) {
  const name = bands[place].name;
  const results = bands.filter((band) => band.name.startsWith("tool_result:"));
  const result = results.indexOf(bands[place]);
  return result >= 0 ? `result${result}` : name;
}

function colour(name) {
  const probe = h("span", { class: `swatch b-${name}` });
  document.body.append(probe);
  const value = getComputedStyle(probe).backgroundColor;
  probe.remove();
  return value;
}

function variable(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Columns of uPlot: x, then running sums from the top band down, so that every band is painted over the one above it.
function stacked(columns, x) {
  const sums = [];
  let below = new Array(x.length).fill(0);
  for (const column of columns) {
    below = column.map((value, place) => below[place] + value);
    sums.push(below);
  }
  return [x, ...sums.reverse()];
}

export class SessionCharts {
  constructor(session, fetchSeries, open) {
    this.session = session;
    this.series = session.series;
    this.fetchSeries = fetchSeries;
    this.open = open;
    this.place = this.series.request.length - 1;
    this.zoomed = null;
    this.context = h("div", { class: "chart", tabindex: "0", role: "application", id: "context-chart",
      "aria-label": "Context by category at each request. Left and right move, Enter opens the request, Escape shows all." });
    this.billing = h("div", { class: "chart", id: "billing-chart", "aria-hidden": "true" });
    this.readout = h("div", { class: "readout" });
    this.keys = h("ul", { class: "keys" });
    this.lines = h("div", { class: "lines" });
    this.compared = null;
    this.node = h("div", null, this.context,
      h("div", { class: "symbols" }, h("span", null, "▼ compaction"), h("span", null, "● clearing or unexplained drop"),
        h("span", null, "■ result moved out")),
      this.lines, this.readout, this.keys);
    this.billingNode = h("div", null, this.billing, h("ul", { class: "keys" },
      [["read", "read from the cache"], ["written", "written to the cache"], ["fresh", "not cached"]].map(([name, label]) =>
        h("li", null, swatch(name), label)), h("li", null, h("span", { class: "bad" }, "▼"), "cache break")));
    this.context.addEventListener("keydown", (event) => this.onKey(event));
    this.onTheme = () => this.build();
    this.onResize = new ResizeObserver(() => this.resize());
  }

  start() {
    document.addEventListener("theme", this.onTheme);
    this.onResize.observe(this.context);
    this.build();
  }

  stop() {
    document.removeEventListener("theme", this.onTheme);
    this.onResize.disconnect();
    this.upper?.destroy();
    this.lower?.destroy();
  }

  width() {
    return Math.max(this.context.clientWidth, 200);
  }

  resize() {
    const width = this.width();
    if (!this.upper || Math.abs(this.upper.width - width) < 1) return;
    this.upper.setSize({ width, height: this.upper.height });
    this.lower.setSize({ width, height: this.lower.height });
  }

  build() {
    this.upper?.destroy();
    this.lower?.destroy();
    const { bands } = this.session;
    const names = bands.map((_, place) => bandClass(bands, place)).reverse();
    this.upper = this.chart(this.context, this.stackData(), names, 300, (u) => this.drawMarks(u), true);
    this.lower = this.chart(this.billing, this.billData(), ["fresh", "written", "read"], 165, (u) => this.drawBreaks(u), false);
    this.context.uplot = this.upper;
    this.billing.uplot = this.lower;
    if (this.zoomed) this.zoom(...this.zoomed);
    this.show(this.place, false);
  }

  stackData() {
    return stacked(this.series.stack, this.series.request);
  }

  billData() {
    const { read, written, fresh, request } = this.series;
    return stacked([read, written, fresh], request);
  }

  chart(holder, data, names, height, draw, isUpper) {
    const paths = uPlot.paths.stepped({ align: -1, extend: true });
    const grid = { stroke: variable("--line"), width: 1 };
    const axis = { stroke: variable("--quiet"), grid, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const narrow = this.width() < 520;
    const options = {
      width: this.width(), height: narrow ? height * 0.8 : height, legend: { show: false }, padding: [isUpper ? 18 : 16, 8, 0, 0],
      scales: { x: { time: false, range: (u, low, high) => [Math.max(0, low - (low <= 1 ? 1 : 0)), Math.max(high, low + 1)] },
        y: { range: (u, low, high) => [0, Math.max(high * 1.06, isUpper ? this.largestCompared() * 1.06 : 0, 10)] } },
      axes: [
        { ...axis, size: 26, grid: { show: false }, values: (u, ticks) => ticks.map((tick) => (Number.isInteger(tick) && tick > 0 ? whole(tick) : "")) },
        { ...axis, size: narrow ? 42 : 52, values: (u, ticks) => ticks.map((tick) => (tick ? tokens(tick) : "0")), space: isUpper ? 42 : 32 },
      ],
      series: [{}, ...names.map((name) => ({ stroke: colour(name), fill: colour(name), width: 0.5, paths, points: { show: false } }))],
      cursor: { sync: { key: "session" }, drag: { x: true, y: false, uni: 12 }, points: { show: false }, y: false,
        dataIdx: (u, column, index, x) => barAt(u.data[0], x) },
      hooks: {
        draw: [draw],
        setCursor: [(u) => { if (isUpper && u.cursor.left >= 0) this.show(barAt(u.data[0], u.posToVal(u.cursor.left, "x")), false); }],
        setSelect: [(u) => this.selected(u)],
      },
    };
    replace(holder);
    const made = new uPlot(options, data, holder);
    made.over.addEventListener("dblclick", () => this.reset());
    let pressed = null;
    made.over.addEventListener("mousedown", (event) => { pressed = event.clientX; });
    made.over.addEventListener("click", (event) => {
      if (pressed === null || Math.abs(event.clientX - pressed) > 3) return;
      const x = made.posToVal(event.clientX - made.over.getBoundingClientRect().left, "x");
      this.open(this.series.request[barAt(made.data[0], x)]);
    });
    return made;
  }

  selected(u) {
    if (u.select.width < 8) return;
    const low = Math.max(1, Math.floor(u.posToVal(u.select.left, "x")));
    const high = Math.ceil(u.posToVal(u.select.left + u.select.width, "x"));
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.zoom(low, high);
    if (this.series.bucketed || this.part) this.load(low, high);
  }

  zoom(low, high) {
    this.zoomed = [low, high];
    for (const chart of [this.upper, this.lower]) chart.setScale("x", { min: low, max: high });
  }

  reset() {
    this.zoomed = null;
    if (this.part) { this.part = false; this.load(); return; }
    for (const chart of [this.upper, this.lower]) chart.setData(chart.data, true);
  }

  async load(low, high) {
    const series = await this.fetchSeries(low ? low - 1 : 0, high ?? null);
    this.part = Boolean(low);
    this.series = series;
    this.place = series.request.length - 1;
    this.redraw();
  }

  redraw() {
    const keep = this.zoomed;
    this.upper.setData(this.stackData(), !keep);
    this.lower.setData(this.billData(), !keep);
    if (keep) this.zoom(...keep);
    this.show(Math.min(this.place, this.series.request.length - 1), false);
  }

  // New requests: the first may be the newest one of before, with a newer report. Behind the points of a long session,
  // each the largest of its neighbours, they are points of their own, until there are so many that all are drawn anew.
  add(series) {
    if (this.part) return;
    if (series.bucketed || (this.series.bucketed && this.series.request.length > TAILED)) { this.reloadLater(); return; }
    const following = this.place >= this.series.request.length - 1;
    const from = series.request[0];
    let keep = this.series.request.length;
    while (keep > 0 && this.series.request[keep - 1] >= from) keep -= 1;
    for (const name of ["place", "request", "at", "prompt", "read", "written", "fresh", "output", "usd"]) {
      this.series[name].splice(keep, Infinity, ...series[name]);
    }
    this.series.stack.forEach((column, place) => column.splice(keep, Infinity, ...series.stack[place]));
    if (following) this.place = this.series.request.length - 1;
    this.redraw();
  }

  reloadLater() {
    if (this.waiting) return;
    this.waiting = setTimeout(() => { this.waiting = null; this.load(); }, 1000);
  }

  onKey(event) {
    const last = this.series.request.length - 1;
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
    if (event.key in steps) this.show(Math.min(Math.max(this.place + steps[event.key], 0), last), true);
    else if (event.key === "Home") this.show(0, true);
    else if (event.key === "End") this.show(last, true);
    else if (event.key === "b") this.show(this.nextBreak(), true);
    else if (event.key === "Enter" && last >= 0) this.open(this.series.request[this.place]);
    else if (event.key === "Escape") this.reset();
    else return;
    event.preventDefault();
  }

  nextBreak() {
    const numbers = this.session.breaks.map((lost) => lost.request).sort((a, b) => a - b);
    const here = this.series.request[this.place];
    const next = numbers.find((number) => number > here) ?? numbers[0];
    const place = this.series.request.findIndex((number) => number >= next);
    return place < 0 ? this.place : place;
  }

  show(place, spoken) {
    this.place = place;
    const { series, session } = this;
    if (place < 0 || place >= series.request.length) return;
    const prompt = series.prompt[place];
    const lost = session.breaks.find((one) => one.request === series.request[place] && !one.lane);
    const share = prompt ? series.read[place] / prompt : 0;
    const about = [`${whole(prompt)} tokens`, `${percent(share)} read from the cache`, money(series.usd[place]), when(series.at[place])];
    replace(this.readout, h("b", null, `Request ${whole(series.request[place])}`), ` · ${about.filter(Boolean).join(" · ")}`,
      lost ? h("span", { class: "bad" }, ` · cache broke: ${lost.words}, ${money(lost.usd)}`) : null);
    const present = session.bands.map((band, index) => [band, index, series.stack[index][place]]);
    replace(this.keys, present.filter(([, index]) => series.stack[index].some((size) => Math.round(size) !== 0)).map(([band, index, size]) =>
      h("li", null, swatch(bandClass(session.bands, index)), band.label, h("b", null, tokens(size)))));
    if (spoken) {
      const left = this.upper.valToPos(series.request[place] - 0.5, "x");
      this.upper.setCursor({ left, top: 10 }, false);
      this.lower.setCursor({ left, top: 10 }, false);
      const largest = present.reduce((best, one) => (one[2] > best[2] ? one : best));
      speak(`Request ${series.request[place]}: ${whole(prompt)} tokens, most ${largest[0].label}; ${percent(share)} from the cache${lost ? `; cache broke because of ${lost.words}` : ""}`);
    }
  }

  drawMarks(u) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    const compactions = this.session.marks.filter((mark) => mark.kind === "compaction");
    ctx.save();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    let free = bbox.left;
    const { window } = this.session.head;
    if (window) this.drawWindow(u, window, ratio);
    ctx.beginPath();
    ctx.save();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    this.drawCompared(u, ratio);
    ctx.restore();
    for (const mark of this.session.marks) {
      const x = u.valToPos(mark.request, "x", true);
      if (x < bbox.left - 1 || x > bbox.left + bbox.width) continue;
      ctx.fillStyle = variable("--text");
      ctx.strokeStyle = variable("--text");
      if (mark.kind === "compaction") {
        ctx.globalAlpha = 0.55;
        line(ctx, x, bbox.top, x, bbox.top + bbox.height, ratio);
        ctx.globalAlpha = 1;
        triangle(ctx, x, bbox.top - 3 * ratio, 5 * ratio);
        const words = mark.after === null ? "compacted" : `${tokens(mark.before)} → ${tokens(mark.after)}`;
        const width = ctx.measureText(words).width;
        const following = compactions[compactions.indexOf(mark) + 1];
        const end = following ? u.valToPos(following.request, "x", true) - 8 * ratio : bbox.left + bbox.width;
        if (x + 8 * ratio >= free && x + width + 10 * ratio < end && compactions.length < 40) {
          ctx.fillText(words, x + 8 * ratio, bbox.top - 8 * ratio);
          free = x + width + 16 * ratio;
        }
      } else if (mark.kind === "offload") {
        ctx.fillStyle = variable("--quiet");
        ctx.fillRect(x - 2.5 * ratio, bbox.top + bbox.height - 7 * ratio, 5 * ratio, 5 * ratio);
      } else {
        ctx.beginPath();
        ctx.arc(x, bbox.top + 5 * ratio, 3.5 * ratio, 0, 7);
        ctx.fill();
      }
    }
    ctx.restore();
  }

  // The same session under other policies: a line for each over the bands of what was sent.
  compareWith(found) {
    this.compared = found;
    replace(this.lines, h("span", null, "Prompts under other policies, replayed:"), found.curves.map((curve) => h("span", null,
      svg("svg", { viewBox: "0 0 30 10", "aria-hidden": "true" }, svg("line", { x1: 0, y1: 5, x2: 30, y2: 5, "stroke-width": 2.5,
        class: `l-${curve.name}`, "stroke-dasharray": DASHES[curve.name].join(" ") })), " ", curve.label)));
    this.build();
  }

  largestCompared() {
    return this.compared ? Math.max(...this.compared.curves.flatMap((curve) => curve.tokens.map((size) => size ?? 0))) : 0;
  }

  drawCompared(u, ratio) {
    const { ctx } = u;
    for (const curve of this.compared?.curves ?? []) {
      ctx.beginPath();
      curve.tokens.forEach((size, place) => {
        if (size === null) return;
        ctx.lineTo(u.valToPos(this.compared.request[place], "x", true), u.valToPos(size, "y", true));
      });
      ctx.setLineDash(DASHES[curve.name].map((length) => length * ratio));
      ctx.strokeStyle = variable("--card");
      ctx.lineWidth = 4 * ratio;
      ctx.stroke();
      ctx.strokeStyle = colour(curve.name);
      ctx.lineWidth = 2 * ratio;
      ctx.stroke();
    }
    ctx.setLineDash([]);
  }

  drawWindow(u, window, ratio) {
    const { ctx, bbox } = u;
    const y = u.valToPos(window, "y", true);
    if (y < bbox.top) return;
    ctx.strokeStyle = variable("--bad");
    ctx.setLineDash([5 * ratio, 4 * ratio]);
    line(ctx, bbox.left, y, bbox.left + bbox.width, y, ratio);
    ctx.setLineDash([]);
    ctx.fillStyle = variable("--bad");
    ctx.fillText(`window ${tokens(window)}`, bbox.left + 6 * ratio, y + 9 * ratio);
  }

  drawBreaks(u) {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    for (const lost of this.session.breaks) {
      if (lost.lane) continue;
      const x = u.valToPos(lost.request, "x", true);
      if (x < bbox.left - 1 || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = variable("--bad");
      ctx.fillStyle = variable("--bad");
      ctx.globalAlpha = 0.4;
      line(ctx, x, bbox.top, x, bbox.top + bbox.height, ratio);
      ctx.globalAlpha = 1;
      triangle(ctx, x, bbox.top - 2 * ratio, 5 * ratio);
    }
    ctx.restore();
  }

  // The same figures as a table, for those who do not see the chart or want the numbers.
  table(first, count) {
    const { series, session } = this;
    const shown = session.bands.map((_, index) => index).filter((index) => series.stack[index].some((size) => Math.round(size) !== 0));
    const head = h("tr", null, h("th", { class: "num" }, "Request"), h("th", { class: "num" }, "Prompt"),
      shown.map((index) => h("th", { class: "num" }, session.bands[index].label)), h("th", { class: "num" }, "Read"),
      h("th", { class: "num" }, "Written"), h("th", { class: "num" }, "Not cached"), h("th", { class: "num" }, "Cost"));
    const rows = [];
    for (let place = first; place < Math.min(first + count, series.request.length); place += 1) {
      rows.push(h("tr", null, h("td", { class: "num" }, h("a", { href: `#/s/${session.key}/r/${series.request[place]}` }, whole(series.request[place]))),
        h("td", { class: "num" }, whole(series.prompt[place])), shown.map((index) => h("td", { class: "num" }, whole(series.stack[index][place]))),
        h("td", { class: "num" }, whole(series.read[place])), h("td", { class: "num" }, whole(series.written[place])),
        h("td", { class: "num" }, whole(series.fresh[place])), h("td", { class: "num" }, money(series.usd[place]))));
    }
    return h("table", null, h("thead", null, head), append(h("tbody"), rows));
  }
}

// A request's bar ends at its number: the bar under the pointer is the first that ends behind it.
function barAt(numbers, x) {
  let low = 0;
  let high = numbers.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] >= x) high = middle;
    else low = middle + 1;
  }
  return low;
}

// What the session would have cost otherwise: a line for each way.
export class CostChart {
  constructor(found, label) {
    this.found = found;
    this.node = h("div", { class: "chart", role: "img", "aria-label": label });
    this.onTheme = () => this.build();
    this.onResize = new ResizeObserver(() => this.build());
  }

  start() {
    document.addEventListener("theme", this.onTheme);
    this.onResize.observe(this.node);
  }

  stop() {
    document.removeEventListener("theme", this.onTheme);
    this.onResize.disconnect();
    this.made?.destroy();
  }

  build() {
    const width = this.node.clientWidth;
    if (width < 50) return;
    this.made?.destroy();
    const grid = { stroke: variable("--line"), width: 1 };
    const axis = { stroke: variable("--quiet"), grid, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    replace(this.node);
    this.made = new uPlot({
      width, height: 190, legend: { show: false }, scales: { x: { time: false }, y: { range: (u, low, high) => [0, Math.max(high * 1.06, 0.0001)] } },
      cursor: { points: { show: false }, y: false, drag: { x: false, y: false } },
      axes: [{ ...axis, size: 26, grid: { show: false } }, { ...axis, size: 64, values: (u, ticks) => ticks.map((tick) => money(tick)) }],
      series: [{}, ...this.found.curves.map((curve) => ({ stroke: colour(curve.name), width: 2, dash: DASHES[curve.name], points: { show: false } }))],
    }, [this.found.request, ...this.found.curves.map((curve) => curve.usd)], this.node);
    this.node.uplot = this.made;
  }
}

function line(ctx, x1, y1, x2, y2, ratio) {
  ctx.lineWidth = ratio;
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}

function triangle(ctx, x, y, size) {
  ctx.beginPath();
  ctx.moveTo(x, y + size);
  ctx.lineTo(x - size, y - size * 0.6);
  ctx.lineTo(x + size, y - size * 0.6);
  ctx.fill();
}

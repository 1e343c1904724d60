// Charts in the style of the report: the same classes, the same colours, drawn at the width that
// there is so that letters keep their size.

import { h, hideTip, s, showTip } from "./dom.js";
import { duration, exactMoment, tickMoment } from "./format.js";

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
const px = (value) => Number(value.toFixed(1));

export const width = (most = Infinity) => Math.max(280, Math.min(most, document.getElementById("content").clientWidth - (innerWidth <= 620 ? 46 : 98)));

/** Times that read well, at most so many. */
export function timeTicks(low, high, most) {
  const step = STEPS.find((size) => (high - low) / size <= most) ?? STEPS.at(-1) * Math.ceil((high - low) / STEPS.at(-1) / most);
  const zone = step >= 3600 ? new Date(low * 1000).getTimezoneOffset() * 60 : 0;
  const ticks = [];
  for (let at = Math.ceil((low - zone) / step) * step + zone; at <= high; at += step) ticks.push(at);
  return ticks;
}

/** A few round numbers from `low` to `high`, `least` apart or more. */
export function roundTicks(low, high, most = 4, least = 0) {
  const span = Math.max(high - low, 1e-9);
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = Math.max(power * ([1, 2, 5].find((lead) => span / (power * lead) <= most) ?? 10), least);
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-6); at * step <= high + step * 1e-6; at++) ticks.push(Number((at * step).toPrecision(9)));
  return ticks;
}

export function ratioTicks(low, high) {
  const every = [];
  for (let power = -3; power <= 6; power++) for (const lead of [1, 2, 5]) every.push(lead * 10 ** power);
  return every.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

/**
 * A plot area: `x` and `y` are {low, high, ticks, text, label, log}. Returns the scales, the parts
 * to draw into, and `svg(label)` to make the picture of them.
 */
export function canvas({ x, y, wide = width(), high = 180, left = 46, right = 10, top = 10, bottom = 26, grid = "y" }) {
  const part = (axis, value) => axis.log
    ? Math.log(Math.max(value, axis.low) / axis.low) / Math.log(axis.high / axis.low)
    : (value - axis.low) / (axis.high - axis.low || 1);
  const at = {
    wide, high, left, top, parts: [],
    right: wide - right,
    bottom: high - bottom - (x.label ? 18 : 0),
    x: (value) => px(left + part(x, value) * (at.right - left)),
    y: (value) => px(at.bottom - part(y, value) * (at.bottom - top)),
    back: (pixels) => {
      const share = Math.min(Math.max((pixels - left) / (at.right - left), 0), 1);
      return x.log ? x.low * (x.high / x.low) ** share : x.low + share * (x.high - x.low);
    },
    path: (kind, d, more) => at.parts.push(s("path", { class: kind, d, ...more })),
    text: (words, where, down, anchor = "start", kind = "label") =>
      at.parts.push(s("text", { class: kind, x: px(where), y: px(down), "text-anchor": anchor }, words)),
    line: (kind, points) => points.length && at.path(kind, `M${points.map(([a, b]) => `${at.x(a)},${at.y(b)}`).join("L")}`),
  };
  for (const tick of y.ticks ?? []) {
    if (grid === "y") at.path("grid", `M${left},${at.y(tick)}H${at.right}`);
    at.text(y.text ? y.text(tick) : tick, left - 8, at.y(tick) + 4, "end");
  }
  let free = -1e9;
  for (const tick of x.ticks ?? []) {
    const words = x.text ? x.text(tick) : String(tick);
    const half = words.length * 3.2;
    if (grid === "x") at.path("grid", `M${at.x(tick)},${top}V${at.bottom}`);
    else at.path("tick", `M${at.x(tick)},${at.bottom}v4`);
    const centre = Math.min(Math.max(at.x(tick), half), wide - half);
    if (centre - half >= free) {
      at.text(words, centre, at.bottom + 18, "middle");
      free = centre + half + 6;
    }
  }
  if (x.label) at.text(x.label, (left + at.right) / 2, high - 6, "middle", "axis");
  at.svg = (label, handlers) => s("svg", {
    class: "chart", viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "img", "aria-label": label,
    ...handlers,
  }, at.parts);
  return at;
}

/** What happens when the pointer moves over a chart: a line there, and a tooltip. */
export function pointed(at, tell) {
  const cursor = s("path", { class: "cursor", d: `M0,${at.top}V${at.bottom}` });
  at.parts.push(cursor);
  return {
    onpointermove: (event) => {
      const svg = event.currentTarget;
      const box = svg.getBoundingClientRect();
      const scale = at.wide / box.width;
      const x = Math.min(Math.max((event.clientX - box.left) * scale, at.left), at.right);
      const told = tell(at.back(x), (event.clientY - box.top) * scale);
      const line = svg.querySelector(".cursor");
      line.style.visibility = told ? "visible" : "hidden";
      line.setAttribute("transform", `translate(${px(x)} 0)`);
      if (told) showTip(event, told.title, told.rows);
      else hideTip();
    },
    onpointerleave: (event) => {
      hideTip();
      event.currentTarget.querySelector(".cursor").style.visibility = "hidden";
    },
  };
}

/**
 * Values over time in equal parts from `begin` to `end`, as areas in front of each other:
 * [{name, values, colour, strong, line}]. `ceiling` is dashed.
 */
export function overTime({ label, begin, end, areas, ceiling, text, most, high = 150, wide = width() }) {
  const known = areas.flatMap((area) => area.values).filter((value) => value !== null);
  const tallest = most ?? (Math.max(0, ...known, ...(ceiling ?? []).filter((value) => value !== null)) || 1);
  const at = canvas({
    wide, high,
    x: { low: begin, high: end, ticks: timeTicks(begin, end, wide / 90), text: (unix) => tickMoment(unix, end - begin) },
    y: { low: 0, high: tallest * 1.04, ticks: roundTicks(0, tallest, high < 130 ? 3 : 4), text },
  });
  const parts = areas[0].values.length;
  const time = (part) => begin + ((end - begin) * part) / parts;
  const outline = (values) => {
    let d = "";
    values.forEach((value, part) => {
      if (value === null) return;
      d += `${d && values[part - 1] !== null ? "L" : "M"}${at.x(time(part))},${at.y(value)}H${at.x(time(part + 1))}`;
    });
    return d;
  };
  for (const { values, colour = "p0", strong, line } of areas) {
    const d = outline(values);
    if (!d) continue;
    if (!line) at.path(`area ${strong ? "strong " : ""}${colour}`, `${d}V${at.y(0)}H${at.left}Z`);
    at.path(`${line ? "line" : "edge"} ${colour}`, d);
  }
  if (ceiling) {
    const d = outline(ceiling);
    if (d) at.path("ceiling", d);
  }
  return at.svg(label, pointed(at, (unix) => {
    const part = Math.min(Math.floor(((unix - begin) / (end - begin)) * parts), parts - 1);
    return {
      title: exactMoment(time(part)),
      rows: areas.map(({ name, values, colour = "p0" }) => [colour, name, values[part] === null ? "–" : (text ?? String)(values[part])]),
    };
  }));
}

/** The share of values at or below each: [{name, values, colour}], a line at `mark`. */
export function distribution({ label, lines, low, high, mark, axis, wide = width(), tall = 230 }) {
  const at = canvas({
    wide, high: tall, top: 22,
    x: { low, high, log: true, ticks: ratioTicks(low, high), text: String, label: axis },
    y: { low: 0, high: 1, ticks: [0, 0.25, 0.5, 0.75, 1], text: (share) => `${100 * share}%` },
  });
  if (mark >= low && mark <= high) {
    at.path("mark", `M${at.x(mark)},${at.top}V${at.bottom}`);
    at.text(String(mark), at.x(mark), at.top - 7, "middle", "marked");
  }
  const sorted = lines.map((line) => ({ ...line, values: line.values.toSorted((a, b) => a - b) }));
  for (const { values, colour = "p0" } of sorted) {
    if (!values.length) continue;
    let d = `M${at.x(values[0])},${at.y(0)}`;
    values.forEach((value, index) => { d += `H${at.x(value)}V${at.y((index + 1) / values.length)}`; });
    at.path(`line ${colour}`, `${d}H${at.right}`);
  }
  return at.svg(label, pointed(at, (value) => ({
    title: `at or below ${value.toFixed(2)}`,
    rows: sorted.filter((line) => line.values.length).map(({ name, values, colour = "p0" }) =>
      [colour, name, `${Math.round((100 * values.filter((known) => known <= value).length) / values.length)} %`]),
  })));
}

/** A line of values over epochs or whatever else `x` counts: points are [x, y]. */
export function plot({ label, points, colour = "p0", wide, high = 150, text, axis = "" }) {
  const xs = points.map((point) => point[0]);
  const ys = points.map((point) => point[1]);
  const [low, top] = [Math.min(...ys), Math.max(...ys)];
  const room = (top - low) * 0.06 || Math.abs(top) * 0.1 || 1;
  const at = canvas({
    wide, high, left: 56,
    x: { low: xs[0], high: xs.at(-1) > xs[0] ? xs.at(-1) : xs[0] + 1, ticks: roundTicks(xs[0], xs.at(-1), wide / 80, 1), label: axis },
    y: { low: low - room, high: top + room, ticks: roundTicks(low - room, top + room, 3), text },
  });
  at.line(`line ${colour}`, points);
  if (points.length === 1) at.parts.push(s("circle", { class: `dot ${colour}`, cx: at.x(xs[0]), cy: at.y(ys[0]), r: 3 }));
  return at.svg(label, pointed(at, (x) => {
    const near = points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));
    return { title: `${axis || "at"} ${near[0]}`, rows: [[colour, label, (text ?? String)(near[1])]] };
  }));
}

/** A key of colours: [[class, name]]. */
export const keys = (pairs) => h("div", { class: "keys" }, pairs.map(([colour, name]) =>
  h("span", { class: "key" }, h("i", { class: colour, "aria-hidden": "true" }), name)));

export const lasting = (from, to) => `${exactMoment(from)} to ${exactMoment(to)} (${duration(to - from)})`;

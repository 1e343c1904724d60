// Numbers and times as people say them.

/** Seconds: "45 s", "1 h 30 m". */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds > 0 && seconds < 1) return `${Math.max(1, Math.round(1000 * seconds))} ms`;
  if (seconds < 10 && seconds % 1) return `${seconds.toFixed(1)} s`;
  let left = Math.round(seconds);
  const parts = [];
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]]) {
    if (left >= size) {
      parts.push(`${Math.floor(left / size)} ${unit}`);
      left %= size;
    }
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}

const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const EXACT = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const DAY_OF_YEAR = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });

const date = (unix) => new Date(unix * 1000);

/** "Nov 17", with the year if it is another one. */
const dayOf = (unix) => (date(unix).getFullYear() === new Date().getFullYear() ? DAY : DAY_OF_YEAR).format(date(unix));

/** A moment: "14:03", with the day if it is another one. */
export function moment(unix) {
  if (unix === null || unix === undefined) return "–";
  const today = new Date().toDateString() === date(unix).toDateString();
  return today ? TIME.format(date(unix)) : `${dayOf(unix)}, ${TIME.format(date(unix))}`;
}

export const exactMoment = (unix) => `${dayOf(unix)}, ${EXACT.format(date(unix))}`;

/** A moment on the axis of a chart that spans so many seconds. */
export const tickMoment = (unix, span) =>
  span > 2 * 86400 ? DAY.format(date(unix)) : (span < 600 ? EXACT : TIME).format(date(unix));

/** "in 5 m", "3 h ago", "now". */
export function fromNow(unix, now = Date.now() / 1000) {
  if (unix === null || unix === undefined) return "–";
  const seconds = Math.round(unix - now);
  if (Math.abs(seconds) < 2) return "now";
  return seconds > 0 ? `in ${duration(seconds)}` : `${duration(-seconds)} ago`;
}

/** Of a job that waits: what was expected to have begun by now begins soon. */
export const startsIn = (unix, now = Date.now() / 1000) => (unix !== null && unix !== undefined && unix < now + 2 ? "soon" : fromNow(unix, now));

export const count = (number) => (number ?? 0).toLocaleString("en-US");
export const one = (number, what, many = `${what}s`) => `${count(number)} ${number === 1 ? what : many}`;

/** Three digits, without an exponent where people would not write one. */
export function figure(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 100 && size < 1e7) return Math.round(value).toLocaleString("en-US");
  return Number(value.toPrecision(3)).toString();
}

export const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %` : "–");

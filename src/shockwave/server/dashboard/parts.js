// Small things that several pages show in the same way.

import { get } from "./api.js";
import { h } from "./dom.js";
import { count, duration, figure } from "./format.js";

export const UNFAIR_ABOVE = 1.05;
export const DEFINITIONS = {
  static: "The job alone, times jobs per GPU in all of the time that is looked at.",
  themis: "The job alone, times the mean number of active jobs per GPU while it was there.",
  egalitarian: "An equal share of the GPUs for every active job at every instant: the strictest.",
};

export const me = { user: "", operator: false, tenant: "", runs_as: "" };
export const isOwn = (job) => me.operator || (me.user !== "" && me.user === job.owner);

export const section = (name, heading, caption, ...content) =>
  h("section", { id: name, key: name }, h("h2", null, heading), caption && h("p", { class: "caption" }, caption), content);

/** [[value, what it is]] as at the top of the report. */
export const facts = (pairs) =>
  h("ul", { class: "facts" }, pairs.map(([value, name]) => h("li", null, h("b", null, value), name)));

export const heading = (title, ...beside) =>
  h("div", { class: "heading", key: "heading" }, h("h1", { tabindex: "-1" }, title), beside);

export const jobName = (job) => job.name || job.id;
export const jobLink = (job, ...more) => h("a", { href: `/jobs/${job.id}`, ...more[0] }, jobName(job));

/** The word for where a job is. */
export function stateOf(job) {
  if (job.state === "waiting" && job.held) return "held";
  if (job.state === "running" && job.starting) return "starting";
  return job.state;
}
export const stateBadge = (state) => h("span", { class: `state ${state}` }, state);

export const progress = (job) => {
  const share = job.epochs ? Math.min(job.epochs_done / job.epochs, 1) : 0;
  const said = `${figure(Math.floor(job.epochs_done))} of ${count(job.epochs)} epochs`;
  return h("span", { class: "progress", role: "img", "aria-label": said, title: said },
    h("span", { style: { width: `${(100 * share).toFixed(1)}%` } }), h("b", null, `${Math.floor(100 * share)}%`));
};

export const fairnessOf = (ftf, definition) => {
  if (ftf === null || ftf === undefined) return h("span", { class: "nothing" }, "–");
  const unfair = ftf > UNFAIR_ABOVE;
  return h("span", { class: unfair ? "unfair" : "", title: definition ? `by ${definition}` : null },
    ftf.toFixed(2), unfair && h("span", { class: "unseen" }, " (unfair)"));
};

/** Colours for names: those that come first get one of their own. */
export function colours(names, prefix = "m", most = 8) {
  const given = new Map([...new Set(names)].map((name, index) => [name, `${prefix}${Math.min(index, most)}`]));
  return (name) => given.get(name) ?? `${prefix}${most}`;
}

export const button = (words, onclick, more) => h("button", { type: "button", class: "button", onclick, ...more }, words);

/** Something that is asked for again after a while, shared by all pages: `read()` is the last answer. */
export function source(path, everySeconds) {
  const own = { value: null, problem: "", at: 0, asking: false };
  own.read = (changed) => {
    if (!own.asking && Date.now() - own.at > 1000 * everySeconds) {
      own.asking = true;
      get(path).then(
        (value) => { own.value = value; own.problem = ""; },
        (error) => { own.problem = error.message; },
      ).finally(() => { own.asking = false; own.at = Date.now(); changed(); });
    }
    return own.value;
  };
  return own;
}

export const waitingFor = (own, what) =>
  h("p", { class: own.problem ? "problem" : "caption" }, own.problem || `Reading ${what} …`);

const sources = new Map();
export function day(name) {
  if (!sources.has(name)) sources.set(name, source(`/days/${name}`, 60));
  return sources.get(name);
}

export const tenantsNow = source("/tenants", 10);

export const gpuTime = (seconds) => `${figure(seconds / 3600)} GPU-h`;
export const wait = (job, now) => duration((job.started ?? now) - job.submitted);

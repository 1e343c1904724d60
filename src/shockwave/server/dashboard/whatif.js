// What would be different: a question to the scheduler, and its answer as before and after.

import { ask, get } from "./api.js";
import { h, say } from "./dom.js";
import { duration, exactMoment, fromNow, one, percent } from "./format.js";
import { section, tenantsNow } from "./parts.js";
import { present } from "./present.js";

const NAMES = {
  makespan_seconds: "until all have finished", mean_jct_seconds: "mean completion time",
  worst_ftf_themis: "worst FTF, themis", unfair_fraction_themis: "unfair, themis",
};
const SHOWN = 20; // affected jobs
const EPOCHS = 100; // that the time of a job more is told in
const UNITS = { s: 1, m: 60, h: 3600, d: 86400 };
const schema = { read: false, answers: false, policies: [] };

/** Whether this scheduler answers such questions, and the policies that it knows. */
function learn(refresh) {
  if (schema.read) return;
  schema.read = true;
  get("/openapi.json").then((told) => {
    schema.answers = "/api/v1/what-if" in told.paths;
    schema.policies = told.components.schemas.WhatIfQuestion?.properties.policy.examples ?? [];
    refresh();
  }, () => { schema.read = false; });
}

// The question.

class Unclear extends Error {
  constructor(field, words) {
    super(words);
    this.field = field;
  }
}

/** "4", or "1-4" for a job that can use several numbers. */
function gpusOf(text) {
  const [, least, most] = /^(\d{1,6})(?:\s*[-–]\s*(\d{1,6}))?$/.exec(text) ?? [];
  if (least === undefined) throw new Unclear("job", `GPUs of the job: a number such as 2, or 1-4 where it can use several (got “${text}”).`);
  return most === undefined ? Number(least) : { min: Number(least), max: Number(most) };
}

/** "90m", "1h30m", "2 d": seconds. */
function secondsOf(text) {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)\s*([dhms])\s*/gy)];
  const seconds = parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[unit], 0);
  if (parts.map((part) => part[0]).join("") !== text || !(seconds > 0)) throw new Unclear("lasts", `How long the job runs: such as 90m, 1h30m or 2d (got “${text}”).`);
  return seconds;
}

/** What the form says, as the API takes it. Throws Unclear. */
function questionOf(form) {
  const given = (name) => String(form.get(name) ?? "").trim();
  const [gpus, type, drain, policy, tenant, factor, most, job, lasts] = ["gpus", "type", "drain", "policy", "tenant", "factor", "most", "job", "lasts"].map(given);
  if (type && !gpus) throw new Unclear("gpus", `How many ${type} more?`);
  if (tenant && !factor && !most) throw new Unclear("factor", `What would be different for ${tenant}: its weight, or what it holds at most?`);
  if ((factor || most) && !tenant) throw new Unclear("tenant", "Which tenant?");
  if (job && !lasts) throw new Unclear("lasts", "How long would the job run by itself, such as 90m or 2h?");
  if (lasts && !job) throw new Unclear("job", "How many GPUs would the job have: a number such as 2, or 1-4?");
  const question = {};
  if (gpus) question.more_gpus = Number(gpus);
  if (type) question.gpu_type = type;
  if (drain) question.drain = [{ node: drain }];
  if (policy) question.policy = policy;
  if (factor) question.tenant_weights = { [tenant]: Number(factor) };
  if (most) question.tenants = { [tenant]: { most: Number(most) } };
  if (job) question.submit = [{ name: "one-more", command: ["true"], workdir: "/", gpus: gpusOf(job), epochs: EPOCHS, epoch_seconds: { 1: secondsOf(lasts) / EPOCHS } }];
  if (!Object.keys(question).length) throw new Unclear("gpus", "Nothing would be different yet: fill in at least one field.");
  return question;
}

/** The part of a page that asks. `job` is the id of one whose fate is of interest. */
export function whatIf(refresh, job) {
  const own = { asking: false, problem: "", told: null };
  learn(refresh);

  async function submit(event) {
    event.preventDefault();
    const form = event.target;
    own.problem = "";
    try {
      const question = questionOf(new FormData(form));
      own.asking = true;
      refresh();
      own.told = await ask("POST", "/what-if", question);
      say("The answer is there, below the question.");
    } catch (error) {
      own.problem = error.message;
      own.told = null;
      if (error instanceof Unclear) form.elements[error.field].focus();
    }
    own.asking = false;
    refresh();
  }

  return () => schema.answers && section("what-if", "What if …",
    "The present is rolled forward through sampled futures, as it is and with all that is filled in here. Nothing is changed; an answer may take a minute.",
    question(submit, own.asking, refresh),
    own.problem && h("p", { class: "problem", role: "alert", key: "problem" }, own.problem),
    own.told && answer(own.told, job));
}

function question(onsubmit, asking, refresh) {
  const sorted = (names) => [...new Set(names)].filter(Boolean).toSorted();
  const types = sorted(present.nodes.map((node) => node.gpu_type));
  const tenants = sorted([...(tenantsNow.read(refresh)?.items ?? []).map((each) => each.tenant), ...[...present.jobs.values()].map((each) => each.tenant)]);
  const field = (words, name, attributes) => h("label", { class: "field" }, h("span", null, words), h("input", { name, autocomplete: "off", ...attributes }));
  const number = (words, name, attributes) => field(words, name, { type: "number", ...attributes });
  const choice = (words, name, names) => h("label", { class: "field" }, h("span", null, words),
    h("select", { name }, h("option", { value: "" }, "–"), names.map((each) => h("option", { value: each }, each))));
  const known = (id, names) => h("datalist", { id }, names.map((each) => h("option", { value: each })));
  const group = (legend, ...fields) => h("fieldset", null, h("legend", null, legend), fields);
  return h("form", { class: "filters questions", onsubmit },
    group("GPUs", number("more GPUs", "gpus", { min: "1", max: "100000" }), field("of type", "type", { list: "gpu-types", placeholder: types[0] ?? "" }), choice("without node", "drain", present.nodes.map((node) => node.id))),
    group("A job more", field("on GPUs", "job", { placeholder: "2 or 1-4" }), field("that runs for", "lasts", { placeholder: "1h30m" })),
    group("A tenant", choice("tenant", "tenant", tenants), number("weighs times", "factor", { step: "any", min: "0.01", max: "1000000", placeholder: "2" }), number("holds at most", "most", { min: "0", max: "1000000", placeholder: "GPUs" })),
    group("Deciding", field("with policy", "policy", { list: "policies", placeholder: "fifo" })),
    known("gpu-types", types), known("policies", schema.policies),
    h("button", { class: "button primary", type: "submit", disabled: asking }, asking ? "Rolling forward …" : "Ask"));
}

// The answer.

const written = (value, unit) => (unit === "seconds" ? duration(value) : unit === "fraction" ? percent(value) : value.toFixed(2));
const unsigned = (value, unit) => written(unit === "seconds" ? Math.max(value, 0) : value, unit);
const signed = (value, unit) => `${value < 0 ? "−" : "+"}${written(Math.abs(value), unit)}`;

/** The middle, and below it what four in five futures lie between. */
const range = (told, write) => (told ? [write(told.middle), h("span", { class: "ci" }, `${write(told.low)} to ${write(told.high)}`)] : "–");

function answer(told, job) {
  const moment = (unix) => fromNow(unix == null ? unix : Math.max(unix, told.now), told.now); // the answer took its time
  const fresh = told.jobs.filter((each) => each.is_new);
  const affected = told.jobs.filter((each) => !each.is_new).toSorted((a, b) => (b.id === job) - (a.id === job));
  const shown = affected.slice(0, SHOWN);
  const table = (label, heads, rows) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, h("table", { class: "plain" },
    h("thead", null, h("tr", null, heads.map((name) => h("th", { scope: "col" }, name)))), h("tbody", null, rows)));
  const about = [
    `${one(told.samples, "future")}; below each figure is what 8 of 10 of them lie between. Times count from when it was asked, ${exactMoment(told.now)}.`,
    `${one(affected.length + told.hidden, "job is affected", "jobs are affected")}, ${one(told.unaffected, "is not", "are not")}.`,
    affected.length > SHOWN && `The ${SHOWN} that are affected most are shown.`,
    told.hidden > 0 && `${one(told.hidden, "of them is", "of them are")} not yours to see.`,
    told.never.length > 0 && `Would not finish as things are: ${told.never.slice(0, 8).join(", ")}${told.never.length > 8 ? " …" : ""}.`,
    told.guessed > 0 && `How long ${one(told.guessed, "job")} will take is a mere guess.`,
  ];
  return h("div", { key: "answer", class: "answer" },
    fresh.map((each) => h("p", { class: "reason", key: each.id }, each.finish_after
      ? ["The job would start ", h("b", null, moment(each.start_after?.middle)), ` (${moment(each.start_after?.low)} to ${moment(each.start_after?.high)}) and finish `,
        h("b", null, moment(each.finish_after.middle)), ` (${moment(each.finish_after.low)} to ${moment(each.finish_after.high)}).`]
      : "The job would not finish as things are.")),
    table("Figures before and after", ["of the jobs that are here", "now", "then", "difference"], told.figures.map((figure) => h("tr", { key: figure.name },
      h("th", { scope: "row" }, NAMES[figure.name] ?? figure.name), h("td", null, range(figure.before, (value) => unsigned(value, figure.unit))),
      h("td", null, range(figure.after, (value) => unsigned(value, figure.unit))), h("td", null, range(figure.difference, (value) => signed(value, figure.unit)))))),
    shown.length > 0 && table("Jobs that are affected", ["job", "owner", "finishes now", "finishes then", "later by"], shown.map((each) => h("tr", { key: each.id, class: each.id === job ? "own" : null },
      h("th", { scope: "row" }, h("a", { href: `/jobs/${each.id}` }, each.name || each.id)), h("td", null, each.owner), h("td", null, range(each.finish_before, moment)),
      h("td", null, range(each.finish_after, moment)), h("td", null, range(each.later_seconds, (value) => signed(value, "seconds")))))),
    h("p", { class: "caption" }, about.filter(Boolean).join(" ")),
    h("details", null, h("summary", null, "What is assumed"), h("ul", null, told.assumptions.map((each) => h("li", null, each)))));
}

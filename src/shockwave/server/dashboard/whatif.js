// What would be different: a question to the scheduler, and its answer as before and after.

import { ask, get } from "./api.js";
import { h } from "./dom.js";
import { count, duration, fromNow, one, percent } from "./format.js";
import { section } from "./parts.js";
import { present } from "./present.js";

const NAMES = {
  makespan_seconds: "until all have finished", mean_jct_seconds: "mean completion time",
  worst_ftf_themis: "worst FTF, themis", unfair_fraction_themis: "unfair, themis",
};
let answers = null; // whether this scheduler answers such questions

const written = (value, unit) => (unit === "seconds" ? duration(value) : unit === "fraction" ? percent(value) : value.toFixed(2));
const range = (told, unit) => (told ? h("span", { title: `8 of 10 within ${written(told.low, unit)} to ${written(told.high, unit)}` }, written(told.middle, unit)) : "–");
const signed = (value, unit) => (value === null ? "–" : `${value < 0 ? "−" : "+"}${written(Math.abs(value), unit)}`);

/** The part of a page that asks. `job` is the id of one whose fate is of interest. */
export function whatIf(refresh, job) {
  const own = { asking: false, problem: "", told: null };
  if (answers === null) {
    answers = false;
    get("/openapi.json").then((document) => { answers = "/api/v1/what-if" in document.paths; refresh(); }, () => {});
  }

  async function submit(event) {
    event.preventDefault();
    const form = new FormData(event.target);
    const question = {};
    if (form.get("gpus")) question.more_gpus = Number(form.get("gpus"));
    if (form.get("gpus") && form.get("type")) question.gpu_type = form.get("type");
    if (form.get("drain")) question.drain = [{ node: form.get("drain") }];
    if (form.get("policy").trim()) question.policy = form.get("policy").trim();
    if (form.get("tenant") && form.get("factor")) question.tenant_weights = { [form.get("tenant")]: Number(form.get("factor")) };
    if (form.get("tenant") && form.get("most")) question.tenants = { [form.get("tenant")]: { most: Number(form.get("most")) } };
    Object.assign(own, { asking: true, problem: "" });
    refresh();
    try { own.told = await ask("POST", "/what-if", question); } catch (error) { own.problem = error.message; }
    own.asking = false;
    refresh();
  }

  return () => {
    const types = [...new Set(present.nodes.map((node) => node.gpu_type))].toSorted();
    return answers && section("what-if", "What if …",
    "The present is rolled forward through sampled futures, as it is and with the change. Nothing is changed; an answer may take a minute.",
    h("form", { class: "filters", onsubmit: submit },
      h("label", { class: "field" }, h("span", null, "more GPUs"), h("input", { name: "gpus", type: "number", min: "1" })),
      types.length > 1 && h("label", { class: "field" }, h("span", null, "of type"), h("select", { name: "type" }, h("option", { value: "" }, "–"), types.map((name) => h("option", { value: name }, name)))),
      h("label", { class: "field" }, h("span", null, "without node"), h("select", { name: "drain" }, h("option", { value: "" }, "–"), present.nodes.map((node) => h("option", { value: node.id }, node.id)))),
      h("label", { class: "field" }, h("span", null, "with policy"), h("input", { name: "policy", type: "text", placeholder: "fifo" })),
      h("label", { class: "field" }, h("span", null, "tenant"), h("select", { name: "tenant" }, h("option", { value: "" }, "–"), [...new Set([...present.jobs.values()].map((each) => each.tenant))].toSorted().map((name) => h("option", { value: name }, name)))),
      h("label", { class: "field" }, h("span", null, "weighs times"), h("input", { name: "factor", type: "number", step: "any", min: "0.01", placeholder: "2" })),
      h("label", { class: "field" }, h("span", null, "holds at most"), h("input", { name: "most", type: "number", min: "0", placeholder: "GPUs" })),
      h("button", { class: "button primary", type: "submit", disabled: own.asking }, own.asking ? "Rolling forward …" : "Ask")),
    own.problem && h("p", { class: "problem", role: "alert" }, own.problem),
    own.told && answer(own.told, job));
  };
}

function answer(told, job) {
  const jobs = told.jobs.toSorted((a, b) => (b.id === job) - (a.id === job)).slice(0, 20);
  const unit = (figure) => (figure.name.endsWith("_seconds") ? "seconds" : figure.name.includes("fraction") ? "fraction" : "ratio");
  const table = (label, heads, rows) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, h("table", { class: "plain" },
    h("thead", null, h("tr", null, heads.map((name) => h("th", { scope: "col" }, name)))), h("tbody", null, rows)));
  return h("div", { role: "status" },
    table("Figures before and after", ["of the jobs that are here", "now", "then", "difference"], told.figures.map((figure) => h("tr", { key: figure.name },
      h("th", { scope: "row" }, NAMES[figure.name] ?? figure.name), h("td", null, range(figure.before, unit(figure))), h("td", null, range(figure.after, unit(figure))), h("td", null, signed(figure.mean_difference, unit(figure)))))),
    jobs.length > 0 && table("Jobs that are affected", ["job", "owner", "finishes now", "finishes then", "later by"], jobs.map((each) => h("tr", { key: each.id, class: each.id === job ? "own" : null },
      h("th", { scope: "row" }, h("a", { href: `/jobs/${each.id}` }, each.name || each.id)), h("td", null, each.owner), h("td", null, fromNow(each.finish_before?.middle)), h("td", null, fromNow(each.finish_after?.middle)), h("td", null, signed(each.later_seconds?.middle ?? null, "seconds"))))),
    h("p", { class: "caption" }, `${one(told.samples, "future")}; ${count(told.jobs.length + told.hidden)} jobs are affected, ${count(told.unaffected)} are not. It assumes: ${told.assumptions.join("; ")}.`));
}

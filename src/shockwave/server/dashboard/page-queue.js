// All jobs that are not over: sorted and filtered by what the address says.

import { h, same } from "./dom.js";
import { count, duration, fromNow, moment, one, startsIn } from "./format.js";
import { button, fairnessOf, facts, heading, isOwn, jobLink, me, progress, stateBadge, stateOf } from "./parts.js";
import { present } from "./present.js";

const PAGE = 50;
const FRESH_SECONDS = 10; // how long "in 5 m" is shown as it is
const later = (value) => (value === null || value === undefined ? Infinity : value);
const COLUMNS = {
  job: ["job", (job) => (job.name || job.id).toLowerCase()],
  owner: ["owner", (job) => job.owner],
  tenant: ["tenant", (job) => job.tenant],
  group: ["group", (job) => job.group ?? ""],
  gpus: ["GPUs", (job) => job.gpus],
  state: ["state", (job) => stateOf(job)],
  progress: ["progress", (job) => job.epochs_done / job.epochs],
  submitted: ["in the queue", (job) => -job.submitted],
  start: ["starts", (job) => (job.state === "running" ? 0 : later(job.why.expected_start))],
  finish: ["finishes", (job) => later(job.why.finish)],
  ftf: ["FTF", (job) => job.why.ftf ?? -1],
  reason: ["why", (job) => job.why.reason],
};
const STATES = ["running", "starting", "waiting", "held"];

export function queuePage(address, refresh) {
  const query = address.query;
  const set = (changes) => address.set({ page: null, ...changes });
  let drawn = new Map(); // id → [job, when]: the rows that are there
  const rows = (jobs, now) => {
    const before = drawn;
    drawn = new Map();
    return jobs.map((job) => {
      const known = before.get(job.id);
      const fresh = known && known[0] === job && now - known[1] < FRESH_SECONDS;
      drawn.set(job.id, fresh ? known : [job, now]);
      return fresh ? same("tr", job.id) : row(job, now);
    });
  };
  const fits = (job) =>
    ["owner", "tenant", "group"].every((name) => !query.has(name) || (job[name] ?? "") === query.get(name)) &&
    (!query.has("state") || query.getAll("state").includes(stateOf(job))) &&
    (!query.get("mine") || job.owner === me.user) &&
    (!query.get("text") || `${job.name} ${job.id} ${job.model} ${job.why.reason}`.toLowerCase().includes(query.get("text").toLowerCase()));
  return {
    title: "Queue",
    render() {
      const now = Date.now() / 1000;
      const all = [...present.jobs.values()];
      const found = all.filter(fits);
      const [sort, down] = [query.get("sort") ?? "state", query.has("down")];
      const value = COLUMNS[sort]?.[1] ?? COLUMNS.state[1];
      const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
      const ranked = found.map((job) => [value(job), later(job.why.expected_start), job.submitted, job]);
      ranked.sort((a, b) => (down ? -1 : 1) * order(a[0], b[0]) || order(a[1], b[1]) || order(a[2], b[2]));
      const pages = Math.max(1, Math.ceil(found.length / PAGE));
      const page = Math.min(Math.max(1, Number(query.get("page") ?? 1)), pages);
      const shown = ranked.slice((page - 1) * PAGE, page * PAGE).map((entry) => entry[3]);
      const running = found.filter((job) => job.state === "running").length;
      return [
        heading("Queue"),
        facts([[count(running), "run"], [count(found.length - running), "wait"],
          [count(found.reduce((sum, job) => sum + (job.state === "running" ? 0 : job.gpus), 0)), "GPUs wanted"],
          ...(found.length < all.length ? [[count(all.length), "jobs in all"]] : [])]),
        h("section", { key: "table" },
          filters(query, set, all),
          h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Jobs" },
            h("table", { class: "jobs" },
              h("caption", { class: "unseen" }, `Jobs that are not over, ${one(found.length, "job")}`),
              h("thead", null, h("tr", null, Object.entries(COLUMNS).map(([name, [words]]) => head(name, words, sort, down, set)))),
              h("tbody", null, rows(shown, now)))),
          !found.length && h("p", { class: "caption" }, all.length ? "No job is like that." : "No jobs wait or run."),
          pages > 1 && h("nav", { class: "turn", "aria-label": "Parts of the list" },
            button("Before", () => address.set({ page: page - 1 }), { disabled: page <= 1 }),
            h("span", null, `${count((page - 1) * PAGE + 1)} to ${count(Math.min(page * PAGE, found.length))} of ${count(found.length)}`),
            button("After", () => address.set({ page: page + 1 }), { disabled: page >= pages }))),
      ];
    },
  };
}

function head(name, words, sort, down, set) {
  const here = sort === name;
  return h("th", { scope: "col", class: `c-${name}`, "aria-sort": here ? (down ? "descending" : "ascending") : "none" },
    h("button", { type: "button", class: "sort", onclick: () => set({ sort: name, down: here && !down ? "1" : null }) },
      words, h("span", { "aria-hidden": "true" }, here ? (down ? " ↓" : " ↑") : "")));
}

function filters(query, set, jobs) {
  const choices = (name) => [...new Set([...jobs.map((job) => job[name] ?? ""), ...(query.has(name) ? [query.get(name)] : [])])].toSorted();
  const choose = (name, words) => {
    const known = choices(name).filter(Boolean);
    return h("label", { class: "field" }, h("span", null, words),
      h("select", { key: name, onchange: (event) => set({ [name]: event.target.value || null }) },
        h("option", { value: "", selected: !query.get(name) }, "all"), known.map((each) => h("option", { value: each, selected: query.get(name) === each }, each))));
  };
  const states = query.getAll("state");
  const toggle = (state) => set({ state: states.includes(state) ? states.filter((each) => each !== state) : [...states, state] });
  return h("div", { class: "filters" },
    h("label", { class: "field grow" }, h("span", null, "search"),
      h("input", { type: "search", value: query.get("text") ?? "", placeholder: "name, id, reason", oninput: (event) => set({ text: event.target.value || null }) })),
    choose("owner", "owner"), choose("tenant", "tenant"), choose("group", "group"),
    h("div", { class: "field", role: "group", "aria-label": "State" }, h("span", { "aria-hidden": "true" }, "state"), h("div", { class: "chips" },
      STATES.map((state) => h("button", { type: "button", class: "chip", "aria-pressed": String(states.includes(state)), onclick: () => toggle(state) }, state)),
      me.user && h("button", { type: "button", class: "chip", "aria-pressed": String(Boolean(query.get("mine"))), onclick: () => set({ mine: query.get("mine") ? null : "1" }) }, "mine"))));
}

function row(job, now) {
  const why = job.why;
  const start = job.state === "running" ? h("span", { class: "soft" }, `since ${moment(job.started)}`)
    : h("span", { title: why.start_low != null ? `${moment(why.start_low)} to ${moment(why.start_high)} in 8 of 10 cases` : null }, startsIn(why.expected_start, now));
  return h("tr", { key: job.id, class: isOwn(job) && !me.operator ? "own" : null },
    h("th", { scope: "row", class: "c-job" }, jobLink(job), job.name && job.name !== job.id && h("small", null, job.id)),
    h("td", { class: "c-owner", "data-name": "owner" }, job.owner),
    h("td", { class: "c-tenant", "data-name": "tenant" }, job.tenant),
    h("td", { class: "c-group", "data-name": "group" }, job.group ?? ""),
    h("td", { class: "c-gpus", "data-name": "GPUs" }, job.gpus),
    h("td", { class: "c-state", "data-name": "state" }, stateBadge(stateOf(job))),
    h("td", { class: "c-progress", "data-name": "progress" }, progress(job)),
    h("td", { class: "c-submitted", "data-name": "in the queue" }, duration(now - job.submitted)),
    h("td", { class: "c-start", "data-name": "starts" }, start),
    h("td", { class: "c-finish", "data-name": "finishes", title: why.finish != null ? `${moment(why.finish_low)} to ${moment(why.finish_high)} in 8 of 10 cases` : null }, fromNow(why.finish, now)),
    h("td", { class: "c-ftf", "data-name": "FTF" }, fairnessOf(why.ftf, why.ftf_definition)),
    h("td", { class: "c-reason", "data-name": "why" }, why.reason));
}

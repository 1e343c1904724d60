// Finish-time fairness by each definition, and what tenants got against their shares.

import { canvas, distribution, keys, roundTicks, width } from "./chart.js";
import { h } from "./dom.js";
import { count, figure, one, percent } from "./format.js";
import { DEFINITIONS, UNFAIR_ABOVE, day, fairnessOf, gpuTime, heading, jobLink, section, tenantsNow, waitingFor } from "./parts.js";
import { present } from "./present.js";

const FORECAST = "forecast";

export function fairnessPage(address, refresh) {
  return {
    title: "Fairness",
    render() {
      const own = day("last");
      const record = own.read(refresh);
      const active = [...present.jobs.values()].filter((job) => job.why.ftf != null);
      return [
        heading("Fairness"),
        distributions(record, own, active),
        promisesSection(tenantsNow.read(refresh)?.items ?? []),
        tenantsSection(record, tenantsNow.value?.items ?? []),
        worstSection(active),
      ];
    },
  };
}

function distributions(record, own, active) {
  const finished = (record?.jobs ?? []).filter((job) => Object.keys(job.ftf).length > 0);
  const groups = Object.keys(DEFINITIONS).map((name) => [name, finished.map((job) => job.ftf[name]).filter((value) => value > 0)]);
  const expected = active.map((job) => job.why.ftf).filter((value) => value > 0);
  const every = [...groups.flatMap((group) => group[1]), ...expected];
  const low = Math.min(0.5, ...every) / 1.05;
  const high = Math.max(2, ...every) * 1.05;
  const columns = innerWidth > 1100 ? 4 : innerWidth > 700 ? 2 : 1;
  const wide = (width() - (columns - 1) * 22) / columns;
  const figures = (values) => values.length
    ? `${one(values.length, "job")}, ${percent(values.filter((value) => value > UNFAIR_ABOVE).length / values.length)} unfair, worst ${Math.max(...values).toFixed(2)}` : "no jobs yet";
  const cell = (name, about, values, colour) => h("div", { key: name }, h("h3", null, name), h("p", { class: "caption" }, about), h("p", { class: "small" }, figures(values)),
    distribution({ label: `Distribution of finish-time fairness, ${name}: ${figures(values)}`, lines: [{ name: "jobs", values, colour }], low, high, mark: UNFAIR_ABOVE, axis: "FTF (logarithmic)", wide }));
  const definition = active[0]?.why.ftf_definition;
  return section("ftf", "Finish-time fairness",
    `Completion time over that of a fair share; above ${UNFAIR_ABOVE} a job was treated unfairly. The share of jobs at or below each value: of those that came and finished in the last 24 hours, by three definitions of fair, and as it is expected for those that are here.`,
    !record && waitingFor(own, "the journal"),
    h("div", { class: "columns", style: { "--columns": columns } },
      record && groups.map(([name, values], index) => cell(name, DEFINITIONS[name], values, `p${index}`)),
      cell(FORECAST, `Expected for jobs that wait or run now${definition ? `, by ${definition}` : ""}.`, expected, "p3")));
}

/** What tenants were promised, what is due to them now, and what they hold; by type where there are several. */
function promisesSection(tenants) {
  const promised = tenants.some((each) => each.due_gpus !== null);
  if (!promised) return null;
  const gpus = (value) => (value === null ? "–" : Number.isInteger(value) ? count(value) : value.toFixed(1));
  const hours = (value) => (value === null ? "–" : gpuTime(3600 * value));
  const row = (name, each, head, carried) => h("tr", { key: `${head}/${name}`, class: head ? "inner" : "" }, h("th", { scope: "row" }, name),
    h("td", null, each.weight === null ? "" : figure(each.weight)), h("td", null, gpus(each.guaranteed)), h("td", null, each.most === null ? "all" : gpus(each.most)),
    h("td", null, gpus(each.due_gpus)), h("td", null, gpus(each.gpus_busy)), h("td", null, carried));
  return section("promises", "Tenants now", "What each was promised, what is due to it at this moment by what its jobs could use, and what it holds. What is not wanted is lent to others and comes back at the next round that it is wanted in; part of it is carried over.",
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Tenants now" }, h("table", { class: "plain" },
      h("thead", null, h("tr", null, ["tenant", "weight", "guaranteed", "most", "due now", "holds", "carried over"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, tenants.flatMap((each) => [row(each.tenant, each, "", hours(each.carry_over_gpu_hours)),
        ...each.types.map((kind) => row(kind.gpu_type, kind, each.tenant, kind.due_gpus === null ? "" : hours(kind.carry_over_gpu_hours)))])))));
}

/** GPU time of the last day by tenant and, below it, by person. */
function tenantsSection(record, tenants) {
  if (!record) return null;
  const weight = { ...record.weights, ...Object.fromEntries(tenants.map((each) => [each.tenant, each.weight])) };
  const names = Object.keys({ ...record.weights, ...record.tenants });
  if (!names.length) return section("tenants", "Tenants", "", h("p", null, "Nobody had jobs in the last 24 hours."));
  const weights = names.reduce((sum, name) => sum + (weight[name] ?? 1), 0);
  const used = names.reduce((sum, name) => sum + (record.tenants[name] ?? 0), 0);
  const people = new Map();
  for (const job of record.jobs) {
    const own = people.get(job.tenant) ?? people.set(job.tenant, new Map()).get(job.tenant);
    own.set(job.owner, (own.get(job.owner) ?? 0) + job.gpu_seconds);
  }
  const part = (seconds) => (used ? seconds / used : 0);
  const rows = names.map((name) => ({ name, share: (weight[name] ?? 1) / weights, got: part(record.tenants[name] ?? 0), seconds: record.tenants[name] ?? 0 }))
    .toSorted((a, b) => b.got - a.got)
    .flatMap((each) => {
      const own = [...(people.get(each.name) ?? [])].filter(([person]) => person && person !== each.name).toSorted((a, b) => b[1] - a[1]);
      return [each, ...own.map(([name, seconds]) => ({ name, got: part(seconds), seconds, inner: each.name }))];
    });
  const wide = width();
  const left = Math.min(150, wide * 0.3);
  const most = Math.max(...rows.map((each) => Math.max(each.share ?? 0, each.got)), 0.01);
  const tall = (each) => (each.inner === undefined ? 40 : 22);
  const at = canvas({ wide, high: rows.reduce((sum, each) => sum + tall(each), 30), left, right: 60, top: 2, grid: "x", x: { low: 0, high: most, ticks: roundTicks(0, most, 5), text: percent }, y: { low: 0, high: 1, ticks: [] } });
  let y = at.top;
  for (const each of rows) {
    const inner = each.inner !== undefined;
    at.text(each.name.length > left / 7 ? `${each.name.slice(0, left / 7 - 2)}…` : each.name, left - 8, y + (inner ? 15 : 23), "end");
    if (inner) at.path("bar p0 pale", `M${left},${y + 6}H${at.x(each.got)}v9H${left}z`);
    else {
      at.path("bar p0", `M${left},${y + 6}H${at.x(each.got)}v14H${left}z`);
      at.path("bar p6 pale", `M${left},${y + 22}H${at.x(each.share)}v10H${left}z`);
    }
    at.text(percent(each.got), at.x(each.got) + 6, y + (inner ? 15 : 17));
    y += tall(each);
  }
  return section("tenants", "Tenants: their share and what they got", "GPU time of the last 24 hours, as parts of all that was used, of tenants and, below each, of its people. The share is by the weights of the tenants that had jobs. A tenant that asked for less than its share leaves the rest to others.",
    keys([["p0", "got"], ["p6", "share by weight"]]),
    at.svg(rows.map((each) => (each.inner === undefined ? `${each.name}: got ${percent(each.got)}, share ${percent(each.share)}` : `${each.name} of ${each.inner}: got ${percent(each.got)}`)).join("; ")),
    h("details", null, h("summary", null, "As a table"), h("table", { class: "plain" },
      h("thead", null, h("tr", null, ["tenant", "weight", "share", "got", "GPU time"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, rows.map((each) => h("tr", { key: `${each.inner ?? ""}/${each.name}`, class: each.inner === undefined ? "" : "inner" }, h("th", { scope: "row" }, each.name), h("td", null, each.inner === undefined ? figure(weight[each.name] ?? 1) : ""), h("td", null, each.inner === undefined ? percent(each.share) : ""), h("td", null, percent(each.got)), h("td", null, gpuTime(each.seconds))))))));
}

function worstSection(active) {
  const worst = active.toSorted((a, b) => b.why.ftf - a.why.ftf).slice(0, 10);
  if (!worst.length) return null;
  return section("worst", "Expected to be treated worst", `Of the ${count(active.length)} jobs whose finish can be foreseen.`,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Jobs expected to be treated worst" }, h("table", { class: "plain" },
      h("thead", null, h("tr", null, ["job", "owner", "tenant", "FTF", "why"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, worst.map((job) => h("tr", { key: job.id }, h("th", { scope: "row" }, jobLink(job)), h("td", null, job.owner), h("td", null, job.tenant), h("td", null, fairnessOf(job.why.ftf, job.why.ftf_definition)), h("td", { class: "c-reason" }, job.why.reason)))))));
}

// Any past day, as the journal has it.

import { canvas, keys, lasting, overTime, pointed, timeTicks, width } from "./chart.js";
import { h } from "./dom.js";
import { count, duration, exactMoment, figure, moment, one, percent, tickMoment } from "./format.js";
import { UNFAIR_ABOVE, button, colours, day, facts, fairnessOf, gpuTime, heading, section, stateBadge, waitingFor } from "./parts.js";

const ROWS = 100;
const DAY = 86_400_000;
const named = (date) => date.toISOString().slice(0, 10);
const today = () => named(new Date());

export function historyPage(address, refresh) {
  return {
    title: "History",
    ticks: false, // the past does not change
    render() {
      const chosen = address.query.get("day") ?? today();
      const own = day(chosen);
      const record = own.read(refresh);
      const step = (days) => address.set({ day: named(new Date(Date.parse(chosen) + days * DAY)), page: null });
      return [
        heading("History"),
        h("div", { class: "actions", key: "day" },
          button("Day before", () => step(-1), { disabled: record && chosen <= record.first_day }),
          h("label", { class: "field inline" }, h("span", { class: "unseen" }, "day"), h("input", {
            type: "date", value: chosen, min: record?.first_day, max: record?.last_day ?? today(),
            onchange: (event) => event.target.value && address.set({ day: event.target.value, page: null }),
          })),
          button("Day after", () => step(1), { disabled: chosen >= (record?.last_day ?? today()) }),
          h("span", { class: "soft" }, "of universal time")),
        record ? dayParts(record, address) : section("reading", chosen, "", waitingFor(own, "the journal")),
      ];
    },
  };
}

function dayParts(record, address) {
  const seconds = record.end - record.begin;
  const used = Object.values(record.tenants).reduce((sum, had) => sum + had, 0);
  const mean = record.gpus_busy.reduce((sum, value) => sum + value, 0) / record.gpus_busy.length;
  const gpus = Math.max(1, ...record.gpus_up.filter((value) => value !== null), ...record.gpus_busy);
  const inDay = (time) => time !== null && time >= record.begin && time < record.end;
  const finished = record.jobs.filter((job) => job.state === "finished" && inDay(job.ended));
  const fair = finished.map((job) => job.ftf.egalitarian).filter((value) => value > 0);
  return [
    facts([
      [count(record.jobs.filter((job) => inDay(job.submitted)).length), "jobs came"], [count(finished.length), "finished"],
      [count(record.jobs.filter((job) => job.state === "failed" && inDay(job.ended)).length), "failed"], [gpuTime(used), "used"], [figure(mean), "GPUs busy on average"],
      ...(fair.length ? [[percent(fair.filter((value) => value > UNFAIR_ABOVE).length / fair.length), "unfair, egalitarian"]] : []),
    ]),
    section("busy", `${record.day}: over time`, `${exactMoment(record.begin)} to ${exactMoment(record.end)}, ${duration(seconds)}.`,
      h("h3", null, "GPUs in use"), overTime({ label: `GPUs in use, on average ${figure(mean)}`, begin: record.begin, end: record.end, areas: [{ name: "in use", values: record.gpus_busy }], ceiling: record.gpus_up, most: gpus, text: figure }),
      h("h3", null, "Jobs"), keys([["p2", "run"], ["p1", "wait"]]),
      overTime({ label: "Jobs that run and wait", begin: record.begin, end: record.end, high: 120, areas: [{ name: "wait", values: record.waiting, colour: "p1" }, { name: "run", values: record.running, colour: "p2" }], text: figure }),
      record.price.some((value) => value !== null) && [h("h3", null, "Price of a GPU-round"), overTime({ label: "Price of a GPU-round", begin: record.begin, end: record.end, high: 110, areas: [{ name: "price", values: record.price, colour: "p4", line: true }], text: figure })]),
    record.leases.length > 0 && gantt(record),
    jobsSection(record, address),
  ];
}

function gantt(record) {
  const first = new Map();
  let rows = 0;
  for (const node of record.nodes) { first.set(node.id, rows); rows += node.gpus; }
  const shown = Math.min(rows, 256);
  const [wide, row] = [width(), Math.min(Math.max(420 / shown, 2), 16)];
  const jobs = new Map(record.jobs.map((job) => [job.id, job]));
  const tenants = [...new Set(record.leases.map((lease) => jobs.get(lease.job)?.tenant ?? ""))].toSorted();
  const colour = colours(tenants);
  const at = canvas({ wide, high: shown * row + 34, left: 62, top: 4, grid: "x", x: { low: record.begin, high: record.end, ticks: timeTicks(record.begin, record.end, wide / 100), text: (unix) => tickMoment(unix, record.end - record.begin) }, y: { low: 0, high: 1, ticks: [] } });
  let free = 0;
  record.nodes.forEach((node, number) => {
    const [y, end] = [at.top + first.get(node.id) * row, at.top + Math.min(first.get(node.id) + node.gpus, shown) * row];
    if (y >= end) return;
    if (number % 2) at.path("band", `M${at.left},${y}H${at.right}V${end}H${at.left}z`);
    if ((y + end) / 2 - 6 >= free) { at.text(node.id.length > 8 ? `${node.id.slice(0, 7)}…` : node.id, at.left - 8, (y + end) / 2 + 4, "end"); free = (y + end) / 2 + 6; }
  });
  const paths = new Map();
  const bars = [];
  for (const lease of record.leases) {
    const kind = colour(jobs.get(lease.job)?.tenant ?? "");
    for (const [node, slots] of Object.entries(lease.slots)) for (const slot of slots) {
      const line = (first.get(node) ?? shown) + slot;
      if (line >= shown) continue;
      const [from, to] = [at.x(lease.start), at.x(lease.stop)];
      paths.set(kind, `${paths.get(kind) ?? ""}M${from},${(at.top + line * row).toFixed(1)}h${Math.max(to - from, 0.6).toFixed(1)}v${(row - 0.6).toFixed(1)}H${from}z`);
      bars.push([line, lease]);
    }
  }
  for (const [kind, d] of paths) at.path(`bars ${kind}`, d);
  const handlers = pointed(at, (unix, down) => {
    const line = Math.floor((down - at.top) / row);
    const lease = bars.find(([where, each]) => where === line && each.start <= unix && unix <= each.stop)?.[1];
    if (!lease) return null;
    const job = jobs.get(lease.job);
    return { title: job?.name || lease.job, rows: [[colour(job?.tenant ?? ""), job?.owner || "somebody", job?.tenant], ["", lasting(lease.start, lease.stop)]] };
  });
  return section("gantt", "Who ran when", `A row is a GPU, grouped by node; a bar is the time that a job held it, coloured by tenant. Blank is idle.${record.leases_left_out ? ` The ${count(record.leases.length)} longest are shown.` : ""}${shown < rows ? ` The first ${shown} of ${rows} GPUs.` : ""}`,
    keys(tenants.slice(0, 8).map((name) => [colour(name), name || "nobody"])), at.svg(`Which of ${one(jobs.size, "job")} held which GPU when`, handlers));
}

function jobsSection(record, address) {
  const shown = record.jobs.toReversed();
  const pages = Math.max(1, Math.ceil(shown.length / ROWS));
  const page = Math.min(Math.max(1, Number(address.query.get("page") ?? 1)), pages);
  return section("jobs", "Jobs of the day", `Those that were there, the latest first.${record.jobs_left_out ? ` ${one(record.jobs_left_out, "earlier job")} left out.` : ""} Times are yours; FTF is by the definition egalitarian.`,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Jobs of the day" }, h("table", { class: "plain" },
      h("thead", null, h("tr", null, ["job", "owner", "tenant", "GPUs", "state", "came", "started", "ended", "GPU time", "FTF"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, shown.slice((page - 1) * ROWS, page * ROWS).map((job) => h("tr", { key: job.id },
        h("th", { scope: "row" }, h("a", { href: `/jobs/${job.id}` }, job.name || job.id)), h("td", null, job.owner), h("td", null, job.tenant), h("td", null, job.gpus), h("td", null, stateBadge(job.state)),
        h("td", null, moment(job.submitted)), h("td", null, moment(job.started)), h("td", null, moment(job.ended)), h("td", null, gpuTime(job.gpu_seconds)), h("td", null, fairnessOf(job.ftf.egalitarian))))))),
    pages > 1 && h("nav", { class: "turn", "aria-label": "Parts of the list" }, button("Before", () => address.set({ page: page - 1 }), { disabled: page <= 1 }), h("span", null, `${page} of ${pages}`), button("After", () => address.set({ page: page + 1 }), { disabled: page >= pages })));
}

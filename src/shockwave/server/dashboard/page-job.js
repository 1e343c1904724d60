// The story of one job: why, when, how fast, how fairly; what it reports; and what to do with it.

import { ask, follow, get } from "./api.js";
import { canvas, keys, lasting, plot, pointed, roundTicks, timeTicks, width } from "./chart.js";
import { h, same, say } from "./dom.js";
import { count, duration, exactMoment, figure, moment, one, percent, startsIn, tickMoment } from "./format.js";
import { DEFINITIONS, UNFAIR_ABOVE, button, facts, fairnessOf, heading, isOwn, jobName, progress, section, stateBadge, stateOf } from "./parts.js";
import { present } from "./present.js";
import { whatIf } from "./whatif.js";

const LONGEST_LOG = 200_000; // characters that are shown
const OVER = ["finished", "failed", "cancelled"];
const ENDS = {
  preempted: ["p4", "stopped for others"], crashed: ["p5", "crashed"], killed: ["p5", "killed by somebody"], "node-lost": ["p5", "its node was lost"],
  "not-started": ["p6", "could not be started"], moved: ["p0", "moved"], resized: ["p3", "went on with other GPUs"], finished: ["p2", "finished"], failed: ["p5", "failed"], cancelled: ["p6", "cancelled"], "": ["p0", "runs"],
};

export function jobPage(address, refresh) {
  const id = address.params[0];
  const own = { record: null, story: null, metrics: null, problem: "", said: "", at: 0, seen: null };
  const log = logPane(id);
  const askWhatIf = whatIf(refresh, id);
  let closed = false;

  async function read() {
    own.at = Date.now();
    try {
      own.record = await get(`/jobs/${id}`);
      const mine = isOwn(own.record);
      [own.story, own.metrics] = await Promise.all([get(`/jobs/${id}/story`), mine ? get(`/jobs/${id}/metrics`) : null]);
      own.problem = "";
      if (mine && !closed) log.begin();
    } catch (error) { own.problem = error.message; }
    if (!closed) refresh();
  }

  async function act(words, request) {
    try {
      const answer = await request();
      own.said = answer?.items?.[0]?.problem ?? words;
    } catch (error) { own.said = error.message; }
    say(own.said);
    await read();
  }

  read();
  return {
    title: `Job ${id}`,
    close() { closed = true; log.end(); },
    render() {
      const live = present.jobs.get(id);
      const stale = live !== own.seen && Date.now() - own.at > 3000; // something happened to it
      if (stale) { own.seen = live; read(); }
      if (!own.record) return [heading("Job"), h("p", { class: own.problem ? "problem" : "caption" }, own.problem || "Asking …")];
      const job = live ? { ...own.record, ...defaults, ...live } : own.record;
      const over = OVER.includes(job.state);
      return [
        heading(jobName(job), stateBadge(stateOf(job))),
        h("p", { class: "caption wrap", key: "about" }, [job.id, job.owner && `of ${job.owner}`, `tenant ${job.tenant}`, job.group && `group ${job.group}`, job.model, job.adaptation !== "static" && job.adaptation]
          .filter(Boolean).join(" · ")),
        isOwn(job) && actions(job, over, act),
        own.said && h("p", { class: "notice", key: "said" }, own.said),
        whySection(job),
        own.story && storySection(job, own.story),
        own.story && speedSection(own.story),
        own.metrics && metricsSection(own.metrics),
        !over && askWhatIf(),
        isOwn(job) && h("section", { key: "output", id: "output" }, h("h2", null, "Output"), log.element.isConnected ? same("div", "log") : log.element),
      ];
    },
  };
}
const defaults = { held: false, starting: false, note: "", slots: {} }; // what the stream leaves out

function actions(job, over, act) {
  const request = (action) => () => ask("POST", "/jobs/actions", { action, jobs: [job.id] });
  const dialog = (which) => document.getElementById(which);
  return h("div", { class: "actions", key: "actions" },
    !over && button("Cancel …", () => dialog("cancel").showModal(), { class: "button danger" }),
    !over && (job.held ? button("Release", () => act("It may start again.", request("release")))
      : button("Hold", () => act(job.state === "running" ? "It is held from its next stop on." : "It is held back.", request("hold")))),
    !over && job.state === "running" && button("Requeue", () => act("It gives up its GPUs and waits again.", request("requeue"))),
    !over && button("Change …", () => dialog("change").showModal()),
    h("dialog", { id: "cancel", "aria-labelledby": "cancel-title" },
      h("h2", { id: "cancel-title" }, `Cancel ${jobName(job)}?`), h("p", null, "It is stopped, and does not come back."),
      h("div", { class: "actions" },
        button("Cancel the job", () => { dialog("cancel").close(); act("It is being cancelled.", () => ask("DELETE", `/jobs/${job.id}`)); }, { class: "button danger" }),
        button("Keep it", () => dialog("cancel").close()))),
    h("dialog", { id: "change", "aria-labelledby": "change-title" },
      h("h2", { id: "change-title" }, `Change ${jobName(job)}`),
      h("form", { onsubmit: (event) => change(event, job, act) },
        h("label", { class: "field" }, h("span", null, "weight"), h("input", { name: "weight", type: "number", step: "any", min: "0.000001", value: job.weight ?? 1 })),
        job.state === "waiting" && h("label", { class: "field" }, h("span", null, "GPUs"), h("input", { name: "gpus", type: "number", min: "0", value: job.gpus })),
        job.state === "waiting" && h("label", { class: "field" }, h("span", null, "epochs"), h("input", { name: "epochs", type: "number", min: "1", value: job.epochs })),
        h("label", { class: "field" }, h("span", null, "preemptible"), h("select", { name: "preemptible" },
          ["always", "when-saved", "never"].map((each) => h("option", { value: each, selected: each === job.preemptible }, each)))),
        h("div", { class: "actions" }, h("button", { class: "button primary", type: "submit" }, "Change"), button("Leave it", () => dialog("change").close())))));
}

function change(event, job, act) {
  event.preventDefault();
  const changes = {};
  for (const [name, value] of new FormData(event.target))
    if (String(value) !== String(job[name] ?? "")) changes[name] = name === "preemptible" ? value : Number(value);
  document.getElementById("change").close();
  if (Object.keys(changes).length) act("It was changed.", () => ask("PATCH", `/jobs/${job.id}`, changes));
}

function whySection(job) {
  const { why } = job;
  const pairs = [[progress(job), `${figure(Math.floor(job.epochs_done))} of ${one(job.epochs, "epoch")}`], [count(job.gpus), job.gpus === 1 ? "GPU" : "GPUs"], [moment(job.submitted), "submitted"]];
  if (job.started) pairs.push([moment(job.started), "first start"]);
  if (job.finished) pairs.push([moment(job.finished), job.state]);
  if (why.bid != null) pairs.push([figure(why.bid), "bids for a GPU-round"], [figure(why.price), "a GPU-round costs"], [count(why.ahead), "jobs bid more"]);
  if (why.expected_start != null && job.state === "waiting") pairs.push([startsIn(why.expected_start), why.start_low != null ? `starts; ${moment(why.start_low)} to ${moment(why.start_high)} in 8 of 10` : "starts"]);
  if (why.ftf != null) pairs.push([fairnessOf(why.ftf), `FTF, ${why.ftf_definition}`]);
  return section("why", job.state === "running" ? "Why it runs" : job.state === "waiting" ? "Why it waits" : "How it ended", "",
    h("p", { class: "reason" }, why.reason), facts(pairs),
    why.last_log_lines?.length > 0 && h("pre", { class: "log short", tabindex: "0" }, why.last_log_lines.join("\n")),
    why.finish != null && fairChart(job));
}

/** Its finish with the interval, beside the finish that would be fair. */
function fairChart(job) {
  const { why } = job;
  const times = [job.submitted, why.finish_low, why.finish, why.finish_high, why.fair_finish, Date.now() / 1000].filter((time) => time != null);
  const [low, last] = [Math.min(...times), Math.max(...times)];
  const high = last + (last - low) * 0.05 + 1;
  const wide = width();
  const at = canvas({ wide, high: 108, left: 12, right: 12, x: { low, high, ticks: timeTicks(low, high, wide / 110), text: (unix) => tickMoment(unix, high - low) }, y: { low: 0, high: 3, ticks: [] }, grid: "x" });
  const bar = (from, to, level, kind) => at.path(kind, `M${at.x(from)},${at.y(level) - 8}H${at.x(to)}v16H${at.x(from)}z`);
  bar(job.submitted, why.finish, 2, "area strong p0");
  bar(why.finish_low, why.finish_high, 2, "area p0");
  at.path("line p0", `M${at.x(why.finish)},${at.y(2) - 10}v20`);
  at.text("finish, 8 of 10 within the pale part", at.left + 4, at.y(2) + 4);
  if (why.fair_finish != null) {
    bar(job.submitted, why.fair_finish, 1, "area p2");
    at.path("line p2", `M${at.x(why.fair_finish)},${at.y(1) - 10}v20`);
    at.text(`fair finish, ${why.ftf_definition}`, at.left + 4, at.y(1) + 4);
  }
  const fair = why.fair_finish == null ? "" : ` A fair finish by the definition ${why.ftf_definition} is ${exactMoment(why.fair_finish)}; finish-time fairness is ${why.ftf?.toFixed(2)}, and above ${UNFAIR_ABOVE} it is unfair.`;
  return h("figure", null,
    at.svg(`Expected finish ${exactMoment(why.finish)}, between ${exactMoment(why.finish_low)} and ${exactMoment(why.finish_high)}.${fair}`),
    why.fair_finish != null && h("figcaption", { class: "caption" }, `Fair by ${why.ftf_definition}: ${DEFINITIONS[why.ftf_definition] ?? ""} It finishes ${why.finish <= why.fair_finish ? `${duration(why.fair_finish - why.finish)} before` : `${duration(why.finish - why.fair_finish)} after`} a fair share would have let it.`));
}

function storySection(job, story) {
  const now = Date.now() / 1000;
  const end = job.finished ?? now;
  const ran = story.runs.reduce((sum, run) => sum + (run.stop ?? end) - run.start, 0);
  const waited = Math.max(0, end - job.submitted - ran);
  const rounds = story.round_seconds;
  const wide = width();
  const at = canvas({ wide, high: 74, left: 12, right: 12, x: { low: job.submitted, high: Math.max(end, job.submitted + 1), ticks: timeTicks(job.submitted, end, wide / 110), text: (unix) => tickMoment(unix, end - job.submitted) }, y: { low: 0, high: 1, ticks: [] }, grid: "x" });
  at.path("waits", `M${at.left},${at.y(0.5)}H${at.right}`);
  for (const run of story.runs) {
    const [from, to] = [at.x(run.start), at.x(run.stop ?? end)];
    at.path("runs p0", `M${from},${at.y(0.85)}H${Math.max(to, from + 1.5)}V${at.y(0.15)}H${from}z`);
    if (run.stop) at.path(`ends ${ENDS[run.end]?.[0] ?? "p6"}`, `M${to},${at.y(1)}V${at.y(0)}`);
  }
  const handlers = pointed(at, (unix) => {
    const run = story.runs.find((each) => each.start <= unix && (each.stop ?? end) >= unix);
    if (!run) return { title: "waits", rows: [["", exactMoment(unix)]] };
    return { title: "runs", rows: [["p0", lasting(run.start, run.stop ?? end)], [ENDS[run.end]?.[0] ?? "", ENDS[run.end]?.[1] ?? run.end]] };
  });
  const ends = [...new Set(story.runs.map((run) => run.end))].filter(Boolean);
  return section("story", "Its story", "Bars are times in which it held its GPUs, the line between them is waiting; a mark at the end of a bar says how it lost them.",
    facts([
      [duration(ran), rounds ? `ran, ${count(Math.round(ran / rounds))} rounds` : "ran"], [duration(waited), rounds ? `waited, ${count(Math.round(waited / rounds))} rounds` : "waited"],
      [percent(ran / Math.max(end - job.submitted, 1)), "of its time it ran"], [count(job.starts), job.starts === 1 ? "start" : "starts"], [count(job.preemptions), "stopped or moved"], [count(job.crashes), "crashes"],
    ]),
    keys([["p0", "runs"], ...ends.map((how) => [ENDS[how]?.[0] ?? "p6", ENDS[how]?.[1] ?? how])]),
    at.svg(`It ran ${duration(ran)} in ${one(story.runs.length, "run")} and waited ${duration(waited)}`, handlers),
    story.runs.length > 0 && h("details", null, h("summary", null, "As a table"), h("table", { class: "plain" },
      h("thead", null, h("tr", null, ["from", "to", "for", "then"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, story.runs.toReversed().slice(0, 50).map((run) => h("tr", null,
        h("td", null, exactMoment(run.start)), h("td", null, run.stop ? exactMoment(run.stop) : "–"), h("td", null, duration((run.stop ?? end) - run.start)), h("td", null, ENDS[run.end]?.[1] ?? run.end)))))));
}

function speedSection(story) {
  const { speeds, ahead, regimes } = story;
  if (!speeds.length && !ahead.length) {
    return regimes.length > 0 && section("speed", "Its regimes", "", h("p", null, regimes.map((regime) => `${regime.configuration} from epoch ${regime.epoch} on`).join(", ")));
  }
  const last = Math.max(speeds.at(-1)?.epoch ?? 0, ahead.at(-1)?.epoch ?? 0, 1);
  const slow = Math.max(...speeds.map((each) => each.seconds), ...ahead.map((each) => each.high), 1e-6);
  const usual = speeds.map((each) => each.seconds).toSorted((a, b) => a - b)[Math.floor(speeds.length * 0.98)] ?? slow;
  const high = Math.max(usual * 1.25, ...ahead.map((each) => each.high * 1.1), 1e-6);
  const wide = width();
  const at = canvas({ wide, high: 220, left: 58, x: { low: 0, high: last, ticks: roundTicks(0, last, wide / 90, 1), label: "epoch" }, y: { low: 0, high, ticks: roundTicks(0, high, 4), text: (value) => duration(value) } });
  if (ahead.length) {
    const [up, down] = [ahead.map((each) => `${at.x(each.epoch)},${at.y(each.high)}`), ahead.toReversed().map((each) => `${at.x(each.epoch)},${at.y(each.low)}`)];
    at.path("area p1", `M${up.join("L")}L${down.join("L")}Z`);
    at.line("line p1", ahead.map((each) => [each.epoch, each.middle]));
  }
  at.line("line p0", speeds.map((each) => [each.epoch, Math.min(each.seconds, high)]));
  for (const regime of regimes.filter((each) => each.epoch > 0 && each.epoch <= last)) {
    at.path("guide", `M${at.x(regime.epoch)},${at.top}V${at.bottom}`);
    at.text(String(regime.configuration), at.x(regime.epoch) + 4, at.top + 10);
  }
  const near = (list, epoch) => list.reduce((best, each) => (best === null || Math.abs(each.epoch - epoch) < Math.abs(best.epoch - epoch) ? each : best), null);
  const handlers = pointed(at, (epoch) => {
    const seen = speeds.length && epoch <= speeds.at(-1).epoch + last * 0.01 ? near(speeds, epoch) : null;
    if (seen) return { title: `epoch ${figure(seen.epoch)}`, rows: [["p0", "took", duration(seen.seconds)], ["", "configuration", seen.configuration ?? "–"]] };
    const told = near(ahead, epoch);
    return told && { title: `epoch ${Math.round(told.epoch)}`, rows: [["p1", "expected", duration(told.middle)], ["p1", "8 of 10 within", `${duration(told.low)} to ${duration(told.high)}`]] };
  });
  return section("speed", "Speed and regimes", "Seconds per epoch: seen, and expected with the band that holds 8 of 10 sampled futures. Dashed lines are changes of the configuration.",
    keys([...(speeds.length ? [["p0", "seen"]] : []), ...(ahead.length ? [["p1", "expected"]] : [])]),
    at.svg(`Seconds per epoch${speeds.length ? `, last seen ${duration(speeds.at(-1).seconds)}` : ""}${ahead.length ? `, expected next ${duration(ahead[0].middle)}` : ""}`, handlers));
}

function metricsSection(metrics) {
  const names = Object.entries(metrics.metrics).filter(([, points]) => points.length > 0);
  const links = Object.entries(metrics.links).filter(([, url]) => /^https?:\/\//.test(url));
  if (!names.length && !links.length) return null;
  const wide = Math.min(width(), Math.max(280, (width() - 44) / Math.min(names.length, innerWidth > 1000 ? 3 : innerWidth > 620 ? 2 : 1)));
  return section("metrics", "What it reports", "By epoch, all launches together.",
    links.length > 0 && h("p", null, links.map(([name, url]) => h("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, `${name} `))),
    h("div", { class: "three" }, names.map(([name, points], index) => h("div", { key: name }, h("h3", null, name, h("span", { class: "soft" }, ` ${figure(points.at(-1).value)}`)),
      plot({ label: name, points: points.map((point) => [point.epoch, point.value]), colour: `p${index % 8}`, wide, text: figure, axis: "epoch" })))));
}

/** What the job writes, as it writes it. Keeps its own elements. */
function logPane(id) {
  const pre = h("pre", { class: "log", tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Output of the job" });
  const rank = h("input", { type: "number", min: "0", value: "0", "aria-label": "rank" });
  const note = h("span", { class: "soft", role: "status" });
  let stop = null;
  let text = "";
  let asked = false;
  let atEnd = true;
  const draw = () => {
    if (asked) return;
    asked = true;
    setTimeout(() => {
      asked = false;
      if (!pre.clientHeight) { draw(); return; } // not to be seen yet
      if (pre.textContent) atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 24;
      pre.textContent = text;
      if (atEnd) pre.scrollTop = pre.scrollHeight;
    }, 150);
  };
  async function run() {
    const own = new AbortController();
    stop = own;
    text = "";
    draw();
    note.textContent = "follows";
    try {
      await follow(`/jobs/${id}/logs?follow=true&launches=true&tail=1000&rank=${Number(rank.value) || 0}`, own.signal, (piece) => {
        text = (text + piece).slice(-LONGEST_LOG);
        draw();
      });
      note.textContent = "complete";
    } catch (error) {
      if (!own.signal.aborted) note.textContent = error.message;
    }
  }
  const pause = button("Pause", () => {
    if (stop) { stop.abort(); stop = null; note.textContent = "paused"; pause.textContent = "Follow"; }
    else { pause.textContent = "Pause"; run(); }
  });
  rank.onchange = () => { stop?.abort(); pause.textContent = "Pause"; run(); };
  const element = h("div", { key: "log" },
    h("div", { class: "actions" }, h("label", { class: "field inline" }, h("span", null, "rank"), rank), pause, note), pre);
  return { element, begin() { if (!stop && !note.textContent) run(); }, end() { stop?.abort(); stop = null; asked = true; } };
}

// Who runs when in the sampled futures, and what a GPU-round costs over time.

import { get } from "./api.js";
import { canvas, keys, plot, pointed, roundTicks, timeTicks, width } from "./chart.js";
import { h, s } from "./dom.js";
import { count, duration, exactMoment, figure, fromNow, moment, one, tickMoment } from "./format.js";
import { button, colours, facts, heading, jobName, section } from "./parts.js";
import { present } from "./present.js";
import { whatIf } from "./whatif.js";

const ROWS = 40;
const ROUNDS = 400;
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

export function planPage(address, refresh) {
  const own = { futures: null, rounds: [], round: null, problem: "", reading: false };
  const askWhatIf = whatIf(refresh);

  async function read(round) {
    own.reading = true;
    try {
      const after = Math.max(-1, (round?.round ?? 0) - ROUNDS);
      [own.futures, own.rounds] = await Promise.all([get("/plan/futures"), get(`/rounds?after=${after}&limit=${2 * ROUNDS}`).then((page) => page.items)]);
      own.problem = "";
    } catch (error) { own.problem = error.message; }
    own.reading = false;
    own.round = round?.round;
    refresh();
  }

  return {
    title: "Plan",
    render() {
      if (!own.reading && (own.futures === null || own.round !== present.round?.round)) read(present.round);
      const most = Number(address.query.get("rows") ?? ROWS);
      const round = present.round;
      return [
        heading("Plan"),
        round && facts([
          [count(round.round), "round"], [moment(round.time), "decided"], [duration(round.plan_seconds), "took the decision"], [count(round.running), "jobs chosen"],
          [count(round.active - round.running), "jobs wait"], ...(round.price != null ? [[figure(round.price), "price of a GPU-round"]] : []),
        ]),
        own.problem && h("p", { class: "problem" }, own.problem),
        own.futures && futuresSection(own.futures, most, address),
        own.rounds.length > 0 && priceSection(own.rounds, own.futures?.prices ?? []),
        askWhatIf(),
        !own.futures && !own.problem && h("p", { class: "caption" }, "Asking …"),
      ];
    },
  };
}

/** Of a policy that tells when it expects what, but no futures: early, expected and late. */
function expected() {
  const jobs = [...present.jobs.values()].filter((job) => job.why.finish != null).map(({ id, gpus, state, why }) => {
    const starts = state === "running" ? [0, 0, 0] : [why.start_low ?? why.expected_start ?? 0, why.expected_start ?? 0, why.start_high ?? why.expected_start ?? 0];
    return { id, gpus, starts, finishes: [why.finish_low ?? why.finish, why.finish, why.finish_high ?? why.finish] };
  });
  jobs.sort((a, b) => a.starts[1] - b.starts[1] || a.finishes[1] - b.finishes[1]);
  return { now: jobs.length ? present.round?.time ?? null : null, jobs, left_out: 0 };
}

function futuresSection(told, most, address) {
  const futures = told.now === null ? expected() : told;
  const caption = told.now === null ? "A row is a job, from its start to its finish, as the policy expects them: a bar each for early, expected and late, so that pale ends are doubt." : "A row is a job. Each sampled future adds a pale bar from its start to its finish, so dark is where most futures agree, and pale ends are doubt. Jobs may be stopped in between.";
  const jobs = futures.jobs.filter((job) => present.jobs.has(job.id));
  if (futures.now === null || !jobs.length) {
    return section("futures", "Who runs when", "", h("p", null, present.jobs.size && futures.now === null ? "The policy in force does not say when it expects jobs to start and finish, or has not decided yet: its choice for this round is on the page of the queue." : "No jobs are waiting or running."));
  }
  const shown = jobs.slice(0, most);
  const now = futures.now;
  const finishes = shown.flatMap((job) => job.finishes).toSorted((a, b) => a - b);
  const end = Math.max(now + 60, finishes[Math.floor(finishes.length * 0.97)] ?? 0);
  const [wide, row] = [width(), 22];
  const left = Math.min(170, wide * 0.34);
  const at = canvas({ wide, high: shown.length * row + 34, left, right: 12, top: 4, bottom: 26, grid: "x", x: { low: now, high: end, ticks: timeTicks(now, end, (wide - left) / 90), text: (unix) => tickMoment(unix, end - now) }, y: { low: 0, high: 1, ticks: [] } });
  const tenants = [...new Set(shown.map((job) => present.jobs.get(job.id).tenant))].toSorted();
  const colour = colours(tenants, "p", 7);
  shown.forEach((future, index) => {
    const job = present.jobs.get(future.id);
    const y = at.top + index * row;
    const opacity = 0.95 / future.starts.length + 0.05;
    if (index % 2) at.path("band", `M0,${y}H${wide}v${row}H0z`);
    const name = jobName(job);
    const room = Math.floor(left / 7) - 1;
    at.parts.push(s("a", { href: `/jobs/${job.id}`, "aria-label": `${name}, starts ${fromNow(median(future.starts))}, finishes ${fromNow(median(future.finishes))}` },
      s("text", { class: "label link", x: left - 8, y: y + 15, "text-anchor": "end" }, name.length > room ? `${name.slice(0, room - 1)}…` : name)));
    future.starts.forEach((start, sample) => {
      const [from, to] = [at.x(Math.min(Math.max(start, now), end)), at.x(Math.min(Math.max(future.finishes[sample], now), end))];
      at.path(`future ${colour(job.tenant)}`, `M${from},${y + 4}H${Math.max(to, from + 1)}v${row - 8}H${from}z`, { "fill-opacity": opacity.toFixed(3) });
    });
  });
  const handlers = pointed(at, (unix, down) => {
    const future = shown[Math.floor((down - at.top) / row)];
    if (!future) return null;
    const job = present.jobs.get(future.id);
    const sure = future.starts.filter((start, sample) => start <= unix && unix < future.finishes[sample]).length;
    return {
      title: jobName(job),
      rows: [[colour(job.tenant), `runs ${unix - now < 60 ? "now" : `at ${moment(unix)}`} in`, `${sure} of ${future.starts.length} futures`], ["", "starts", fromNow(median(future.starts))], ["", "finishes", fromNow(median(future.finishes))], ["", one(future.gpus, "GPU"), job.owner]],
    };
  });
  const svg = at.svg(`When ${one(shown.length, "job")} start and finish in ${jobs[0].starts.length} futures`, handlers);
  svg.setAttribute("role", "group");
  const total = futures.jobs.length + futures.left_out;
  return section("futures", "Who runs when", caption, tenants.length > 1 && keys(tenants.map((name) => [colour(name), name])), svg,
    h("div", { class: "turn" }, h("span", null, `${count(shown.length)} of ${one(total, "job")}, those that start soonest.`),
      shown.length < jobs.length && button("Show more", () => address.set({ rows: most + ROWS }))));
}

function priceSection(rounds, ahead) {
  const priced = rounds.filter((round) => round.price !== null);
  return section("price", "Price of a GPU-round", "What a GPU-round cost in each decision: the highest bid that was not served, in seconds of completion time. 0 means that there were GPUs for everybody. Below, how busy each round found the cluster.",
    priced.length > 1 || ahead.length ? prices(priced, ahead) : h("p", null, "The policy in force has no prices, or there were not enough rounds yet."),
    ahead.length > 0 && h("p", { class: "caption" }, "Right of the line is what is expected: the middle of the sampled futures, and within the band four in five of them, with bids as they are now and without jobs that are still to come."),
    rounds.length > 1 && plot({ label: "GPUs busy", points: rounds.map((round) => [round.round, round.gpus_busy]), colour: "p2", wide: width(), high: 130, text: figure, axis: "round" }),
    h("p", { class: "caption" }, `Rounds ${count(rounds[0].round)} to ${count(rounds.at(-1).round)}, ${exactMoment(rounds[0].time)} to ${exactMoment(rounds.at(-1).time)}.`));
}

/** Of the rounds that were, and of the time that is foreseen: past and future get half of the room each. */
function prices(priced, ahead) {
  const now = ahead[0]?.time ?? priced.at(-1).time;
  const end = ahead.at(-1)?.time ?? now;
  const past = priced.filter((round) => round.time <= now && (!ahead.length || round.time >= now - (end - now)));
  const points = past.map((round) => [round.time, round.price]);
  const begin = Math.min(points[0]?.[0] ?? now, now - 1);
  const most = Math.max(0, ...points.map((point) => point[1]), ...ahead.map((point) => point.high)) || 1;
  const wide = width();
  const at = canvas({
    wide, high: 210, left: 56,
    x: { low: begin, high: Math.max(end, now), ticks: timeTicks(begin, Math.max(end, now), wide / 90), text: (unix) => tickMoment(unix, end - begin) },
    y: { low: 0, high: most * 1.06, ticks: roundTicks(0, most, 4), text: figure },
  });
  if (ahead.length) {
    const there = ahead.map((point) => `${at.x(point.time)},${at.y(point.high)}`);
    const back = ahead.toReversed().map((point) => `${at.x(point.time)},${at.y(point.low)}`);
    at.path("area p1", `M${[...there, ...back].join("L")}Z`);
    at.line("line p1", ahead.map((point) => [point.time, point.middle]));
    at.path("mark", `M${at.x(now)},${at.y(most * 1.06)}V${at.y(0)}`);
  }
  if (points.length) at.line("line p0", points);
  const nearest = (list, unix, time) => list.reduce((best, each) => (Math.abs(time(each) - unix) < Math.abs(time(best) - unix) ? each : best));
  const words = [points.length && `price now ${figure(points.at(-1)[1])}`, ahead.length && `expected ${figure(ahead[0].middle)}, and ${figure(ahead.at(-1).middle)} ${fromNow(end)}`].filter(Boolean).join("; ");
  return [ahead.length > 0 && keys([["p0", "as it was"], ["p1", "expected"]]), at.svg(words, pointed(at, (unix) => {
    if (unix > now && ahead.length) {
      const point = nearest(ahead, unix, (each) => each.time);
      return { title: moment(point.time), rows: [["p1", "expected", figure(point.middle)], ["", "four in five", `${figure(point.low)} to ${figure(point.high)}`]] };
    }
    if (!past.length) return null;
    const round = nearest(past, unix, (each) => each.time);
    return { title: `round ${count(round.round)}, ${moment(round.time)}`, rows: [["p0", "price", figure(round.price)]] };
  }))];
}

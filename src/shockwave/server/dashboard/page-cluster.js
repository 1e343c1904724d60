// Nodes by type, every GPU and who holds it, and how busy the cluster was in the last day.

import { ask } from "./api.js";
import { keys, overTime } from "./chart.js";
import { h, hideTip, same, say, showTip } from "./dom.js";
import { count, duration, figure, one, percent } from "./format.js";
import { button, colours, day, facts, heading, jobName, me, section, stateOf, waitingFor } from "./parts.js";
import { present } from "./present.js";

const DENSE = 160; // GPUs above which there is no room for names

/** node → slot → job */
function holders() {
  const held = new Map(present.nodes.map((node) => [node.id, new Map()]));
  for (const job of present.jobs.values())
    for (const [node, slots] of Object.entries(job.slots ?? {}))
      for (const slot of slots) held.get(node)?.set(slot, job);
  return held;
}

export function clusterPage(_, refresh) {
  const drawn = new Map(); // node → what its card shows
  return {
    title: "Cluster",
    render() {
      const nodes = present.nodes;
      const gpus = nodes.reduce((sum, node) => sum + node.gpus, 0);
      const up = nodes.filter((node) => node.state === "up").reduce((sum, node) => sum + node.gpus - node.gpus_others, 0);
      const busy = nodes.reduce((sum, node) => sum + node.gpus_busy, 0);
      const jobs = [...present.jobs.values()];
      const running = jobs.filter((job) => job.state === "running").length;
      return [
        heading("Cluster"),
        facts([
          [`${count(busy)} of ${count(up)}`, "GPUs busy"], [percent(up ? busy / up : 0), "in use"],
          [count(nodes.length), nodes.length === 1 ? "node" : "nodes"], [count(running), "jobs run"],
          [count(jobs.length - running), "jobs wait"],
          ...(present.round?.price != null ? [[figure(present.round.price), "price of a GPU-round"]] : []),
          ...(present.round ? [[count(present.round.round), "round"]] : []),
        ]),
        lastDay(refresh, gpus),
        types(nodes, drawn, refresh),
      ];
    },
  };
}

function lastDay(refresh, gpus) {
  const own = day("last");
  const record = own.read(refresh);
  if (!record) return section("usage", "The last 24 hours", "", waitingFor(own, "the journal"));
  const hours = record.gpus_busy.reduce((sum, value) => sum + value, 0) / record.gpus_busy.length;
  const seconds = record.end - record.begin;
  return section("usage", seconds < 86000 ? `The last ${duration(seconds)}` : "The last 24 hours",
    "GPUs that jobs held, starts included; dashed, those that were up. Below, jobs without GPUs. Read from the journal once a minute.",
    h("h3", null, "GPUs in use"),
    overTime({
      label: `GPUs in use over time, on average ${figure(hours)} of ${gpus}`, begin: record.begin, end: record.end,
      areas: [{ name: "in use", values: record.gpus_busy, colour: "p0" }], ceiling: record.gpus_up, most: Math.max(gpus, 1),
      text: figure,
    }),
    h("h3", null, "Jobs that wait"),
    overTime({
      label: "Jobs that wait over time", begin: record.begin, end: record.end, high: 96,
      areas: [{ name: "wait", values: record.waiting, colour: "p1" }], most: Math.max(1, ...record.waiting), text: figure,
    }));
}

function types(nodes, drawn, refresh) {
  const byType = Map.groupBy(nodes, (node) => node.gpu_type || "gpu");
  const held = holders();
  const running = [...held.values()].flatMap((slots) => [...slots.values()]);
  const tenants = [...new Set(running.map((job) => job.tenant))].toSorted();
  const owners = [...new Set(running.map((job) => job.owner))].toSorted();
  const [what, names, of] = tenants.length > 1 || owners.length <= 1
    ? ["tenant", tenants, (job) => job.tenant] : ["owner", owners, (job) => job.owner];
  const colour = colours(names);
  const dense = nodes.reduce((sum, node) => sum + node.gpus, 0) > DENSE;
  return [...byType].map(([type, some]) => {
    const total = some.reduce((sum, node) => sum + node.gpus, 0);
    const busy = some.reduce((sum, node) => sum + node.gpus_busy, 0);
    return section(`type-${type}`, type === "gpu" ? "GPUs" : type,
      `${one(some.length, "node")}, ${busy} of ${one(total, "GPU")} busy. A field is a GPU, coloured by ${what}; the fields of a gang are joined. Rest on one to see its job, or follow it.`,
      names.length > 0 && keys([...names.slice(0, 8).map((name) => [colour(name), name || "nobody"]), ...(names.length > 8 ? [["m8", `${names.length - 8} others`]] : [])]),
      h("div", { class: `nodes${dense ? " dense" : ""}` }, some.map((node) => {
        const slots = held.get(node.id);
        const shows = JSON.stringify([node, [...slots].map(([slot, job]) => [slot, job.id, job.name, colour(of(job))]), dense]);
        if (drawn.get(node.id) === shows) return same("article", node.id);
        drawn.set(node.id, shows);
        return nodeCard(node, slots, (job) => colour(of(job)), dense, refresh);
      })));
  });
}

function nodeCard(node, slots, colour, dense, refresh) {
  const cells = [];
  const unknown = Math.max(0, node.gpus_busy - slots.size); // of jobs that are not ours to see
  let hidden = 0;
  let others = node.gpus_others;
  for (let slot = 0; slot < node.gpus; slot++) {
    const job = slots.get(slot);
    if (job) {
      const joined = slot > 0 && slots.get(slot - 1) === job;
      let span = 1;
      while (slots.get(slot + span) === job) span++;
      const name = dense ? "" : job.name && job.name !== job.id ? job.name : job.owner || job.id;
      cells.push(h("li", { class: joined ? "joined" : null },
        h("a", {
          class: `gpu held ${colour(job)}`, href: `/jobs/${job.id}`, onpointermove: (event) => tellJob(event, present.jobs.get(job.id) ?? job), onpointerleave: hideTip,
          "aria-label": `GPU ${slot}: ${jobName(job)}${job.owner ? ` of ${job.owner}` : ""}`,
        }, name && !joined ? h("span", { style: { "--span": span } }, name) : null)));
      continue;
    }
    let [kind, said] = ["free", "free"];
    if (node.state !== "up") [kind, said] = ["off", node.state];
    else if (hidden < unknown) { hidden++; [kind, said] = ["unknown", "held by somebody"]; }
    else if (others > 0) { others--; [kind, said] = ["others", "held by others than this scheduler"]; }
    cells.push(h("li", null, h("span", { class: `gpu ${kind}`, role: "img", "aria-label": `GPU ${slot}: ${said}`, title: said })));
  }
  const act = async () => {
    const doing = node.state === "drained" ? "resume" : "drain";
    try {
      await ask("POST", `/nodes/${encodeURIComponent(node.id)}/${doing}`);
      say(`${node.id}: ${doing === "drain" ? "is being drained" : "goes back into service"}`);
    } catch (error) { say(error.message); }
    refresh();
  };
  return h("article", { class: `node ${node.state}`, key: node.id, "aria-label": `Node ${node.id}` },
    h("div", { class: "node-head" }, h("b", null, node.id),
      node.state !== "up" && h("span", { class: `state ${node.state}`, title: node.reason }, node.state),
      h("span", { class: "soft" }, `${node.gpus_busy}/${node.gpus}`),
      me.operator && node.state !== "down" && button(node.state === "drained" ? "Resume" : "Drain", act, { class: "button small" })),
    node.reason && h("p", { class: "soft small" }, node.reason),
    h("ul", { class: "gpus", style: { "--gpus": Math.min(node.gpus, dense ? 16 : 8) } }, cells));
}

function tellJob(event, job) {
  showTip(event, jobName(job), [
    ["", job.owner ? `of ${job.owner}` : "", job.tenant],
    ["", stateOf(job), one(job.gpus, "GPU")],
    ["", "progress", `${Math.floor((100 * job.epochs_done) / job.epochs)} %`],
  ]);
}

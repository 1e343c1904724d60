// What is now: jobs, nodes and the last round, kept up to date by one stream of changes.

import { followEvents } from "./api.js";

export const present = { jobs: new Map(), nodes: [], round: null, totals: null, version: 0, live: false };

let changed = () => {};
let stop = null;
let asked = false;

/** Calls this, before the next frame, after something changed. */
export const whenPresentChanges = (act) => { changed = act; };

function tell() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; changed(); });
}

function take(told) {
  if (told.all) present.jobs.clear();
  for (const job of told.jobs) present.jobs.set(job.id, job);
  for (const id of told.gone) present.jobs.delete(id);
  for (const part of ["nodes", "round", "totals"]) if (part in told) present[part] = told[part];
  present.version = told.version;
  present.live = true;
  tell();
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** Goes on until `leavePresent`, over lost connections. */
export async function followPresent() {
  leavePresent();
  const own = new AbortController();
  stop = own;
  while (!own.signal.aborted) {
    try {
      await followEvents("/present", own.signal, take);
    } catch (error) {
      if (own.signal.aborted || error.status === 401) return;
    }
    present.live = false;
    tell();
    await pause(2000);
  }
}

export function leavePresent() {
  stop?.abort();
  stop = null;
}

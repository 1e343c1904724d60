// The scheduler over HTTP. A session is a cookie, which the browser sends by itself, and a key,
// which this page keeps and sends as a header: pages from elsewhere have neither.

const KEY = "shockwave-key";
const API = "/api/v1";

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

let ended = () => {};
/** Calls this when the session is over. */
export const whenSignedOut = (act) => { ended = act; };

const headers = () => ({ "Shockwave-Key": localStorage.getItem(KEY) ?? "" });

async function open(method, path, { body, signal } = {}) {
  const sent = body === undefined ? {} : { "Content-Type": "application/json" };
  const response = await fetch(API + path, {
    method, signal, headers: { ...headers(), ...sent },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.ok) return response;
  let text = `The scheduler answered ${response.status}.`;
  try { text = (await response.json()).detail; } catch { /* not ours */ }
  if (response.status === 401) ended();
  throw new Refused(response.status, text);
}

export async function ask(method, path, body) {
  const response = await open(method, path, { body });
  return response.status === 204 ? null : response.json();
}
export const get = (path) => ask("GET", path);

/** Calls `take` with each piece of text of a response that goes on. */
export async function follow(path, signal, take) {
  const response = await open("GET", path, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    take(value);
  }
}

/** Calls `take` with the data of each server-sent event. */
export function followEvents(path, signal, take) {
  let text = "";
  return follow(path, signal, (piece) => {
    text += piece;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const data = text.slice(0, end).split("\n").find((line) => line.startsWith("data: "));
      text = text.slice(end + 2);
      if (data) take(JSON.parse(data.slice(6)));
    }
  });
}

/** Who is signed in; null for nobody. Never fails because nobody is. */
export async function whoAmI() {
  if (!localStorage.getItem(KEY)) return null;
  return (await get("/session")).me;
}

/** `how` is {token} or {code}. */
export async function signIn(how) {
  const { me, key } = await ask("POST", "/session", how);
  localStorage.setItem(KEY, key);
  return me;
}

export async function signOut() {
  try { await ask("DELETE", "/session"); } finally { localStorage.removeItem(KEY); }
}

/** When another tab signs in or out. */
export const whenOtherTabs = (act) => addEventListener("storage", (event) => { if (event.key === KEY) act(); });

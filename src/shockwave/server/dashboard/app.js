// Which page is shown, who is signed in, and when things are drawn again.

import { signIn, signOut, whenOtherTabs, whenSignedOut, whoAmI } from "./api.js";
import { h, hideTip, say, show } from "./dom.js";
import { clusterPage } from "./page-cluster.js";
import { fairnessPage } from "./page-fairness.js";
import { historyPage } from "./page-history.js";
import { jobPage } from "./page-job.js";
import { planPage } from "./page-plan.js";
import { queuePage } from "./page-queue.js";
import { button, heading, me } from "./parts.js";
import { followPresent, leavePresent, present, whenPresentChanges } from "./present.js";

const PAGES = [
  [/^\/$/, clusterPage], [/^\/queue$/, queuePage], [/^\/jobs\/([^/]+)$/, jobPage], [/^\/plan$/, planPage],
  [/^\/fairness$/, fairnessPage], [/^\/history$/, historyPage],
];
const content = document.getElementById("content");
let page = null;
let signedIn = false;
let asked = false;

/** Draws the page again, before the next frame. */
function refresh() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

function draw() {
  drawHeader();
  if (!signedIn || !page) return;
  if (present.version === 0) show(content, h("p", { class: "caption", key: "loading" }, "Asking the scheduler …"));
  else show(content, page.render());
}

function drawHeader() {
  for (const link of document.querySelectorAll("#pages a")) {
    const path = link.getAttribute("href");
    const here = path === location.pathname || (path === "/queue" && location.pathname.startsWith("/jobs/"));
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  show(document.getElementById("me"), signedIn && [
    h("span", { class: `live ${present.live ? "on" : "off"}` }, present.live ? "live" : "connecting"),
    h("span", { class: "who" }, me.user || "operator", me.operator && me.user && h("small", null, "operator")),
    button("Sign out", leave, { class: "button small" }),
  ]);
}

/** Where we are, and how to say that in the address. */
function address(match) {
  const query = new URLSearchParams(location.search);
  return {
    query, params: match.slice(1).map(decodeURIComponent),
    set(changes) {
      for (const [name, value] of Object.entries(changes)) {
        query.delete(name);
        for (const each of [value].flat()) if (each !== null && each !== "") query.append(name, each);
      }
      history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
      refresh();
    },
  };
}

function openPage(byHand) {
  page?.close?.();
  hideTip();
  page = null;
  if (!signedIn) return;
  for (const [pattern, make] of PAGES) {
    const match = pattern.exec(location.pathname);
    if (match) page = make(address(match), refresh);
  }
  page ??= { title: "Not found", render: () => [heading("There is no such page")] };
  document.title = `${page.title} · Shockwave`;
  show(content);
  draw();
  if (byHand) {
    scrollTo(0, 0);
    (content.querySelector("h1") ?? content).focus({ preventScroll: true });
    say(page.title);
  }
}

addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='/']");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || link.pathname === "/docs") return;
  event.preventDefault();
  if (link.href !== location.href) history.pushState(null, "", link.href);
  openPage(true);
});
addEventListener("popstate", () => openPage(true));
addEventListener("resize", refresh);
whenPresentChanges(refresh);
setInterval(() => { if (!document.hidden && page?.ticks !== false) refresh(); }, 5000);

// Who is here.

async function begin() {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
  let problem = "";
  let who = null;
  if (code) history.replaceState(null, "", location.pathname + location.search); // it is good for nothing any more
  try {
    who = code ? await signIn({ code }) : await whoAmI();
  } catch (error) { problem = error.message; }
  if (who) enter(who);
  else askWho(problem);
}

function enter(who) {
  Object.assign(me, who);
  signedIn = true;
  followPresent();
  openPage(false);
}

async function leave() {
  leavePresent();
  try { await signOut(); } catch { /* then it was over already */ }
  location.assign("/");
}

function askWho(problem) {
  signedIn = false;
  leavePresent();
  page?.close?.();
  page = null;
  document.title = "Sign in · Shockwave";
  drawHeader();
  const submit = async (event) => {
    event.preventDefault();
    try {
      enter(await signIn({ token: new FormData(event.target).get("token").trim() }));
    } catch (error) { askWho(error.message); }
  };
  show(content,
    heading("Sign in"),
    h("section", { class: "sign-in", key: "sign-in" },
      h("p", null, "On the machine of the scheduler, ", h("code", null, "shockwave open"), " makes a link that signs you in as the user that you are there."),
      h("form", { onsubmit: submit },
        h("label", { class: "field" }, h("span", null, "Or a token"), h("input", { name: "token", type: "password", autocomplete: "current-password", required: true, "aria-describedby": problem ? "problem" : null })),
        h("button", { class: "button primary", type: "submit" }, "Sign in")),
      problem && h("p", { class: "problem", id: "problem", role: "alert" }, problem)));
}

whenSignedOut(() => { if (signedIn) askWho("The session is over: sign in again."); });
whenOtherTabs(() => location.reload());
addEventListener("hashchange", () => { if (location.hash.startsWith("#code=")) begin(); }); // a link, pasted here
begin();

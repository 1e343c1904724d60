"use strict";
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const tip = document.getElementById("tip");

  function duration(seconds) {
    let left = Math.round(seconds);
    const parts = [];
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]]) {
      if (left >= size) { parts.push(Math.floor(left / size) + " " + unit); left %= size; }
    }
    return parts.slice(0, 2).join(" ") || "0";
  }

  // Text only: names come from users.
  function element(name, text, kind) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  function showTip(event, ...content) {
    tip.replaceChildren(...content);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = event.clientX + 16 + box.width > innerWidth;
    tip.style.left = Math.max(4, right ? event.clientX - box.width - 14 : event.clientX + 16) + "px";
    tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 4)) + "px";
  }
  const hideTip = () => { tip.hidden = true; };

  // Policies on and off, everywhere at once.
  for (const chip of all(".chip")) {
    chip.addEventListener("click", () => {
      const on = chip.getAttribute("aria-pressed") !== "true";
      chip.setAttribute("aria-pressed", on);
      for (const part of all(`[data-policy="${chip.dataset.chip}"]`)) {
        if (part.tagName === "TR") part.classList.toggle("off", !on);
        else if (part instanceof SVGElement) part.style.display = on ? "" : "none";
        else part.hidden = !on;
      }
    });
  }

  // Gantt charts, one at a time.
  const tabs = all(".tab");
  const choose = (tab) => {
    for (const other of tabs) {
      other.setAttribute("aria-selected", other === tab);
      document.getElementById(other.getAttribute("aria-controls")).hidden = other !== tab;
    }
  };
  for (const tab of tabs) tab.addEventListener("click", () => choose(tab));
  if (tabs.length) choose(tabs[0]);

  // Columns explain themselves, and sort.
  for (const head of all("thead th[data-tip]")) {
    const explain = (event) => showTip(event, element("span", head.dataset.tip));
    head.addEventListener("mousemove", explain);
    head.addEventListener("mouseleave", hideTip);
    head.addEventListener("focus", () => {
      const box = head.getBoundingClientRect();
      explain({ clientX: box.left, clientY: box.bottom });
    });
    head.addEventListener("blur", hideTip);
    const sort = () => {
      const column = all("thead th[data-tip]").indexOf(head);
      const up = head.getAttribute("aria-sort") !== "ascending";
      all("thead th[data-tip]").forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const value = (row) => parseFloat(all("td", row)[column].dataset.value);
      const rows = all("#comparison tbody tr").sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
        return up ? x - y : y - x;
      });
      document.querySelector("#comparison tbody").append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  }

  // Where the pointer is, in the units of a chart's own coordinates.
  function position(svg, event) {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  // A step path, read back: its level (in pixels) at x.
  const parsed = new WeakMap();
  function levelAt(path, x) {
    if (!parsed.has(path)) {
      const points = [];
      let at = 0;
      for (const [, command, first, second] of path.getAttribute("d").matchAll(/([MHV])([-\d.]+)(?:,([-\d.]+))?/g)) {
        if (command === "M") { at = +first; points.push([at, +second]); }
        else if (command === "H") at = +first;
        else points.push([at, +first]);
      }
      parsed.set(path, points);
    }
    let level = null;
    for (const [start, value] of parsed.get(path)) { if (start > x) break; level = value; }
    return level;
  }

  for (const svg of all("svg.lines, svg.areas")) {
    const data = svg.dataset;
    const [left, right, top, bottom] = [+data.left, +data.right, +data.top, +data.bottom];
    const cursor = svg.querySelector(".cursor");
    const lines = svg.classList.contains("lines");
    svg.addEventListener("mouseleave", () => { hideTip(); cursor.style.visibility = "hidden"; });
    svg.addEventListener("mousemove", (event) => {
      const x = Math.min(Math.max(position(svg, event)[0], left), right);
      cursor.setAttribute("transform", `translate(${x} 0)`);
      cursor.style.visibility = "visible";
      const part = (x - left) / (right - left);
      const [low, high] = [+data.low, +data.high];
      const value = data.log === "1" ? low * (high / low) ** part : low + part * (high - low);
      const rows = [];
      for (const path of all(lines ? ".line" : ".area", svg)) {
        if (path.style.display === "none") continue;
        const share = (bottom - (levelAt(path, x) ?? bottom)) / (bottom - top);
        const row = element("div");
        row.append(element("i", "", lines ? path.classList[1] : svg.classList[2]), element("span", path.dataset.name));
        row.append(element("span", data.unit === "count" ? (share * data.yHigh).toFixed(1) : (100 * share * (data.yHigh || 1)).toFixed(0) + " %"));
        rows.push([share, row]);
      }
      if (lines) rows.sort((a, b) => b[0] - a[0]);
      const title = lines && data.unit === "ratio" ? "at or below " + value.toFixed(2)
        : lines ? "within " + duration(value) : "at " + duration(value);
      showTip(event, element("b", title), ...rows.map((pair) => pair[1]));
    });
  }

  // Bars of a Gantt chart, read back from their paths when the pointer first comes near.
  const bars = new WeakMap();
  function barsOf(svg) {
    if (!bars.has(svg)) {
      const data = JSON.parse(svg.dataset.owners);
      const found = [];
      for (const path of all(".bars", svg)) {
        const owners = data.owners[path.dataset.model];
        let index = 0;
        for (const match of path.getAttribute("d").matchAll(/M(\d+) (\d+)h(\d+)v([\d.]+)/g)) {
          const [x, y, width, height] = match.slice(1).map(Number);
          found.push({ x, y, width, height, job: owners[index++] });
        }
      }
      bars.set(svg, { jobs: data.jobs, found });
    }
    return bars.get(svg);
  }
  for (const svg of all("svg.gantt")) {
    const data = svg.dataset;
    const chosen = svg.querySelector(".chosen");
    const leave = () => { hideTip(); svg.classList.remove("picking"); chosen.removeAttribute("d"); };
    svg.addEventListener("mouseleave", leave);
    svg.addEventListener("mousemove", (event) => {
      const [px, py] = position(svg, event);
      const [time, slot] = [(px - data.left) / data.x, (py - data.top) / data.y];
      const { jobs, found } = barsOf(svg);
      const bar = found.find((b) => time >= b.x && time <= b.x + b.width && slot >= b.y && slot <= b.y + b.height);
      if (!bar) { leave(); return; }
      svg.classList.add("picking");
      const same = found.filter((b) => b.job === bar.job);
      chosen.setAttribute("d", same.map((b) => `M${b.x} ${b.y}h${b.width}v${b.height}H${b.x}z`).join(""));
      const [id, model, gpus] = jobs[bar.job];
      showTip(event, element("b", "Job " + id),
        element("div", (model ? model + ", " : "") + gpus + (gpus === 1 ? " GPU" : " GPUs")),
        element("div", duration(bar.x) + " to " + duration(bar.x + bar.width) + " (" + duration(bar.width) + ")"));
    });
  }
})();

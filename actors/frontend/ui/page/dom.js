// Makes elements. Every string becomes a text node or an attribute, never markup,
// and passes through visible(), so that nothing invisible hides in it.

// C0 and C1 controls but tab and newline, DEL, bidirectional controls, zero-width
// characters, tags, variation selectors' supplement, lone surrogates.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]|\p{Cs}/gu;
const HIDDEN_LINE = /[\n\t]/g;

function name(c) {
  const n = c.codePointAt(0);
  if (n < 0x20) return String.fromCodePoint(0x2400 + n);
  if (n === 0x7f) return "\u2421";
  return "\u27e8U+" + n.toString(16).toUpperCase().padStart(4, "0") + "\u27e9";
}

// visible shows what would be invisible or would reorder the text around it.
export function visible(s) {
  return String(s).replace(HIDDEN, name);
}

// oneLine is visible for text that must stay in one line.
export function oneLine(s) {
  return visible(s).replace(HIDDEN_LINE, (c) => (c === "\n" ? "\u23ce" : " "));
}

const SHOWN = new Set(["title", "alt", "placeholder", "aria-label", "aria-description", "value"]);

function fill(e, props, children) {
  for (const [k, v] of Object.entries(props ?? {})) {
    if (v === undefined || v === null || v === false) continue;
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (k === "class") e.setAttribute("class", v);
    else if (k === "style") for (const [p, x] of Object.entries(v)) e.style.setProperty(p, x);
    else e.setAttribute(k, v === true ? "" : SHOWN.has(k) ? visible(v) : v);
  }
  add(e, children);
  return e;
}

function add(e, children) {
  for (const c of children) {
    if (c === undefined || c === null || c === false) continue;
    if (Array.isArray(c)) add(e, c);
    else e.append(c instanceof Node ? c : document.createTextNode(visible(c)));
  }
}

// h makes an element of HTML: h("p", {class: "x", onclick: f}, "text", child).
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

// s makes an element of SVG.
export function s(tag, props, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

export function replace(e, ...children) {
  e.replaceChildren();
  add(e, children);
  return e;
}

// pathText is a path in one line, with spaces that would not be seen.
export const pathText = (p) => oneLine(p).replace(/^ +| +$/g, (t) => "\u2423".repeat(t.length));

// path and command are isolated from the direction of the text around them.
export const path = (p, cls = "") => h("bdi", { class: "path " + cls, dir: "ltr", title: oneLine(p) }, pathText(p));
export const command = (c, cls = "") => h("bdi", { class: "cmd " + cls, dir: "ltr", title: c }, oneLine(c));

export function bytes(n) {
  if (n === undefined || n === null) return "";
  let u = 0;
  for (n = Number(n); Math.abs(n) >= 1024 && u < 5; u++) n /= 1024;
  return (u === 0 ? n : n.toFixed(n < 10 ? 1 : 0)) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][u];
}

export function duration(ms) {
  if (!(ms >= 0)) return "";
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 59.5e3) return (ms / 1000).toFixed(ms < 9950 ? 1 : 0) + " s";
  ms = Math.round(ms / 1000) * 1000; // there is no minute of 60 seconds
  if (ms < 3600e3) return Math.floor(ms / 60e3) + " min " + (ms % 60e3) / 1000 + " s";
  ms = Math.round(ms / 60e3) * 60e3;
  if (ms < 86400e3) return Math.floor(ms / 3600e3) + " h " + Math.round((ms % 3600e3) / 60e3) + " min";
  return Math.floor(ms / 86400e3) + " d " + Math.round((ms % 86400e3) / 3600e3) + " h";
}

export const count = (n, one, many = one + "s") => Number(n).toLocaleString("en") + " " + (Number(n) === 1 ? one : many);

const two = (n) => String(n).padStart(2, "0");

// clock is a time of today, or a date.
export function clock(t) {
  const d = new Date(t);
  if (Number.isNaN(d.getTime()) || d.getFullYear() < 1980) return "";
  const time = two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds());
  if (d.toDateString() === new Date().toDateString()) return time;
  return d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate()) + " " + time.slice(0, 5);
}

export function when(t) {
  const text = clock(t);
  return text && h("time", { datetime: new Date(t).toISOString(), title: new Date(t).toLocaleString() }, text);
}

// table makes a table of rows of cells.
export function table(caption, head, rows, props) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", props,
      h("caption", { class: "hidden" }, caption),
      h("thead", null, h("tr", null, head.map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", null, rows.map((r) => h("tr", { class: r.class }, (r.cells ?? r).map((c) => h("td", null, c)))))));
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter((p) => p && p[1] !== undefined && p[1] !== null && p[1] !== "")
    .map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v))));
}

export const button = (text, onclick, props) => h("button", { type: "button", onclick, ...props }, text);
export const empty = (...text) => h("p", { class: "empty" }, ...text);

export function problem(err) {
  return h("div", { class: "problem", role: "alert" }, h("strong", null, err?.message ?? err), err?.hint && h("p", null, err.hint));
}

// reduced tells whether the reader wants no movement.
export const reduced = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

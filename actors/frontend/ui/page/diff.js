// Shows a unified diff as it streams in, in one or two columns.
import { button, count, h, oneLine, replace, visible } from "./dom.js";
import { stream } from "./api.js";
import { List } from "./list.js";
import { colour, language } from "./syntax.js";

const MOST_LINES = 1_000_000; // what the page keeps of one diff
const MOST_WIDTH = 4000; // characters shown of one line

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

// Parser turns lines of a unified diff into {t, text, a, b, lang}: t is " ", "+",
// "-", "@" (a hunk), "f" (a file) or "i" (anything else); a and b are line numbers.
export class Parser {
  constructor() {
    this.lines = [];
    this.a = this.b = 0;
    this.lang = null;
    this.inHunk = false;
    this.longest = 0;
    this.added = this.removed = 0;
  }

  push(text) {
    if (text.endsWith("\r")) text = text.slice(0, -1) + "\u240d";
    const l = this.one(text);
    if (l) {
      this.lines.push(l);
      if (text.length > this.longest) this.longest = text.length;
    }
    return this.lines.length < MOST_LINES;
  }

  one(text) {
    const c = text[0];
    if (text.startsWith("diff --git ")) {
      this.inHunk = false;
      this.lang = language(text.replace(/"$/, ""));
      return { t: "f", text: text.slice(11) };
    }
    const m = HUNK.exec(text);
    if (m) {
      this.inHunk = true;
      [this.a, this.b] = [Number(m[1]), Number(m[2])];
      return { t: "@", text };
    }
    if (this.inHunk) {
      if (c === "+") return this.added++, { t: "+", text: text.slice(1), b: this.b++, lang: this.lang };
      if (c === "-") return this.removed++, { t: "-", text: text.slice(1), a: this.a++, lang: this.lang };
      if (c === " " || text === "") return { t: " ", text: text.slice(1), a: this.a++, b: this.b++, lang: this.lang };
      if (c === "\\") return { t: "i", text: text.slice(2) };
      this.inHunk = false;
    }
    if (text === "" || text.startsWith("index ")) return null;
    if (text.startsWith("--- ") || text.startsWith("+++ ")) return null;
    return { t: "i", text };
  }
}

// sides pairs removed and added lines for two columns.
export function sides(lines) {
  const out = [];
  for (let i = 0; i < lines.length; ) {
    const l = lines[i];
    if (l.t !== "-" && l.t !== "+") {
      out.push(l.t === " " ? { left: l, right: l } : { whole: l });
      i++;
      continue;
    }
    const left = [], right = [];
    for (; i < lines.length && lines[i].t === "-"; i++) left.push(lines[i]);
    for (; i < lines.length && lines[i].t === "+"; i++) right.push(lines[i]);
    for (let k = 0; k < Math.max(left.length, right.length); k++) out.push({ left: left[k], right: right[k] });
  }
  return out;
}

function code(l) {
  let text = l.text;
  let more = 0;
  if (text.length > MOST_WIDTH) {
    more = text.length - MOST_WIDTH;
    text = text.slice(0, MOST_WIDTH);
  }
  const e = h("code", null, colour(text, l.lang).map(([cls, t]) => (cls ? h("span", { class: cls }, t) : oneLineKeepingTabs(t))));
  if (more) e.append(h("span", { class: "more" }, "… " + count(more, "character") + " more"));
  return e;
}

const oneLineKeepingTabs = (t) => visible(t).replaceAll("\n", "\u23ce");

const KIND = { "+": "add", "-": "del", " ": "same", "@": "hunk", f: "file", i: "info" };
const SIGN = { "+": "+", "-": "\u2212" };
const SAID = { "+": "added", "-": "removed" };

function unifiedRow(l) {
  if (l.t === "@" || l.t === "f" || l.t === "i") return h("div", { class: "line " + KIND[l.t] }, h("code", null, oneLine(l.text)));
  return h("div", { class: "line " + KIND[l.t] }, h("span", { class: "no" }, l.a ?? ""), h("span", { class: "no" }, l.b ?? ""),
    h("span", { class: "sign", title: SAID[l.t] }, SIGN[l.t] ?? " "), code(l));
}

function sideRow(r) {
  if (r.whole) return unifiedRow(r.whole);
  const half = (l, no) => h("div", { class: "half " + (l ? KIND[l.t] : "none") }, h("span", { class: "no" }, l?.[no] ?? ""),
    h("span", { class: "sign" }, (l && SIGN[l.t]) ?? " "), l && code(l));
  return h("div", { class: "line two" }, half(r.left, "a"), half(r.right, "b"));
}

const KEPT = "sandbox-diff-sides";

// Diff is the view of one diff.
export class Diff {
  constructor() {
    this.two = localStorage.getItem(KEPT) === "1";
    this.list = new List({ label: "Diff", class: "diff", height: 20, key: (l) => l, row: (l) => (this.two ? sideRow(l) : unifiedRow(l)) });
    this.note = h("span", { class: "dim", role: "status" });
    this.toggle = button("Side by side", () => this.turn(), { "aria-pressed": this.two, class: "small" });
    this.bar = h("div", { class: "bar" }, this.note, h("span", { class: "grow" }), this.toggle);
    this.more = h("div", null);
    this.el = h("section", { class: "diffbox", "aria-label": "Diff" }, this.bar, this.list.el, this.more);
  }

  turn() {
    this.two = !this.two;
    localStorage.setItem(KEPT, this.two ? "1" : "0");
    this.toggle.setAttribute("aria-pressed", this.two);
    this.show();
  }

  show() {
    const p = this.parser;
    if (!p) return;
    this.list.el.classList.toggle("sides", this.two);
    this.list.set(this.two ? sides(p.lines) : p.lines);
    this.list.space.style.minWidth = this.two ? "100%" : "calc(" + Math.min(p.longest, MOST_WIDTH) + "ch + 9rem)";
  }

  // load streams a diff: the first lines are shown before the last have come.
  async load(path, params) {
    this.abort?.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const p = (this.parser = new Parser());
    replace(this.more);
    this.note.textContent = "Reading…";
    let shown = 0;
    const tell = (end) => {
      this.note.textContent = p.lines.length ? "+" + p.added.toLocaleString("en") + " \u2212" + p.removed.toLocaleString("en") + " lines" + (end ? "" : " …") : end ? "No differences in content" : "Reading…";
    };
    try {
      const cut = await stream(path, params, (l) => {
        const go = p.push(l);
        if (p.lines.length >= shown * 2 + 200) {
          shown = p.lines.length;
          this.show();
          tell(false);
        }
        return go;
      }, signal);
      if (signal.aborted) return;
      this.show();
      tell(true);
      if (cut) this.offer(path, params, p.lines.length >= MOST_LINES);
    } catch (err) {
      if (err.name === "AbortError") return;
      this.note.textContent = err.message;
      this.show();
    }
  }

  offer(path, params, full) {
    replace(this.more, h("p", { class: "note" }, full ? "The page shows the first " + count(MOST_LINES, "line") + ". The whole: sandbox diff STEP" : "The diff is longer than what is shown. ",
      !full && !params?.all && button("Load all of it", () => this.load(path, { ...params, all: 1 }), { class: "small" })));
  }

  clear(text = "") {
    this.abort?.abort();
    this.parser = new Parser();
    this.note.textContent = text;
    replace(this.more);
    this.show();
  }

  close() {
    this.abort?.abort();
    this.list.close();
  }
}

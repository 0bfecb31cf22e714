// The configuration: which values hold and where they come from, and the file of each level, which
// is checked while it is written, and saved after its diff was seen.
import { button, count, empty, h, oneLine, path, problem, replace, table, visible } from "./dom.js";
import { get, post } from "./api.js";
import { dialog } from "./dialogs.js";
import { fileDiff } from "./filediff.js";
import { any, Page } from "./tables.js";

const LEVELS = { user: "Your file", project: "The folder's file", organisation: "The organisation's file" };
const MOST = 48 << 10; // characters that are edited here
const CHECK = 400; // ms without a key before a text is checked

const ABOUT = {
  user: "It holds for everything that you start, in all folders.",
  project: "It holds in this folder. What runs inside could write it, so it can only make things stricter.",
  organisation: "It holds for all users of this machine, comes first, and can lock settings.",
};

// drafts are texts that were not saved: they are there again when the page is.
const drafts = new Map();
addEventListener("beforeunload", (e) => drafts.size && e.preventDefault());

const last = (key) => key.slice(key.lastIndexOf(".") + 1);

// toml is a value as the file has it.
function toml(v) {
  if (Array.isArray(v)) return "[" + v.map(toml).join(", ") + "]";
  return typeof v === "string" ? JSON.stringify(v) : typeof v === "object" ? "" : String(v);
}

// placed finds a setting in a text, or adds it where it belongs. It returns the text, and which part of it is the value.
export function placed(text, key, value) {
  const dot = key.lastIndexOf(".");
  const [where, name] = [dot < 0 ? "" : key.slice(0, dot), key.slice(dot + 1)];
  const lines = text.split("\n");
  const head = (l) => /^\s*\[\[?\s*([^\]]+?)\s*\]/.exec(l)?.[1].replace(/\s*\.\s*/g, ".");
  let table = "", end = where === "" ? 0 : -1, found = -1;
  lines.forEach((l, i) => {
    table = head(l) ?? table;
    if (table !== where) return;
    if (l.trim()) end = i + 1;
    const m = /^\s*([\w.-]+)\s*=/.exec(l);
    if (found < 0 && (m?.[1] === name)) found = i;
  });
  if (found < 0) {
    const line = name + " = " + toml(value);
    if (end >= 0) lines.splice(end, 0, line);
    else {
      while (lines.length && !lines[lines.length - 1].trim()) lines.pop();
      if (lines.length) lines.push("");
      lines.push("[" + where + "]", line, "");
      end = lines.length - 2;
    }
    found = end;
    if (lines[lines.length - 1].trim()) lines.push("");
  }
  const start = lines.slice(0, found).reduce((n, l) => n + l.length + 1, 0);
  const at = lines[found].indexOf("=") + 1;
  const [, space, now] = /^(\s*)("(?:\\.|[^"\\])*"|'[^']*'|[^#]*?)\s*(?:#.*)?$/.exec(lines[found].slice(at)) ?? [null, "", lines[found].slice(at)];
  const from = start + at + space.length;
  return { text: lines.join("\n"), from, to: from + now.length };
}

// Editor is the file of one level.
class Editor {
  constructor(view, level) {
    this.view = view;
    this.level = level;
    this.folder = view.params.folder;
    this.key = level + "|" + (level === "project" ? this.folder : "");
    this.el = h("section", { class: "configfile", "aria-label": LEVELS[level] }, h("p", { class: "dim" }, "Reading…"));
    this.load();
  }

  async load() {
    try {
      this.file = await get("config/" + this.level, { folder: this.folder });
    } catch (err) {
      if (!this.closed) replace(this.el, problem(err));
      return;
    }
    if (!this.closed) this.draw();
  }

  draw() {
    const f = this.file;
    this.crlf = f.text.includes("\r\n");
    this.saved = this.crlf ? f.text.replaceAll("\r\n", "\n") : f.text;
    const large = f.text.length > MOST;
    const fixed = f.why || (large ? "It is too large to be changed here." : "");
    this.area = h("textarea", { id: "configtext", "aria-label": LEVELS[this.level] + ", as text", "aria-describedby": "configmistakes", spellcheck: "false", autocomplete: "off", autocapitalize: "off", dir: "ltr", wrap: "off", rows: 18, readonly: Boolean(fixed), oninput: () => this.typed(), onscroll: () => (this.gutter.scrollTop = this.area.scrollTop) });
    this.area.value = this.draft();
    this.gutter = h("div", { class: "gutter", "aria-hidden": "true" });
    this.mistakes = h("div", { id: "configmistakes", role: "status" });
    this.hidden = h("div");
    this.save = button("Save…", () => this.preview(), { class: "primary", id: "configsave", disabled: true });
    this.drop = button("Discard changes", () => this.discard(), { id: "configdiscard", hidden: true });
    const rows = this.view.rows ?? [];
    const keys = h("select", { "aria-label": "Add a setting", id: "configadd", onchange: () => { this.put(keys.value); keys.value = ""; } }, h("option", { value: "" }, "Add a setting…"), rows.filter((x) => x.key !== "locked" || this.level === "organisation").map((x) => h("option", { value: x.key }, x.key)));
    replace(this.el, h("div", { class: "bar" }, path(f.file), !f.there && h("span", { class: "tag" }, "not there yet"), fixed && h("span", { class: "tag held" }, "read-only")),
      h("p", { class: "dim" }, ABOUT[this.level]), fixed && h("p", { class: "warning" }, "It cannot be changed here: ", oneLine(fixed)),
      h("div", { class: "editor" }, this.gutter, this.area), this.hidden, this.mistakes,
      !fixed && h("div", { class: "actions" }, rows.length > 0 && keys, h("span", { class: "grow" }), this.drop, this.save));
    this.told(f.mistakes ?? []);
    this.changed();
    if (this.dirty()) this.check();
  }

  draft() {
    return drafts.get(this.key) ?? this.saved;
  }

  dirty() {
    return this.area.value !== this.saved;
  }

  // text is what is to be in the file: its line ends are kept.
  text() {
    return this.crlf ? this.area.value.replaceAll("\n", "\r\n") : this.area.value;
  }

  typed() {
    if (this.dirty()) drafts.set(this.key, this.area.value);
    else drafts.delete(this.key);
    this.changed();
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.check(), CHECK);
  }

  // changed is about the text as it is at the moment, before anybody has checked it.
  changed() {
    const dirty = this.dirty();
    this.save.disabled = !dirty || this.area.value.length > MOST;
    this.drop.hidden = !dirty;
    const n = this.area.value.split("\n").length;
    if (n !== this.lines) this.numbers(n);
    replace(this.hidden, visible(this.area.value) !== this.area.value && h("p", { class: "warning" }, "This text has characters that are not seen here. The diff writes them out."));
  }

  numbers(n = this.lines) {
    this.lines = n;
    const bad = new Set(this.wrong?.map((m) => m.line));
    replace(this.gutter, Array.from({ length: n }, (_, i) => h("span", { class: bad.has(i + 1) ? "bad" : "" }, i + 1)));
    this.gutter.scrollTop = this.area.scrollTop;
  }

  // told shows what is wrong, each with a way to its line.
  told(list) {
    this.wrong = list;
    this.numbers(this.area.value.split("\n").length);
    this.area.setAttribute("aria-invalid", list.length > 0);
    replace(this.mistakes, list.length > 0 && h("ul", { class: "mistakes plain" }, list.slice(0, 100).map((m) => h("li", null, m.line ? button("Line " + m.line, () => this.line(m.line, m.column), { class: "small" }) : null, " ", h("span", { class: "wrap" }, oneLine(m.message))))));
  }

  // line goes to one.
  line(n, column = 1) {
    const lines = this.area.value.split("\n");
    const from = lines.slice(0, n - 1).reduce((sum, l) => sum + l.length + 1, 0);
    this.mark(from + Math.max(0, (column || 1) - 1), from + (lines[n - 1]?.length ?? 0), n);
  }

  mark(from, to, n = this.area.value.slice(0, from).split("\n").length) {
    this.area.focus();
    this.area.setSelectionRange(from, to);
    const height = parseFloat(getComputedStyle(this.area).lineHeight) || 20;
    this.area.scrollTop = Math.max(0, (n - 4) * height);
  }

  // put adds a setting, or goes to it.
  put(key) {
    const row = this.view.rows?.find((x) => x.key === key);
    if (!row || this.area.readOnly) return;
    const { text, from, to } = placed(this.area.value, key, row.value ?? "");
    if (text !== this.area.value) {
      this.area.value = text;
      this.typed();
    }
    this.mark(from, to);
  }

  send(more) {
    return post("config/" + this.level, { folder: this.folder || undefined, text: this.text(), ...more });
  }

  async check() {
    const text = this.area.value;
    try {
      const { result } = await this.send({ dry_run: true });
      if (!this.closed && text === this.area.value) this.told(result.mistakes);
    } catch (err) {
      if (!this.closed) replace(this.mistakes, problem(err));
    }
  }

  discard() {
    drafts.delete(this.key);
    this.area.value = this.saved;
    this.area.focus();
    this.changed();
    this.check();
  }

  async preview() {
    const text = this.area.value;
    const done = await dialog("Save " + LEVELS[this.level].toLowerCase(), (body, close) => this.ask(body, close));
    if (!done) return void this.save.focus();
    if (this.area.value === text) drafts.delete(this.key);
    this.view.app.say("Saved. Sessions that are started from now on have it.");
    await this.view.load();
    await this.load();
    this.area.focus();
  }

  // ask shows what would change, and saves just that.
  ask(body, close) {
    let digest = null;
    const say = h("div", { role: "status" });
    const content = h("div", { class: "content" });
    const no = button("Cancel", () => close(null), { autofocus: true });
    const yes = button("Save", () => go(), { class: "primary", disabled: true });
    const again = button("Look again", () => look(), { hidden: true });
    replace(body, content, say, h("div", { class: "actions" }, no, again, yes));
    const refused = (err) => {
      again.hidden = err.code !== "changed";
      replace(say, err.code === "changed" ? h("p", { class: "warning" }, "The file was changed since this was shown, so nothing was saved.") : problem(err));
    };
    const look = async () => {
      yes.disabled = again.hidden = true;
      replace(say, h("p", { class: "dim" }, "Looking what would change…"));
      try {
        const { result: r } = await this.send({ dry_run: true });
        if (this.closed) return;
        if (r.mistakes.length) {
          this.told(r.mistakes);
          replace(content, h("p", { class: "problem" }, count(r.mistakes.length, "mistake") + ", so it cannot be saved. The first: ", r.mistakes[0].line ? "line " + r.mistakes[0].line + ": " : "", oneLine(r.mistakes[0].message)));
          return replace(say);
        }
        digest = r.digest;
        replace(content, h("p", null, path(r.file)), r.was !== this.file.digest && h("p", { class: "warning" }, "Somebody has changed the file since it was read here. The diff is against what is there now: saving takes those changes back."),
          r.diff ? fileDiff(r.diff, r.file) : empty("Nothing in the file would change."), r.cut && h("p", { class: "note" }, "The diff is longer; its rest is not shown."),
          r.effects.length > 0 && table("Settings with another value then", ["Setting", "Now", "Then"], r.effects.map((e) => [h("code", null, e.key), h("code", { class: "wrap" }, oneLine(e.before)), h("code", { class: "wrap" }, oneLine(e.after))])),
          r.diff && !r.effects.length && h("p", { class: "dim" }, "No setting has another value then."),
          r.warnings.map((w) => h("p", { class: "warning" }, oneLine(w))), this.file.there && h("p", { class: "dim" }, "A copy of the file is kept beside it."));
        replace(say);
        yes.disabled = r.change === "none";
      } catch (err) {
        refused(err);
      }
    };
    const go = async () => {
      yes.disabled = no.disabled = true;
      replace(say, h("p", { class: "dim" }, "Working…"));
      try {
        const { result } = await this.send({ expect: digest });
        if (result.mistakes.length) throw Object.assign(new Error("Nothing was saved: another level's file was changed meanwhile"), { code: "changed" });
        close(result);
      } catch (err) {
        no.disabled = false;
        no.focus();
        refused(err);
      }
    };
    look();
  }

  close() {
    this.closed = true;
    clearTimeout(this.soon);
  }
}

export class ConfigView extends Page {
  constructor(app) {
    super(app, "Configuration", "config");
    this.level = "";
    const select = h("select", { id: "configfolder", "aria-label": "Folder", onchange: () => this.of(select.value) }, h("option", { value: "" }, "without a folder"), app.overview.folders.map((f) => h("option", { value: f.id }, oneLine(f.label || f.path))));
    this.find = h("input", { type: "search", id: "configfind", "aria-label": "Find a setting", placeholder: "Find a setting", oninput: () => this.filter() });
    this.bar.append(h("span", { class: "grow" }), this.find, select);
    this.tabs = h("div", { class: "bar tabs", role: "group", "aria-label": "What is shown" });
    this.pane = h("div");
    this.body.before(this.tabs, this.pane);
    const first = app.overview.folders[0];
    if (first) select.value = first.id;
    this.of(select.value);
  }

  of(folder) {
    this.params = { folder };
    if (this.level === "project" && !folder) this.level = "";
    this.show(this.level, true);
    this.load();
  }

  // show is about one level's file, or about the values that hold ("").
  show(level, anew = false) {
    if (level === this.level && !anew && this.shown) return;
    this.level = level;
    this.shown = true;
    replace(this.tabs, Object.entries({ "": "All settings", ...LEVELS }).filter(([l]) => l !== "project" || this.params.folder).map(([l, text]) => button([text, drafts.has(l + "|" + (l === "project" ? this.params.folder : "")) && h("span", { class: "unsaved" }, " not saved")], () => { this.show(l); this.tabs.querySelector("[aria-pressed=true]").focus(); }, { "aria-pressed": String(l === level), id: "level-" + (l || "all") })));
    this.editor?.close();
    this.editor = level ? new Editor(this, level) : null;
    replace(this.pane, this.editor?.el);
    this.body.hidden = this.find.hidden = Boolean(level);
  }

  draw(r) {
    this.rows = r;
    const own = (x) => !x.origin.includes("default");
    queueMicrotask(() => this.filter());
    return table("Settings", ["Setting", "Value", "From", ""], [...r].sort((a, b) => own(b) - own(a)).map((x) => ({ class: own(x) ? "own" : "", cells: [
      [h("code", null, x.key), x.doc && h("p", { class: "doc" }, oneLine(x.doc))], any(x.value, last(x.key)), [h("span", { class: own(x) ? "tag good wrap" : "dim" }, oneLine(x.origin.join(", "))), x.locked && h("span", { class: "tag held" }, "locked")],
      !x.locked && x.key !== "locked" && button("Change…", () => this.change(x.key), { class: "small", "aria-label": "Change " + x.key })] })), { class: "settings" });
  }

  // change goes to the setting in the user's file.
  change(key) {
    this.show("user");
    const { editor } = this;
    const look = () => {
      if (editor.closed) return;
      if (editor.area) editor.put(key);
      else setTimeout(look, 30);
    };
    look();
  }

  filter() {
    const text = this.find.value.toLowerCase();
    for (const tr of this.body.querySelectorAll("tbody tr")) tr.hidden = !tr.textContent.toLowerCase().includes(text);
  }

  event(e) {
    if (e.what !== "resume" && e.what !== "config") return;
    this.load();
    if (this.editor?.area && !this.editor.dirty() && !document.querySelector("dialog[open]")) this.editor.load();
  }

  close() {
    super.close();
    this.editor?.close();
  }
}

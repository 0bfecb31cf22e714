// The page of a folder: its timeline, the list of its steps, and the panel of one.
import { button, clock, command, count, duration, empty, h, oneLine, problem, replace } from "./dom.js";
import { History } from "./history.js";
import { List } from "./list.js";
import { NAMES, Timeline } from "./timeline.js";
import { StepPanel } from "./step.js";
import * as ask from "./dialogs.js";

const FILTERS = [["", "Everything"], ["command", "Commands"], ["api", "API writes"], ["ambient", "Ambient"], ["barrier", "Barriers"], ["failed", "Failed"], ["changed", "With changes"]];
const narrow = matchMedia("(max-width: 720px)");

function wanted(e, filter) {
  if (!filter) return true;
  if (filter === "failed") return Boolean(e.exit_code) || (e.status !== "completed" && e.type !== "barrier");
  if (filter === "changed") return e.affected_count > 0;
  return e.type === filter;
}

export class FolderView {
  constructor(app, params) {
    this.app = app;
    this.id = params.folder;
    this.filter = "";
    this.found = null;
    this.history = new History(this.id, (what) => this.changed(what));
    this.timeline = new Timeline((e) => this.open(e.step_id));
    this.list = new List({
      label: "Steps, newest first", class: "steplist", height: () => (narrow.matches ? 46 : 28), key: (r) => r.key, row: (r) => this.row(r),
      active: (r) => r.e && r.kind === "step" && this.panelOpen && this.open(r.e.step_id, false), open: (r) => this.chosen(r),
    });
    this.panel = new StepPanel(this.id, {
      pictures: Boolean(app.overview.features?.includes("content")),
      undo: (step) => this.undo(step), redo: (step) => this.redo(step), restore: (p, step) => this.restore(p, step),
      close: () => { app.go("#/f/" + this.id); this.list.el.focus(); },
    });
    this.build();
    this.history.load();
  }

  build() {
    this.search = h("input", { type: "search", id: "search", placeholder: "Search commands and paths", "aria-label": "Search commands and paths", oninput: () => this.seek(), maxlength: "500" });
    const filter = h("select", { "aria-label": "Filter", id: "filter", onchange: (e) => { this.filter = e.target.value; this.show(); } }, FILTERS.map(([v, t]) => h("option", { value: v }, t)));
    this.undoButton = button("Undo", () => this.undoNewest(), { id: "undo", title: "Undo the newest step (u)", disabled: true });
    this.redoButton = button("Redo", () => this.redoNext(), { id: "redo", title: "Redo (r)", disabled: true });
    this.markMenu = h("select", { id: "marks", "aria-label": "Go back to a mark", onchange: (e) => this.toMark(e.target) });
    this.title = h("h1", null);
    this.status = h("span", { class: "dim", role: "status", id: "found" });
    this.running = h("div", { class: "running" });
    this.problem = h("div");
    this.undone = h("div", { class: "row undonehead" });
    this.split = h("div", { class: "split" }, h("div", { class: "left" }, this.list.el), this.panel.el);
    this.el = h("div", { class: "folder" },
      h("div", { class: "bar head" }, this.title, h("span", { class: "grow" }), this.undoButton, this.redoButton,
        button("Mark…", () => this.mark(), { id: "mark" }), this.markMenu, h("a", { class: "button tostore", href: "#/f/" + this.id + "/store" }, "Store")),
      this.problem, this.timeline.el, this.running, h("div", { class: "bar" }, this.search, filter, this.status), this.split);
    this.named();
  }

  named() {
    const f = this.app.folder(this.id);
    document.title = (f ? oneLine(f.label || f.path.slice(f.path.lastIndexOf("/") + 1)) + " – " : "") + "sandbox";
    this.base = document.title;
    replace(this.title, f ? [h("bdi", { class: "path" }, oneLine(f.label || f.path))] : "Folder", f && h("small", null, f.session ? "live" : "history only"));
    this.readOnly = f && f.writable === false;
    this.session = f?.session;
    if (f?.problem) replace(this.problem, h("p", { class: "warning" }, f.problem));
  }

  update(params) {
    this.step = params.step ? Number(params.step) : null;
    this.panelOpen = this.step !== null;
    this.split.classList.toggle("open", this.panelOpen);
    this.el.classList.toggle("withstep", this.panelOpen);
    this.timeline.select(this.step);
    if (this.panelOpen) {
      this.list.reveal("s" + this.step) || this.list.reveal("u" + this.step);
      const undone = this.history.undone.some((e) => e.step_id === this.step);
      this.panel.show(this.step, this.history.find(this.step), undone, params.query?.get("path"));
    }
  }

  open(step, push = true) {
    this.app.go("#/f/" + this.id + "/s/" + step, !push);
  }

  chosen(r) {
    if (r.kind === "step") this.open(r.e.step_id);
    else if (r.kind === "mark") this.undoMark(r.m.name);
  }

  event(e) {
    if (e.folder && e.folder !== this.id) return;
    if (e.what === "history" || e.what === "resume") this.history.refresh();
    const session = this.session;
    if (e.what === "sessions" || e.what === "resume") this.named();
    // Who answers for the folder may be another now: a session that was killed says nothing.
    if (e.what === "status" || (e.what === "sessions" && (this.history.error || session !== this.session))) this.history.refresh();
  }

  changed(what) {
    if (this.history.error) {
      replace(this.problem, problem(this.history.error));
      if (!this.history.entries.length) return;
    } else if (!this.app.folder(this.id)?.problem) replace(this.problem);
    this.show();
    if (what === "first") performance.mark("history-shown");
    if (this.panelOpen && what !== "error") {
      const undone = this.history.undone.some((e) => e.step_id === this.step);
      const e = this.history.find(this.step);
      if (e) this.panel.heading(this.panel.loaded ? { ...this.panel.entry, ...e } : e, undone);
      if (what === "first") this.list.reveal("s" + this.step);
    }
    if (this.search.value && what === "new") this.seek();
  }

  // rows are the steps with the marks and barriers between them.
  rows() {
    const { undone, marks } = this.history;
    const entries = this.found?.entries ?? this.history.entries;
    const rows = this.found ? [] : undone.filter((e) => wanted(e, this.filter)).map((e) => ({ kind: "step", key: "u" + e.step_id, e, undone: true }));
    const at = new Map();
    if (!this.found && !this.filter) for (const m of marks) at.set(m.seq ?? 0, [...(at.get(m.seq ?? 0) ?? []), m]);
    const put = (m) => rows.push({ kind: "mark", key: "m" + m.name, m });
    const orphans = [...at.keys()].filter((s) => s > (entries[0]?.seq ?? 0)).sort((a, b) => b - a);
    for (const s of orphans) at.get(s).forEach(put);
    for (const e of entries) {
      if (!wanted(e, this.filter)) continue;
      at.get(e.seq)?.forEach(put);
      rows.push({ kind: e.type === "barrier" ? "barrier" : "step", key: (e.type === "barrier" ? "b" + e.seq : "s" + e.step_id), e });
    }
    at.get(0)?.forEach(put);
    return rows;
  }

  show() {
    const { history } = this;
    this.list.set(this.rows());
    const shown = (this.found?.entries ?? history.entries).filter((e) => wanted(e, this.filter));
    const hits = this.found || this.filter ? new Set(shown.map((e) => e.step_id)) : null;
    this.timeline.set(history.entries, history.undone, history.marks, hits, history.services);
    replace(this.status, hits ? count(shown.length, "step") + " found" + (this.found?.more ? " at least" : "") : count(history.total || history.entries.length, "step"));
    this.undoButton.disabled = !history.steps.length;
    this.redoButton.disabled = !history.undone.length;
    const marks = history.marks.filter((m) => !m.lost);
    this.markMenu.hidden = !marks.length;
    replace(this.markMenu, h("option", { value: "" }, "Go back to…"), marks.map((m) => h("option", { value: m.name }, m.name)));
    this.now();
    this.split.classList.toggle("none", !this.list.items.length);
    if (!this.list.items.length) replace(this.list.space, empty(this.found || this.filter ? "Nothing is found." : "No steps yet. What runs in the sandbox appears here."));
  }

  now() {
    const o = this.history.open;
    clearInterval(this.tick);
    const services = this.history.services.filter((x) => x.state === "running");
    replace(this.running, services.length > 0 && h("div", { class: "bar served" }, h("span", { class: "key k-service" }, h("strong", null, services.length === 1 ? "Service" : "Services")), services.slice(0, 5).map((x) => h("span", { class: "one" }, h("b", null, oneLine(x.name)), " ", command(x.command), " ", h("span", { class: "dim elapsed", "data-since": x.started_at }), x.publish?.length > 0 && h("span", { class: "dim" }, " ", x.publish.map(oneLine).join(", "))))), o && h("div", { class: "bar" }, h("span", { class: "pulse", "aria-hidden": "true" }), h("strong", null, o.step ? "Step " + o.step + " runs" : "Running"),
      (o.commands ?? []).slice(0, 3).map((c) => h("span", { class: "one" }, command(c.command), " ", h("span", { class: "dim elapsed", "data-since": c.started_at })))));
    const tell = () => this.running.querySelectorAll("[data-since]").forEach((e) => (e.textContent = duration(Math.max(0, Date.now() - Date.parse(e.dataset.since)))));
    if (o || services.length) {
      tell();
      this.tick = setInterval(tell, 1000);
    }
  }

  row(r) {
    if (r.kind === "mark") return h("div", { class: "entry mark" }, h("span", { class: "flag", "aria-hidden": "true" }, "⚑"), h("bdi", null, oneLine(r.m.name)), h("span", { class: "dim" }, r.m.lost ? "lost: " + r.m.lost : "mark"), h("span", { class: "grow" }), h("span", { class: "dim" }, clock(r.m.at)));
    const { e } = r;
    if (r.kind === "barrier") return h("div", { class: "entry k-barrier" }, h("span", { class: "kind", title: "Barrier" }), h("span", { class: "cmd" }, "Changed outside the sandbox: ", oneLine([...new Set((e.affected_paths ?? []).concat(...(e.barriers ?? []).map((b) => b.paths ?? [])))].slice(0, 3).join(", "))), h("span", { class: "grow" }), h("span", { class: "dim" }, clock(e.start)));
    const failed = e.exit_code || (e.status && e.status !== "completed");
    return h("div", { class: "entry k-" + e.type + (r.undone ? " undone" : "") + (e.group ? " grouped" : "") },
      h("span", { class: "kind", title: NAMES[e.type] ?? e.type }), h("span", { class: "id" }, "#" + e.step_id), r.undone && h("span", { class: "hidden" }, "undone"), command(e.command || "(" + e.type + ")"),
      h("span", { class: "grow" }), failed ? h("span", { class: "tag bad" }, e.exit_code ? "exit " + e.exit_code : e.status) : null, e.damaged && h("span", { class: "tag bad" }, "damaged"), e.unprotected && h("span", { class: "tag bad" }, "unprotected"),
      h("span", { class: "break" }), h("span", { class: "num paths-n" }, e.affected_count ? count(e.affected_count, "path") : "–"), h("span", { class: "num took" }, duration(e.end - e.start)), h("span", { class: "num at" }, clock(e.start)));
  }

  seek() {
    clearTimeout(this.typing);
    this.searching?.abort();
    const q = this.search.value.trim();
    if (!q) {
      this.found = null;
      return this.show();
    }
    this.typing = setTimeout(async () => {
      const abort = (this.searching = new AbortController());
      try {
        this.found = await this.history.search(q, abort.signal);
        this.show();
      } catch (err) {
        if (err.name !== "AbortError") replace(this.status, err.message);
      }
    }, 150);
  }

  async done(what, r) {
    if (!r) return;
    const n = r.done.steps?.filter((e) => e.type !== "barrier").length;
    this.app.say(what + (n ? " " + count(n, "step") : "") + ": " + count(r.done.path_count ?? 0, "path") + " changed." + ask.leftText(r.done) + (r.done.warnings?.length ? " " + r.done.warnings[0] : ""));
    await this.history.refresh();
  }

  async undo(step) {
    await this.done("Undone", await ask.undo(this.id, this.history.upTo(step), this.history.entries));
  }

  undoNewest() {
    const e = this.history.steps[0];
    if (e) this.undo(e.step_id);
  }

  redoNext() {
    const next = this.history.undone[this.history.undone.length - 1];
    if (next) this.redo(next.step_id);
  }

  // redo does again what was undone, oldest first, up to the step.
  async redo(step) {
    const order = [...this.history.undone].reverse();
    const i = order.findIndex((e) => e.step_id === step);
    await this.done("Done again:", await ask.redo(this.id, order.slice(0, i + 1)));
  }

  async restore(p, step) {
    await this.done("Restored", await ask.restore(this.id, p, step));
  }

  toMark(select) {
    const name = select.value;
    select.value = "";
    if (name) this.undoMark(name);
  }

  async undoMark(name) {
    const m = this.history.marks.find((x) => x.name === name);
    const steps = this.history.steps.filter((e) => e.seq > (m.seq ?? 0));
    if (!steps.length) return this.app.say("The folder is as it was at that mark.");
    await this.done("Undone", await ask.undo(this.id, steps, this.history.entries, { count: undefined, to: name }));
  }

  async mark() {
    const name = await ask.mark(this.id);
    if (name) {
      this.app.say("Marked: " + name);
      this.history.refresh();
    }
  }

  key(k) {
    const f = { "/": () => this.search.focus(), u: () => this.undoNewest(), r: () => this.redoNext(), m: () => this.mark(), Escape: () => this.panelOpen && (this.app.go("#/f/" + this.id), this.list.el.focus()) }[k];
    f?.();
    return Boolean(f);
  }

  close() {
    clearInterval(this.tick);
    clearTimeout(this.typing);
    this.history.close();
    this.timeline.close();
    this.list.close();
    this.panel.close();
  }
}

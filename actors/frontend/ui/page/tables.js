// Pages that show what the server knows as tables: the machine, the configuration and
// the doctor's findings.
import { bytes, count, empty, facts, h, oneLine, path, problem, replace, table, when } from "./dom.js";
import { get } from "./api.js";

const label = (k) => String(k).replaceAll("_", " ").replace(/([a-z])([A-Z])/g, "$1 $2");
const plain = (v) => v === null || typeof v !== "object";
const isTime = (k, v) => typeof v === "string" && /^\d{4}-\d\d-\d\dT/.test(v) && /(^|_)(at|since|time|until|built|made|created)$/i.test(k);

// any shows a value whose form this page does not know.
export function any(v, k = "") {
  if (v === null || v === undefined || v === "") return h("span", { class: "dim" }, "–");
  if (typeof v === "boolean") return v ? "yes" : "no";
  if (typeof v === "number") return /bytes|size$/i.test(k) ? bytes(v) : String(v);
  if (isTime(k, v)) return when(v);
  if (plain(v)) return /\n/.test(v) ? h("pre", { class: "output", tabindex: "0", "aria-label": label(k) || "Text" }, v) : h("bdi", { class: "wrap" }, oneLine(v));
  if (Array.isArray(v)) {
    if (!v.length) return h("span", { class: "dim" }, "none");
    if (v.every(plain)) return v.length === 1 ? any(v[0], k) : h("ul", { class: "plain" }, v.map((x) => h("li", null, any(x, k))));
    const keys = [...new Set(v.flatMap((x) => Object.keys(x ?? {})))].slice(0, 12);
    return table(label(k) || "Table", keys.map(label), v.slice(0, 1000).map((x) => keys.map((c) => (plain(x?.[c]) ? any(x?.[c], c) : any(x[c], c)))));
  }
  return facts(Object.entries(v).map(([c, x]) => [label(c), any(x, c)]));
}

export class Page {
  constructor(app, title, source, params = {}) {
    this.app = app;
    this.source = source;
    this.params = params;
    this.body = h("div", null, h("p", { class: "dim" }, "Reading…"));
    this.bar = h("div", { class: "bar head" }, h("h1", null, title));
    this.el = h("div", { class: "page" }, this.bar, this.body);
    document.title = title + " – sandbox";
  }

  async load() {
    try {
      const r = await get(this.source, this.params);
      if (!this.closed) replace(this.body, this.draw(r));
    } catch (err) {
      if (!this.closed) replace(this.body, this.refused(err));
    }
  }

  refused(err) {
    return problem(err);
  }

  draw(r) {
    return any(r);
  }

  event(e) {
    if (e.what === "resume") this.load();
  }

  close() {
    this.closed = true;
    clearInterval(this.timer);
  }
}

export class MachineView extends Page {
  constructor(app) {
    super(app, "Machine", "machine");
    this.load();
  }

  draw(r) {
    return [this.sessions(), Object.entries(r).map(([k, v]) => h("section", { class: "card" }, h("h2", null, label(k)), any(v, k)))];
  }

  // sessions is what each session tells of where its commands run.
  sessions() {
    const list = this.app.overview.sessions;
    if (!list.length) return empty("No session runs, so no machine does.");
    return h("div", { class: "cards" }, list.map((s) => h("section", { class: "card" }, h("h2", null, "Session ", h("code", null, s.session)), facts([["Isolation", s.isolation], ...Object.entries(s.machine ?? {}).map(([k, v]) => [label(k), any(v, k)])]))));
  }

  refused(err) {
    return [this.sessions(), err.code === "unsupported" ? h("p", { class: "note" }, "Images of virtual machines are made in a terminal: ", h("code", null, "sandbox guest build"), ", ", h("code", null, "sandbox guest reset")) : problem(err)];
  }

  event(e) {
    if (e.what === "resume" || e.what === "sessions") this.load();
  }
}

const STATES = { ok: "good", missing: "bad", failed: "bad", error: "bad", warning: "held", warn: "held" };

export class DoctorView extends Page {
  constructor(app) {
    super(app, "Doctor", "doctor");
    this.load();
  }

  draw(r) {
    const checks = Array.isArray(r) ? r : r.checks ?? r.findings;
    if (!Array.isArray(checks)) return any(r);
    const bad = checks.filter((c) => c.state !== "ok").length;
    return [h("p", null, bad ? count(bad, "finding") + " to look at, of " + checks.length + "." : "All " + checks.length + " checks are well."),
      table("Checks", ["Check", "State", "Detail", "What to do"], [...checks].sort((a, b) => (a.state === "ok") - (b.state === "ok")).map((c) => [oneLine(c.name), h("span", { class: "tag " + (STATES[c.state] ?? "") }, c.state), h("span", { class: "wrap" }, oneLine(c.detail ?? "")), h("span", { class: "wrap" }, oneLine(c.fix ?? c.hint ?? c.remedy ?? ""))]))];
  }
}

export class ConfigView extends Page {
  constructor(app) {
    super(app, "Configuration", "config");
    const select = h("select", { id: "configfolder", "aria-label": "Folder", onchange: () => this.of(select.value) }, h("option", { value: "" }, "without a folder"), app.overview.folders.map((f) => h("option", { value: f.id }, oneLine(f.label || f.path))));
    const find = h("input", { type: "search", id: "configfind", "aria-label": "Find a setting", placeholder: "Find a setting", oninput: () => this.filter(find.value) });
    this.bar.append(h("span", { class: "grow" }), find, select);
    const first = app.overview.folders[0];
    if (first) select.value = first.id;
    this.of(select.value);
  }

  of(folder) {
    this.params = { folder };
    this.load();
  }

  draw(r) {
    const rows = Array.isArray(r) ? r : r.settings ?? r.keys;
    if (!Array.isArray(rows)) return any(r);
    const more = Array.isArray(r) ? {} : Object.fromEntries(Object.entries(r).filter(([k]) => k !== "settings" && k !== "keys"));
    const origin = (o) => (Array.isArray(o) ? o : [o]).filter(Boolean).join(", ");
    const own = (x) => origin(x.origin) !== "default";
    return [Object.keys(more).length > 0 && any(more),
      table("Settings", ["Setting", "Value", "From"], [...rows].sort((a, b) => own(b) - own(a)).map((x) => ({ class: own(x) ? "own" : "", cells: [h("code", null, x.key), any(x.value), h("span", { class: own(x) ? "tag good" : "dim" }, origin(x.origin))] })))];
  }

  filter(text) {
    for (const tr of this.body.querySelectorAll("tbody tr")) tr.hidden = !tr.textContent.toLowerCase().includes(text.toLowerCase());
  }
}

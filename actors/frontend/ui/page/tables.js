// Pages that show what the server knows as tables: what is alike in them, and the doctor's
// findings.
import { bytes, count, facts, h, oneLine, problem, replace, table, when } from "./dom.js";
import { get, latest } from "./api.js";

export const label = (k) => String(k).replaceAll("_", " ").replace(/([a-z])([A-Z])/g, "$1 $2");
const plain = (v) => v === null || typeof v !== "object";
const isTime = (k, v) => typeof v === "string" && /^\d{4}-\d\d-\d\dT/.test(v) && /(^|_)(at|since|time|until|built|made|created)$/i.test(k);

// any shows a value whose form this page does not know.
export function any(v, k = "") {
  if (v === null || v === undefined || v === "") return h("span", { class: "dim" }, "–");
  if (typeof v === "boolean") return v ? "yes" : "no";
  if (typeof v === "number") return /bytes|size$/i.test(k) && v > 0 ? bytes(v) : String(v);
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
    this.load = latest(() => this.read());
  }

  // read asks the server, and shows what it says: by load, so that an older answer never comes after a newer one.
  async read() {
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

const STATES = { ok: "good", warn: "held", fail: "bad" };
const ORDER = ["fail", "warn", "ok"];

export class DoctorView extends Page {
  constructor(app) {
    super(app, "Doctor", "doctor");
    this.load();
  }

  draw(checks) {
    const bad = checks.filter((c) => c.state !== "ok").length;
    return [h("p", null, bad ? count(bad, "finding") + " to look at, of " + checks.length + "." : "All " + checks.length + " checks are well."),
      table("Checks", ["Check", "State", "Detail and what to do"], [...checks].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state)).map((c) => [oneLine(c.name), h("span", { class: "tag " + (STATES[c.state] ?? "") }, c.state),
        [h("span", { class: "wrap" }, oneLine(c.detail ?? "")), c.advice && h("p", { class: "advice wrap" }, h("strong", null, "To do: "), oneLine(c.advice)), c.fix && this.fix(c.fix)]]))];
  }

  // fix is a file that would mend it, and how it takes effect.
  fix(f) {
    const text = "# " + f.file + "\n" + (f.content ?? "").trimEnd() + "\n\n# then\n" + (f.apply ?? []).join(" ");
    return h("details", null, h("summary", null, oneLine(f.what ?? "How")), h("pre", { class: "output", tabindex: "0", "aria-label": oneLine(f.what ?? "How") }, text));
  }
}

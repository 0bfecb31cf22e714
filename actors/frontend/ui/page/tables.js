// Pages that show what the server knows as tables: the machine, the network, the
// configuration, clients and the doctor's findings.
import { bytes, clock, count, duration, empty, facts, h, oneLine, path, problem, replace, table, when } from "./dom.js";
import { enc, get } from "./api.js";

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

class Page {
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

export class ClientsView extends Page {
  constructor(app) {
    super(app, "Clients", "clients");
    this.load();
  }

  refused(err) {
    if (err.code !== "unsupported") return problem(err);
    return h("div", { class: "card" }, h("p", null, "Agents are integrated in a terminal. The first command shows what would change:"), h("pre", { class: "command", tabindex: "0", "aria-label": "Commands" }, "sandbox install --client codex --print\nsandbox install --client codex --both\nsandbox uninstall --client codex"));
  }

  draw(r) {
    const clients = Array.isArray(r) ? r : r.clients;
    if (!Array.isArray(clients)) return any(r);
    if (!clients.length) return empty("No agent is known on this machine.");
    return [h("p", { class: "dim" }, "Agents that this program can serve. Integrate one in a terminal: ", h("code", null, "sandbox install --client NAME")),
      h("div", { class: "cards" }, clients.map((c) => h("article", { class: "card" }, h("h2", null, oneLine(c.name ?? c.client ?? "")), any(Object.fromEntries(Object.entries(c).filter(([k]) => k !== "name" && k !== "client"))))))];
  }
}

export class NetworkView extends Page {
  constructor(app, params) {
    super(app, "Network of " + params.session, "sessions/" + enc(params.session) + "/network");
    this.load();
    this.timer = setInterval(() => !document.hidden && this.load(), 2000);
  }

  refused(err) {
    return err.status === 404 ? empty("This session tells nothing of a network.") : problem(err);
  }

  draw(r) {
    const flows = r.flows ?? [];
    const get = (f, k) => f[k] ?? f[k[0].toUpperCase() + k.slice(1)];
    const rest = Object.fromEntries(Object.entries(r).filter(([k]) => k !== "flows"));
    return [any(rest), h("h2", null, count(flows.length, "flow")), flows.length ? table("Flows", ["When", "To", "Protocol", "Action", "Rule", "Sent", "Received", "Took"], flows.slice(-500).reverse().map((f) => {
      const ns = get(f, "duration");
      return [clock(get(f, "time")), path([get(f, "domain"), get(f, "target")].filter(Boolean).join(" ")), get(f, "protocol") ?? "", get(f, "action") ?? "", oneLine(get(f, "rule") ?? ""), bytes(get(f, "sent")), bytes(get(f, "received")), ns ? duration(ns / 1e6) : ""].map((x) => (x && typeof x === "object" && !(x instanceof Node) ? JSON.stringify(x) : x));
    })) : empty("Nothing has connected.")];
  }
}

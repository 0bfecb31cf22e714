// What the commands of a session are connected to, what they were refused, and what decided.
import { bytes, button, clock, count, duration, empty, facts, h, oneLine, path, problem, replace, table, when } from "./dom.js";
import { enc } from "./api.js";
import { Page } from "./tables.js";

const EVERY = 2000; // bytes are counted without an event

const MODES = {
  disabled: "The commands of this session have no network.",
  host: "Nothing is between the commands of this session and the network of this machine: what they connect to is not known here.",
};

const port = (x) => (x.port ? ":" + x.port : "");
const literal = (a) => (a?.includes(":") ? "[" + a + "]" : a ?? "");

// place is where something was to go: the name if there is one, and the address.
function place(x) {
  if (!x.address) return path(x.host ?? "");
  if (!x.host) return path(literal(x.address) + port(x));
  return [path(x.host + port(x)), " ", h("span", { class: "dim" }, oneLine(x.address))];
}

function program(p) {
  if (!p) return h("span", { class: "dim" }, "not known");
  return h("span", { title: [p.program, p.command_line].filter(Boolean).join("\n") }, h("bdi", { class: "cmd" }, oneLine(p.name)), " ", h("span", { class: "dim" }, p.pid));
}

export class NetworkView extends Page {
  constructor(app, params) {
    super(app, "Network", "sessions/" + enc(params.session) + "/network");
    this.session = params.session;
    replace(this.bar, h("h1", null, "Network of ", h("code", null, this.session)), h("span", { class: "grow" }), (this.at = h("span", { class: "dim" })));
    this.load();
    this.timer = setInterval(() => !document.hidden && !this.gone && this.load(), EVERY);
  }

  // read leaves scrolled tables and the focus where they are, and the page alone while text of it is selected.
  async read() {
    const chosen = getSelection();
    if (!chosen.isCollapsed && this.body.contains(chosen.anchorNode)) return;
    this.held = null;
    this.left = new Map();
    await super.read();
    const named = [...this.body.querySelectorAll("[aria-label]")];
    for (const e of named) e.scrollLeft = this.left.get(e.getAttribute("aria-label")) ?? 0;
    if (this.held && !this.closed) named.find((e) => e.getAttribute("aria-label") === this.held)?.focus({ preventScroll: true });
  }

  refused(err) {
    replace(this.at);
    if (err.status === 404) {
      this.gone = true;
      return empty("The session has ended. What was decided is still in the ", h("a", { href: "#/decisions" }, "decisions"), ".");
    }
    return problem(err);
  }

  draw(r) {
    this.gone = false;
    if (this.body.contains(document.activeElement)) this.held = document.activeElement.getAttribute("aria-label");
    for (const e of this.body.querySelectorAll(".scroll")) this.left.set(e.getAttribute("aria-label"), e.scrollLeft);
    replace(this.at, "as of " + clock(r.at));
    if (MODES[r.mode]) return empty(MODES[r.mode]);
    const flag = (name, list) => list.length > 0 && [name, list.map((x) => h("code", { class: "rule" }, oneLine(x)))];
    return [facts([["Policy", r.mode], flag("Allowed", r.allow ?? []), flag("Denied", r.deny ?? []), ["Connections so far", r.allowed], ["Lookups", r.lookups], ["Refused", r.denied]]),
      r.waiting?.length > 0 && h("p", { class: "warning" }, h("a", { href: "#/decisions" }, count(r.waiting.length, "question") + (r.waiting.length === 1 ? " waits" : " wait") + " for a decision"), ": ", oneLine(r.waiting[0].message)),
      this.flows(r), this.refusals(r.refused ?? []), this.answers(r.answers ?? [])];
  }

  flows(r) {
    const flows = r.flows ?? [];
    return [h("h2", null, "Connected now"), flows.length > 0 ? table("Connected now", ["To", "Protocol", "Program", "Since", "Sent", "Received", "By"],
      flows.map((f) => [place(f), f.protocol, program(f.process), h("span", { title: clock(f.since) }, duration(new Date(r.at) - new Date(f.since))), bytes(f.sent), bytes(f.received), h("code", { class: "rule" }, oneLine(f.rule))]), { class: "wide" }) : empty("Nothing is connected."),
    r.live > flows.length && h("p", { class: "note" }, "The newest " + count(flows.length, "connection") + " of " + r.live.toLocaleString("en") + " are listed.")];
  }

  refusals(list) {
    if (!list.length) return [h("h2", null, "Refused"), empty("Nothing was refused.")];
    return [h("h2", null, "Refused"), table("Refused", ["Last", "To", "Protocol", "Times", "Why", "What would allow it"],
      list.map((x) => [when(x.last), place(x), x.protocol === "dns" ? "lookup" : x.protocol, x.times, oneLine(x.rule), x.allow_host ? this.remedy(x.allow_host) : h("span", { class: "dim" }, "no rule")]), { class: "wide" })];
  }

  remedy(rule) {
    const flag = "--allow-host " + (/^[\w.:\/-]+$/.test(rule) ? rule : "'" + rule + "'"); // no rule has a quote in it
    return h("span", { class: "remedy" }, h("code", { class: "rule" }, oneLine(flag)), " ", button("Copy", async () => {
      try {
        await navigator.clipboard.writeText(flag);
        this.app.say("Copied: " + oneLine(flag) + ". It counts for a session that is started with it.");
      } catch {
        this.app.say("The browser does not let this page copy.");
      }
    }, { class: "small", "aria-label": "Copy " + flag }));
  }

  answers(list) {
    if (!list.length) return null;
    return [h("h2", null, "Answered"), table("Answered", ["When", "Question", "Answer", "By", "Scope"], list.map((d) => [when(d.at), h("bdi", { class: "wrap" }, oneLine(d.message)), h("span", { class: "tag " + (d.outcome === "allow" ? "good" : "bad") }, d.outcome), oneLine(d.by ?? ""), oneLine(d.scope ?? "")]), { class: "wide" })];
  }

  event(e) {
    if (e.what === "resume" || (e.what === "decisions" && (!e.session || e.session === this.session)) || e.what === "sessions") this.load();
  }
}

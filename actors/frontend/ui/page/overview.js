// What runs now, and whose history is kept.
import { bytes, command, count, duration, empty, facts, h, path, table, when } from "./dom.js";

const EVERY = 3000; // the load changes without an event

const served = (d) => Object.values(d.bridge?.requests ?? {}).reduce((a, b) => a + b, 0);

// limits are those of a session's machine.
const limits = (m) => Object.entries(m ?? {}).filter(([k]) => k.startsWith("limit_") && k !== "limit_pids_reached").map(([k, v]) => k.slice(6).replaceAll("_", " ") + " " + v).join(", ");

export class OverviewView {
  constructor(app) {
    this.app = app;
    this.before = new Map(); // requests by folder, and when
    this.el = h("div", { class: "page" });
    this.timer = setInterval(() => !document.hidden && !app.lost && app.overview.sessions.length > 0 && this.again(), EVERY);
    this.draw();
  }

  async again() {
    try {
      await this.app.refresh();
      this.draw();
    } catch {
      // the frame says that the connection is lost
    }
  }

  // load is what a folder's bridge has to do: requests in a second since the last look, and those under way.
  load(s, d) {
    const key = s.session + d.path;
    const now = { n: served(d), at: Date.now() };
    const last = this.before.get(key);
    if (!last || now.at - last.at >= EVERY / 2) this.before.set(key, { ...now, rate: last ? Math.max(0, (now.n - last.n) / ((now.at - last.at) / 1000)) : 0 });
    const rate = this.before.get(key).rate;
    return [count(now.n, "request"), rate >= 1 ? count(Math.round(rate), "request") + "/s" : "idle", d.bridge.in_flight > 0 && d.bridge.in_flight + " in flight"].filter(Boolean);
  }

  draw() {
    const held = this.el.contains(document.activeElement) && document.activeElement.getAttribute("href");
    const { sessions, folders, version, user } = this.app.overview;
    this.el.replaceChildren(h("div", { class: "bar head" }, h("h1", null, "Overview"), h("span", { class: "grow" }), h("span", { class: "dim" }, ["sandbox " + (version ?? ""), user].filter(Boolean).join(" · "))),
      h("h2", null, count(sessions.length, "session")),
      sessions.length ? h("div", { class: "cards" }, sessions.map((s) => this.session(s))) : empty("No session runs. Start one: ", h("code", null, "sandbox run -- COMMAND")),
      h("h2", null, count(folders.length, "folder")),
      folders.length ? table("Folders", ["Folder", "Session", "Steps", "Redo", "Stored", "State"], folders.map((f) => [
        h("a", { href: "#/f/" + f.id }, path(f.label ? f.label + " – " + f.path : f.path)), f.session ? h("span", { class: "tag good" }, "live") : h("span", { class: "dim" }, "none"),
        f.log ? f.log.steps : "", f.log?.redoable || "", f.log ? bytes(f.log.stored_bytes) : "", f.problem ? h("span", { class: "tag bad" }, f.problem) : f.writable === false ? "read-only" : ""])) : empty("No folder has a history yet."));
    if (held) [...this.el.querySelectorAll("a")].find((a) => a.getAttribute("href") === held)?.focus({ preventScroll: true });
  }

  session(s) {
    const mine = this.app.overview.folders.filter((f) => f.session === s.session);
    return h("article", { class: "card" },
      h("h3", null, "Session ", h("code", null, s.session), " ", h("span", { class: "tag " + (s.state === "active" ? "good" : s.state === "failed" ? "bad" : "") }, s.state)),
      facts([["Isolation", s.isolation], ["Since", when(s.started_at)], ["Process", s.pid], ["Network", s.machine?.network], ["Limits", limits(s.machine)],
        ["Waiting", s.pending_safeguards ? h("a", { href: "#/decisions" }, count(s.pending_safeguards, "decision")) : null]]),
      (s.running ?? []).length > 0 && h("ul", { class: "plain" }, s.running.slice(0, 5).map((c) => h("li", { class: "one" }, h("span", { class: "pulse", "aria-hidden": "true" }), command(c.command), h("span", { class: "dim" }, " ", duration(Math.max(0, Date.now() - Date.parse(c.started_at))))))),
      h("ul", { class: "plain" }, (s.directories ?? []).map((d) => {
        const f = mine.find((x) => x.path === d.path);
        return h("li", null, f ? h("a", { href: "#/f/" + f.id }, path(d.path)) : path(d.path), h("span", { class: "dim" },
          " ", [d.access === "read_only" && "read-only", d.bridge?.kind, ...(d.bridge ? this.load(s, d) : []), count(d.log?.steps ?? 0, "step"), bytes(d.log?.stored_bytes)].filter(Boolean).join(" · ")),
        d.problem && h("p", { class: "warning" }, d.problem));
      })),
      h("p", null, h("a", { href: "#/s/" + s.session + "/tree" }, "Actors"), " · ", h("a", { href: "#/s/" + s.session + "/network" }, "Network")));
  }

  event(e) {
    if (e.what === "history" || e.what === "tree") {
      clearTimeout(this.soon);
      this.soon = setTimeout(() => this.again(), 300);
    } else if (e.what !== "decisions") this.draw();
  }

  close() {
    clearInterval(this.timer);
    clearTimeout(this.soon);
  }
}

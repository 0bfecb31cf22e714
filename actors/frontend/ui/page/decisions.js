// What waits for a person, and what was decided.
import { button, command, count, duration, empty, h, oneLine, path, problem, replace, table, when } from "./dom.js";
import { enc, post } from "./api.js";

const KINDS = { delete_threshold: "Many deletions", overwrite_large: "Overwriting a large file", rename_over: "Renaming over a file", command: "A command", network: "A connection", gate: "Reading outside", protected_write: "Changing what runs outside" };
const TIMES = { "": "as long as that", "1h": "an hour", "8h": "8 hours", "168h": "a week" };
const SCOPES = { once: "once", session: "for this session", project: "in this folder, always", user: "always, everywhere" };

// question says in one line what is asked.
export function question(p) {
  return oneLine((KINDS[p.kind] ?? p.kind) + ": " + (p.message || p.command || count(p.count ?? 0, "path")));
}

// caller is the program that asks. Its name and its command line are its own words.
const caller = (c) => [command(c.command_line || c.name || "?"), h("span", { class: "dim" }, " (", [c.name, "process " + c.pid, c.program].filter(Boolean).map(oneLine).join(", "), ")")];

const keyOf = (p) => p.session + "/" + p.safeguard_id;

export class DecisionsView {
  constructor(app) {
    this.app = app;
    this.cards = new Map();
    this.list = h("ul", { class: "questions plain", "aria-label": "Waiting" });
    this.none = empty("Nothing waits for a decision.");
    this.recent = h("div");
    this.problem = h("div");
    this.el = h("div", { class: "page" }, h("div", { class: "bar head" }, h("h1", null, "Decisions"), h("span", { class: "grow" }), h("span", { class: "dim keys" }, "j k: next, previous · a: allow · d: deny")),
      this.problem, this.none, this.list, h("h2", null, "Decided"), this.recent);
    document.title = "Decisions – sandbox";
    this.tick = setInterval(() => this.time(), 1000);
    app.decisions();
  }

  // decided shows the server's answer. Cards stay where they are: a key that is
  // pressed while a new question comes meets the one that was looked at.
  decided(r, err) {
    replace(this.problem, err && problem(err));
    if (!r) return;
    const now = new Map((r.pending ?? []).map((p) => [keyOf(p), p]));
    for (const [k, c] of this.cards) {
      if (now.has(k)) continue;
      const next = c.contains(document.activeElement) && (c.nextElementSibling ?? c.previousElementSibling);
      c.remove();
      this.cards.delete(k);
      next?.focus?.();
    }
    for (const [k, p] of now) {
      if (!this.cards.has(k)) {
        const c = this.card(p);
        this.cards.set(k, c);
        this.list.append(c);
      }
    }
    this.none.hidden = now.size > 0;
    this.history(r.recent ?? []);
    this.time();
  }

  card(p) {
    const id = "q" + keyOf(p).replace(/[^\w]/g, "-");
    const scopes = p.scopes ?? [];
    const scope = scopes.length > 0 && h("select", { id: id + "s" }, scopes.map((s) => h("option", { value: s, selected: s === "session" }, SCOPES[s] ?? s)));
    const time = scope && h("select", { id: id + "t" }, Object.entries(TIMES).map(([v, name]) => h("option", { value: v }, name)));
    const say = h("div", { role: "status" });
    const answer = (allow) => this.answer(c, p, scope ? { allow, scope: scope.value, ...(time.value && { for: time.value }) } : { allow }, say);
    const folder = this.app.folder(p.folder);
    const c = h("li", { class: "card question", tabindex: "-1", id, "aria-labelledby": id + "h" },
      h("h2", { id: id + "h" }, KINDS[p.kind] ?? oneLine(p.kind), h("span", { class: "left-time", "data-deadline": p.deadline, "data-since": p.since })),
      p.message && h("p", { class: "message" }, p.message),
      p.command && h("pre", { class: "command" }, p.command),
      h("p", { class: "dim" }, "In ", folder ? h("a", { href: "#/f/" + folder.id }, path(folder.label || folder.path)) : path(p.directory || ""), p.step_id ? ", step " + p.step_id : "", ", session ", h("code", null, p.session), ", ", when(p.since)),
      p.callers?.length > 0 && h("p", { class: "asker" }, h("span", { class: "dim" }, "Asked by "), caller(p.callers[0]), p.callers.length > 1 && h("span", { class: "dim" }, ", started by ", p.callers.slice(1, 6).map((x, i) => [i > 0 && " ← ", oneLine(x.name || "?")]))),
      p.sample_paths?.length > 0 && h("details", { open: true }, h("summary", null, count(Math.max(p.count ?? 0, p.sample_paths.length), "path")), h("ul", { class: "plain samples" }, p.sample_paths.slice(0, 50).map((x) => h("li", null, path(x))))),
      h("div", { class: "actions" }, scope && h("label", { for: id + "s" }, "Holds ", scope), scope && h("label", { for: id + "t" }, "For ", time), h("span", { class: "grow" }),
        button("Deny", () => answer(false), { class: "deny" }), button("Allow", () => answer(true), { class: "primary allow" })), say);
    c.answer = answer;
    return c;
  }

  async answer(card, p, body, say) {
    if (card.dataset.sent) return;
    card.dataset.sent = "1";
    replace(say, "…");
    try {
      await post("sessions/" + enc(p.session) + "/decisions/" + enc(p.safeguard_id), body);
      this.app.say((body.allow ? "Allowed: " : "Denied: ") + question(p));
    } catch (err) {
      delete card.dataset.sent;
      replace(say, problem(err));
      if (err.status === 409) this.app.say(err.message);
    }
    this.app.decisions();
  }

  time() {
    for (const e of this.list.querySelectorAll("[data-deadline]")) {
      const left = Date.parse(e.dataset.deadline) - Date.now();
      e.textContent = left > 0 && left < 365 * 86400e3 ? "denied in " + (left < 60e3 ? Math.ceil(left / 1000) + " s" : duration(left)) : "";
      e.classList.toggle("soon", left > 0 && left < 10e3);
    }
  }

  history(lines) {
    const rows = lines.filter((l) => l.decision).map((l) => ({ class: "", cells: [when(l.at), h("span", { class: "tag " + (l.decision === "allow" ? "good" : l.decision === "deny" ? "bad" : "") }, l.decision), KINDS[l.kind] ?? l.kind,
      h("span", { class: "wrap" }, oneLine(l.message || l.command || count(l.count ?? 0, "path"))), [l.by, l.rule].filter(Boolean).join(": "), SCOPES[l.scope] ?? l.scope ?? "", path(l.directory ?? "")] }));
    replace(this.recent, rows.length ? table("Decided", ["When", "Decision", "Kind", "What", "By", "Scope", "Folder"], rows) : empty("Nothing has been decided yet."));
  }

  key(k) {
    const cards = [...this.list.children];
    const at = cards.findIndex((c) => c.contains(document.activeElement));
    if (k === "j" || k === "k") {
      const next = at < 0 ? 0 : Math.max(0, Math.min(cards.length - 1, at + (k === "j" ? 1 : -1)));
      cards[next]?.focus();
      return true;
    }
    if ((k === "a" || k === "d") && at >= 0) {
      cards[at].answer(k === "a");
      return true;
    }
    return false;
  }

  event(e) {
    if (e.what === "resume") this.app.decisions();
  }

  close() {
    clearInterval(this.tick);
  }
}

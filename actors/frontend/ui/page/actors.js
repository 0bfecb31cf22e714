// The live tree of a session's actors.
import { bytes, clock, empty, h, oneLine, problem, replace, reduced } from "./dom.js";
import { enc, get } from "./api.js";

const EVERY = 2000; // queues change without an event

export class ActorsView {
  constructor(app, params) {
    this.app = app;
    this.session = params.session;
    this.restarts = new Map();
    this.open = new Set(); // whose messages are shown
    this.tree = h("ul", { class: "actors", role: "list" });
    this.problem = h("div");
    this.at = h("span", { class: "dim" });
    this.el = h("div", { class: "page" }, h("div", { class: "bar head" }, h("h1", null, "Actors of ", h("code", null, this.session)), h("span", { class: "grow" }), this.at), this.problem,
      h("div", { class: "legend" }, h("span", { class: "key a-good" }, "works"), h("span", { class: "key a-idle" }, "waits"), h("span", { class: "key a-bad" }, "failed or restarted"), h("span", { class: "key a-held" }, "holds operations")), this.tree);
    document.title = "Actors – sandbox";
    this.load();
    this.timer = setInterval(() => !document.hidden && !this.gone && this.load(), EVERY);
  }

  async load() {
    if (this.loading) return;
    this.loading = true;
    try {
      const t = await get("sessions/" + enc(this.session) + "/tree");
      this.gone = false;
      replace(this.problem);
      replace(this.at, "as of " + clock(t.at));
      const open = document.activeElement?.dataset?.pid;
      replace(this.tree, this.node(t.root, ""));
      if (open) this.tree.querySelector("[data-pid=" + CSS.escape(open) + "]")?.focus();
      this.first = true;
    } catch (err) {
      if (err.status === 404) {
        this.gone = true;
        replace(this.tree);
        replace(this.problem, empty("The session has ended. Its history is still there."));
      } else replace(this.problem, problem(err));
    } finally {
      this.loading = false;
    }
  }

  node(n, above) {
    const key = above + "/" + n.name;
    const before = this.restarts.get(key);
    this.restarts.set(key, n.restarts);
    const flash = before !== undefined && n.restarts > before;
    const bad = n.last_error || n.state === "failed" || n.state === "stopped";
    const cls = bad ? "a-bad" : n.holds ? "a-held" : n.mailbox > 0 || /active|serving|running|busy|open/.test(n.state) ? "a-good" : "a-idle";
    const facts = Object.entries(n.facts ?? {});
    if (flash) this.app.say(n.name + " was restarted");
    return h("li", null, h("div", { class: "actor " + cls + (flash && !reduced() ? " flash" : flash ? " changed" : "") },
      h("strong", null, oneLine(n.name)), n.state && h("span", { class: "tag" }, oneLine(n.state)),
      h("span", { class: "queue", title: "messages that wait", "aria-label": "queue " + n.mailbox }, h("span", { class: "fillbar", style: { width: Math.min(100, Math.log2(1 + n.mailbox) * 10) + "%" } }), h("span", { class: "n" }, "queue " + n.mailbox)),
      n.restarts > 0 && h("span", { class: "tag bad" }, "restarts " + n.restarts), n.holds > 0 && h("span", { class: "tag held" }, "holds " + n.holds), n.bytes_in_flight > 0 && h("span", { class: "dim" }, bytes(n.bytes_in_flight) + " held"),
      facts.map(([k, v]) => h("span", { class: "dim fact" }, k.replaceAll("_", " ") + " ", h("b", null, oneLine(v)))),
      n.last_error && h("span", { class: "error" }, oneLine(n.last_error)), this.messages(n, key)),
    n.children?.length > 0 && h("ul", { role: "list" }, n.children.map((c) => this.node(c, key))));
  }

  // messages are the last that the actor took, the newest first; what is open stays open when the tree is drawn anew.
  messages(n, key) {
    if (!n.messages?.length) return null;
    const last = n.messages.at(-1);
    const el = h("details", { class: "messages", open: this.open.has(key), ontoggle: () => this.open[el.open ? "add" : "delete"](key) },
      h("summary", { class: "dim" }, "last message ", h("b", null, oneLine(last.type)), " at " + clock(last.at)),
      h("ol", null, n.messages.toReversed().map((m) => h("li", { class: m.panicked ? "error" : "" },
        clock(m.at) + " ", h("code", null, oneLine(m.type)), m.panicked ? " crashed" : m.running ? " still working" : " " + m.took_us + " µs"))));
    return el;
  }

  event(e) {
    if ((e.what === "tree" && (!e.session || e.session === this.session)) || e.what === "sessions" || e.what === "resume") this.load();
  }

  close() {
    clearInterval(this.timer);
  }
}

// Where commands run: the machine of each session with the end of its console, the images that
// virtual machines boot, and the making of one.
import { button, bytes, count, duration, empty, facts, h, oneLine, path, problem, replace, table, visible, when } from "./dom.js";
import { get, post } from "./api.js";
import { dialog } from "./dialogs.js";
import { any, label, Page } from "./tables.js";

const EVERY = 3000; // a console changes without an event

const FIRST = ["isolation", "acceleration", "kernel", "memory", "cpus", "network", "bridge", "started_at", "pid"];
const rank = (k) => (FIRST.includes(k) ? FIRST.indexOf(k) : FIRST.length);

const KINDS = { busybox: "Kernel and busybox", debian: "Debian" };
const STATES = { running: ["building", "good"], done: ["done", "good"], failed: ["failed", "bad"], cancelled: ["cancelled", "held"] };

// askBuild asks which image is to be made. It resolves with the server's answer.
function askBuild(images) {
  return dialog("Build an image", (body, close) => {
    const has = (kind) => images.some((i) => i.kind === kind && !i.problem);
    const root = h("input", { type: "checkbox", id: "buildroot" });
    const force = h("input", { type: "checkbox", id: "buildforce" });
    const say = h("div", { role: "status" });
    const yes = button("Build", async () => {
      yes.disabled = true;
      try {
        close(await post("machine/build", { rootfs: root.checked, force: force.checked }));
      } catch (err) {
        replace(say, problem(err));
        yes.disabled = false;
      }
    }, { class: "primary" });
    replace(body, h("p", null, "Virtual machines boot a kernel and a small system of programs. Both come from your distribution's packages: this downloads about 30 MB, and needs no rights."),
      h("p", null, h("label", { for: "buildroot" }, root, " Also a Debian system for it: compilers, git, python3. It downloads some hundred MB, and takes minutes.")),
      has("busybox") && h("p", null, h("label", { for: "buildforce" }, force, " Build again what is there, with the newest packages.")),
      say, h("div", { class: "actions" }, button("Cancel", () => close(null), { autofocus: true }), yes));
  });
}

export class MachineView extends Page {
  constructor(app) {
    super(app, "Machine", "machine");
    this.sessions = h("div");
    this.images = h("div");
    this.building = h("div");
    replace(this.body, h("h2", null, "Sessions"), this.sessions, h("h2", null, "Images of virtual machines"), this.building, this.images);
    this.timer = setInterval(() => !document.hidden && this.app.overview.sessions.some((s) => s.console) && this.consoles(), EVERY);
    this.drawSessions();
    this.load();
  }

  async read() {
    const [images, build] = await Promise.allSettled([get("machine"), get("machine/build")]);
    if (this.closed) return;
    this.drawBuild(build);
    if (images.status === "rejected") {
      this.listed = undefined;
      return replace(this.images, problem(images.reason));
    }
    this.list = images.value;
    const text = JSON.stringify([images.value, this.running]);
    if (text === this.listed) return; // what somebody is about to press stays where it is
    this.listed = text;
    const held = document.activeElement?.id === "build";
    replace(this.images, images.value.length
      ? table("Images", ["Image", "For", "Version", "Size", "Built", "In"], images.value.map((i) => [KINDS[i.kind] ?? oneLine(i.kind), i.arch, [oneLine(i.version ?? ""), i.packages ? h("span", { class: "dim" }, " " + count(i.packages, "package")) : null], bytes(i.bytes), when(i.built_at), [path(i.dir), i.problem && h("p", { class: "warning" }, i.problem)]]), { class: "wide" })
      : empty("None was built. Sessions run in the jail without one; ", h("code", null, "--isolation vm"), " needs one."),
    h("p", null, button("Build an image…", () => this.build(), { id: "build", disabled: this.running })));
    if (held) document.getElementById("build")?.focus({ preventScroll: true });
  }

  // drawBuild shows how the building goes, or how the last one ended.
  drawBuild(r) {
    if (r.status === "rejected") return this.stopped(r.reason);
    const b = r.value;
    const was = this.running;
    this.running = b.state === "running";
    if (this.running && this.output?.of === b.started_at) return this.say(b.lines); // the button that cancels it stays where it is
    clearInterval(this.tick);
    this.output = null;
    if (b.state === "none") return replace(this.building);
    const [text, cls] = STATES[b.state] ?? [b.state, ""];
    const took = h("span", { class: "dim" });
    const tell = () => replace(took, duration(Math.max(0, (b.ended_at ? Date.parse(b.ended_at) : Date.now()) - Date.parse(b.started_at))));
    const held = this.building.contains(document.activeElement);
    this.output = { of: b.started_at, place: h("div") };
    replace(this.building, h("section", { class: "card build", "aria-label": "Building an image" },
      h("div", { class: "bar" }, this.running && h("span", { class: "pulse", "aria-hidden": "true" }), h("h3", null, b.rootfs ? "An image with Debian" : "An image"), h("span", { class: "tag " + cls }, text), took, h("span", { class: "grow" }),
        this.running && button("Cancel", (e) => this.cancel(e.target), { id: "cancelbuild" })),
      this.running && h("div", { class: "progress", role: "progressbar", "aria-label": "Building" }, h("span")),
      b.problem && problem({ message: b.problem }), b.result && this.result(b.result), this.output.place));
    this.say(b.lines);
    tell();
    if (this.running) this.tick = setInterval(tell, 1000);
    if (held) (document.getElementById("cancelbuild") ?? document.getElementById("build"))?.focus({ preventScroll: true });
    if (was && !this.running) this.app.say("The image: " + text);
  }

  // say shows what the build says, at its end.
  say(lines) {
    const { place } = this.output;
    if (!place.firstChild && lines.length) replace(place, h("pre", { class: "output", tabindex: "0", "aria-label": "What the build says" }));
    const out = place.firstChild;
    if (!out) return;
    out.textContent = lines.map(oneLine).join("\n");
    out.scrollTop = out.scrollHeight;
  }

  stopped(reason) {
    this.output = null;
    replace(this.building, problem(reason));
  }

  result(r) {
    return h("p", null, r.built || r.rootfs?.built ? "Built" : "It was built already", r.kernel ? ": Linux " + oneLine(r.kernel) + ", " + count(r.modules?.length ?? 0, "module") + ", " + count(r.applets ?? 0, "program") : "", r.rootfs ? "; Debian " + oneLine(r.rootfs.suite ?? "") : "", ".");
  }

  async build() {
    const begun = await askBuild(this.list ?? []);
    if (begun) await this.load();
    document.getElementById(begun ? "cancelbuild" : "build")?.focus({ preventScroll: true });
  }

  async cancel(b) {
    b.disabled = true;
    try {
      await post("machine/build/cancel", {});
    } catch (err) {
      if (err.code !== "not_running") this.stopped(err);
    }
    this.load();
  }

  // consoles asks what has changed on them.
  async consoles() {
    try {
      await this.app.refresh();
      if (!this.closed) this.drawSessions();
    } catch {
      // the frame says that the connection is lost
    }
  }

  // drawSessions shows what each session tells of where its commands run.
  drawSessions() {
    const list = this.app.overview.sessions;
    const text = JSON.stringify(list.map((s) => [s.session, s.state, s.isolation, s.machine, s.console]));
    if (text === this.drawn) return; // what is read stays where it is
    this.drawn = text;
    replace(this.sessions, list.length ? h("div", { class: "cards" }, list.map((s) => this.session(s))) : empty("No session runs, so no machine does."));
    for (const c of this.sessions.querySelectorAll(".console")) c.scrollTop = c.scrollHeight;
  }

  session(s) {
    const m = { ...s.machine };
    const vm = s.isolation === "vm";
    const paused = m.paused === "true";
    delete m.paused;
    const known = Object.entries(m).sort(([a], [b]) => rank(a) - rank(b));
    return h("section", { class: "card" }, h("h2", null, vm ? "Virtual machine of " : "Session ", h("code", null, s.session), " ", h("span", { class: "tag " + (paused ? "held" : s.state === "active" ? "good" : s.state === "failed" ? "bad" : "") }, paused ? "paused" : s.state)),
      known.length ? facts(known.map(([k, v]) => [label(k), any(v === "true" ? true : v === "false" ? false : v, k)])) : facts([["isolation", s.isolation]]),
      vm && [h("h3", null, "Console"), s.console?.length ? h("pre", { class: "output console", tabindex: "0", "aria-label": "The console's last lines" }, s.console.map(oneLine).map(visible).join("\n")) : empty("The machine has said nothing on it.")]);
  }

  event(e) {
    if (e.what === "build") this.soon ??= setTimeout(() => { this.soon = null; this.load(); }, 100);
    if (e.what === "resume" || e.what === "sessions" || e.what === "status") this.drawSessions();
    if (e.what === "resume") this.load();
  }

  close() {
    super.close();
    clearInterval(this.tick);
    clearTimeout(this.soon);
  }
}

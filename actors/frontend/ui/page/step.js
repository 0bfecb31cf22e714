// The panel of one step: what ran, what it changed, and the way back.
import { button, bytes, clock, command, count, duration, empty, facts, h, oneLine, path, problem, replace, table, visible, when } from "./dom.js";
import { enc, get, picture } from "./api.js";
import { Diff } from "./diff.js";
import { outputs } from "./output.js";
import { Paths, sign } from "./paths.js";

const PICTURES = /\.(png|jpe?g|gif|webp)$/i;
const PAGE = 1000;

export class StepPanel {
  // actions: undo(id), redo(id), restore(path, id), close(), and pictures: whether the
  // server has the bytes of pictures.
  constructor(folder, actions) {
    this.folder = folder;
    this.actions = actions;
    this.head = h("div", { class: "stephead" });
    this.chosen = h("div", { class: "bar chosen" });
    this.paths = new Paths((a) => this.choose(a));
    this.diff = new Diff();
    this.pictures = h("div", { class: "pictures" });
    this.note = h("p", { class: "note", role: "status" });
    this.output = h("div");
    this.el = h("section", { class: "step", "aria-label": "Step" }, this.head, h("div", { class: "stepbody" },
      h("div", { class: "pathbox" }, this.note, this.paths.el), h("div", { class: "content" }, this.chosen, this.pictures, this.diff.el)));
  }

  get base() {
    return "folders/" + this.folder + "/steps/" + this.id;
  }

  // show fetches a step. entry is what the page already knows of it, or null.
  async show(id, entry, undone, wanted) {
    if (this.id === id && this.loaded) return this.heading(entry ?? this.entry, undone);
    this.id = id;
    this.loaded = false;
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    this.paths.clear();
    this.paths.show();
    replace(this.pictures);
    replace(this.output);
    replace(this.chosen);
    this.diff.clear();
    if (entry) this.heading(entry, undone);
    else replace(this.head, h("p", { class: "dim" }, "Reading step " + id + "…"));
    try {
      let r = await get(this.base, { limit: PAGE }, abort.signal);
      if (abort.signal.aborted) return;
      this.loaded = true;
      this.heading(r.entry, undone);
      if (r.entry.type === "command") this.written(abort.signal);
      this.paths.push(r.paths ?? []);
      this.paths.spread();
      this.first(r.total, wanted);
      let got = r.paths?.length ?? 0;
      this.said(got, r.total);
      for (let pages = 1; got < r.total && r.paths?.length; pages++) {
        r = await get(this.base, { offset: got, limit: PAGE }, abort.signal);
        this.paths.push(r.paths ?? []);
        got += r.paths?.length ?? 0;
        if (pages % 10 === 0 || got >= r.total) this.paths.show();
        this.said(got, r.total);
      }
    } catch (err) {
      if (err.name === "AbortError") return;
      if (entry) replace(this.note, err.message);
      else replace(this.head, h("div", { class: "bar" }, button("Close", this.actions.close, { class: "small" })), problem(err));
    }
  }

  said(got, total) {
    replace(this.note, got < total ? count(got, "path") + " of " + total.toLocaleString("en") + " …" : count(total, "path"));
  }

  first(total, wanted) {
    const n = (wanted && this.paths.list.items.find((x) => x.affected?.path === wanted)) ?? this.paths.first();
    if (n) this.paths.choose(n);
    else if (total > 0) this.whole();
    else replace(this.chosen, empty("This step changed nothing."));
  }

  heading(e, undone) {
    this.entry = e;
    const exit = e.exit_code === null || e.exit_code === undefined ? null : e.exit_code;
    replace(this.head,
      h("div", { class: "bar" }, h("h2", null, undone ? "Undone step " : "Step ", String(e.step_id)),
        exit !== null && h("span", { class: "tag " + (exit ? "bad" : "good") }, "exit " + exit),
        e.status !== "completed" && h("span", { class: "tag bad" }, e.status), undone && h("span", { class: "tag" }, "undone"),
        e.rest_of && h("span", { class: "tag bad", title: (e.left ?? []).map((x) => oneLine(x.path) + " (" + x.what + "): " + x.reason).join("\n") }, "left of step " + e.rest_of),
        e.unprotected && h("span", { class: "tag bad" }, "cannot be undone"), h("span", { class: "grow" }),
        undone ? button("Redo…", () => this.actions.redo(e.step_id), { class: "primary" }) : button("Undo to here…", () => this.actions.undo(e.step_id), { class: "primary", title: "Undo this step and all newer ones" }),
        button("Close", this.actions.close, { class: "small", "aria-label": "Close the step" })),
      h("pre", { class: "command", tabindex: "0", "aria-label": "Command" }, visible(e.command || "(" + e.type + ")")),
      e.damaged && h("p", { class: "warning" }, "Damaged: " + e.damaged),
      facts([["Started", when(e.started_at)], ["Took", duration(Date.parse(e.ended_at) - Date.parse(e.started_at))], ["Kind", e.type], ["Stored", bytes(e.stored_bytes) + (e.compressed ? ", compressed" : "")],
        e.dir && ["In", path(e.dir)], e.group && ["Run", h("span", null, "#" + e.group)]]),
      this.commands(e), this.barriers(e), this.output);
  }

  // written fetches what the step's commands wrote. It is of less worth than the rest: without an answer there is none.
  async written(signal) {
    const r = await get(this.base + "/output", {}, signal).catch(() => null);
    if (!signal.aborted && r) replace(this.output, outputs(r.commands));
  }

  commands(e) {
    if (!e.commands?.length) return null;
    return h("details", null, h("summary", null, count(e.command_count || e.commands.length, "command")),
      table("Commands of the step", ["Command", "Exit", "Took"], e.commands.map((c) => [command(c.command), c.exit_code ?? c.status, duration(Date.parse(c.ended_at) - Date.parse(c.started_at))])));
  }

  barriers(e) {
    if (!e.barriers?.length) return null;
    return h("div", { class: "barrier" }, h("strong", null, "Changed outside the sandbox after this step"),
      e.barriers.map((b) => h("ul", { class: "plain" }, h("li", { class: "dim" }, clock(b.detected_at)), (b.paths ?? []).slice(0, 20).map((p) => h("li", null, this.fileLink(p))))));
  }

  fileLink(p) {
    return h("a", { href: "#/f/" + this.folder + "/file?path=" + enc(p) }, path(p));
  }

  choose(a) {
    if (this.path === a.path && this.shown === this.id) return;
    this.path = a.path;
    this.shown = this.id;
    replace(this.chosen, sign(a.change), path(a.path), h("span", { class: "dim" }, a.change + (a.type === "file" ? "" : " " + a.type)), h("span", { class: "grow" }),
      h("a", { class: "button small", href: "#/f/" + this.folder + "/file?path=" + enc(a.path) }, "History of the path"),
      button("Restore…", () => this.actions.restore(a.path, this.id), { class: "small", title: "Put this path back to before this step" }),
      button("Whole step", () => this.whole(), { class: "small" }));
    replace(this.pictures);
    if (this.actions.pictures && PICTURES.test(a.path) && a.type === "file") this.picture(a);
    this.diff.load(this.base + "/diff", { path: a.path });
  }

  whole() {
    this.path = null;
    replace(this.chosen, h("strong", null, "All changes of the step"));
    replace(this.pictures);
    this.diff.load(this.base + "/diff", {});
  }

  picture(a) {
    const one = (side, there) => h("figure", null, h("figcaption", null, side === "before" ? "Before" : "After"),
      there ? this.image(side, a) : empty("not there"));
    replace(this.pictures, one("before", a.existed_before), one("after", a.exists_after));
  }

  // image is a picture that comes when the server has sent it.
  image(side, a) {
    const img = h("img", { alt: oneLine(a.path) + " " + side, onload: () => URL.revokeObjectURL(img.src), onerror: () => img.replaceWith(empty("no preview")) });
    picture(this.base + "/content", { side, path: a.path }).then((url) => (img.src = url), () => img.replaceWith(empty("no preview")));
    return img;
  }

  close() {
    this.abort?.abort();
    this.paths.close();
    this.diff.close();
  }
}

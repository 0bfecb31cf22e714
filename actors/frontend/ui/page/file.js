// Every version of one path.
import { bytes, button, command, count, empty, h, oneLine, path, problem, replace, when } from "./dom.js";
import { get, latest } from "./api.js";
import { Diff } from "./diff.js";
import { List } from "./list.js";
import { sign } from "./paths.js";
import * as ask from "./dialogs.js";

export class FileView {
  constructor(app, params) {
    this.app = app;
    this.folder = params.folder;
    this.path = params.query.get("path") ?? "";
    this.list = new List({ label: "Versions, newest first", class: "steplist", height: 44, key: (v) => v.entry.step_id, row: (v) => this.row(v), active: (v) => this.choose(v) });
    this.diff = new Diff();
    this.chosen = h("div", { class: "bar chosen" });
    this.problem = h("div");
    this.head = h("h1", null, path(this.path));
    this.el = h("div", { class: "folder file" }, h("div", { class: "bar head" }, h("a", { class: "button small", href: "#/f/" + this.folder }, "Timeline"), this.head), this.problem,
      h("div", { class: "split open" }, h("div", { class: "left" }, this.list.el), h("section", { class: "step", "aria-label": "Version" }, this.chosen, this.diff.el)));
    this.load = latest(() => this.read());
    this.load();
  }

  async read() {
    try {
      const r = await get("folders/" + this.folder + "/files", { path: this.path });
      document.title = oneLine(this.path) + " – sandbox";
      this.list.set(r.versions ?? []);
      replace(this.problem);
      if (!r.versions?.length) replace(this.problem, empty("No step that is kept has changed this path."));
      else if (this.list.index < 0) this.list.select(0);
    } catch (err) {
      replace(this.problem, problem(err));
    }
  }

  row(v) {
    return h("div", { class: "entry version" }, sign(v.change), h("span", { class: "id" }, "#" + v.entry.step_id), command(v.entry.command || v.entry.type), h("span", { class: "grow" }),
      h("span", { class: "num" }, typeof v.size_before === "number" && typeof v.size_after === "number" ? bytes(v.size_before) + " → " + bytes(v.size_after) : v.change), h("span", { class: "num at" }, when(v.entry.started_at)));
  }

  choose(v) {
    if (this.shown === v.entry.step_id) return;
    const id = (this.shown = v.entry.step_id);
    replace(this.chosen, sign(v.change), h("a", { href: "#/f/" + this.folder + "/s/" + id + "?path=" + encodeURIComponent(this.path) }, "Step " + id), h("span", { class: "dim" }, v.change), h("span", { class: "grow" }),
      button("Restore to before this step…", async () => {
        const r = await ask.restore(this.folder, this.path, id);
        if (r) {
          this.app.say("Restored: " + count(r.done.path_count ?? 0, "path") + " changed.");
          this.load();
        }
      }, { class: "small" }));
    this.diff.load("folders/" + this.folder + "/steps/" + id + "/diff", { path: this.path });
  }

  event(e) {
    if ((e.what === "history" && e.folder === this.folder) || e.what === "resume") this.load();
  }

  close() {
    this.list.close();
    this.diff.close();
  }
}

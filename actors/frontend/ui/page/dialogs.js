// Asks before anything changes: what an undo, a redo or a restore would do is shown
// first, with all its steps and paths and with the edits that it would overwrite.
import { button, command, count, h, oneLine, path, problem, replace } from "./dom.js";
import { ApiError, enc, get, post, stream } from "./api.js";
import { fileDiff } from "./filediff.js";
import { Paths } from "./paths.js";

// dialog opens a modal one, and resolves with what close was called with.
export function dialog(title, build) {
  return new Promise((resolve) => {
    let value = null;
    const body = h("div", { class: "body" });
    const id = "title" + Date.now();
    const d = h("dialog", { "aria-labelledby": id, onclose: () => { d.remove(); resolve(value); } },
      h("h2", { id }, title), body);
    document.body.append(d);
    build(body, (v) => { value = v; d.close(); }, d);
    d.showModal();
  });
}

// real leaves out the barriers, which a forced undo crosses and lists, too.
const real = (steps) => (steps ?? []).filter((e) => e.type !== "barrier");

const entryName = (e) => [h("span", { class: "id" }, e.step_id ? "#" + e.step_id : ""), " ", command(e.command || e.type)];

const MOST = 400; // lines of a diff in a dialog

// both shows what a path had before its newest step, which an undo of that brings back, and what is there now.
function both(folder, p) {
  const box = h("div");
  let asked = false;
  const look = async () => {
    if (asked) return;
    asked = true;
    replace(box, h("p", { class: "dim" }, "Reading…"));
    try {
      const { versions } = await get("folders/" + folder + "/files", { path: p });
      const id = versions?.[0]?.entry.step_id;
      if (!id) return void replace(box, h("p", { class: "dim" }, "No step that is kept has changed this path."));
      const lines = [];
      const cut = await stream("folders/" + folder + "/steps/" + id + "/diff", { path: p }, (l) => lines.push(l) < MOST);
      replace(box, h("p", { class: "dim" }, "− before step " + id + ", what undoing it brings back; + what is there now"), lines.length ? fileDiff(lines.join("\n"), p) : h("p", { class: "dim" }, "Both are alike."), cut && h("p", { class: "note" }, "The rest is not shown."),
        h("p", null, h("a", { href: "#/f/" + folder + "/file?path=" + enc(p) }, "History of the path")));
    } catch (err) {
      replace(box, problem(err));
    }
  };
  return h("details", { ontoggle: look }, h("summary", null, path(p)), box);
}

function barrierBox(paths, folder, force, changed) {
  return h("div", { class: "barrier" },
    h("h3", null, "Changed outside the sandbox"),
    h("p", null, "Somebody else has changed " + count(paths.length, "path") + " since. This would overwrite those edits:"),
    h("ul", { class: "plain" }, paths.slice(0, 100).map((p) => h("li", null, both(folder, p)))),
    paths.length > 100 && h("p", null, count(paths.length - 100, "path") + " more"),
    h("label", null, h("input", { type: "checkbox", id: "force", checked: force, onchange: (e) => changed(e.target.checked) }), " Overwrite these edits"));
}

function leftList(r) {
  return [r, ...(r.also ?? [])].flatMap((x) => x.left ?? []);
}

// leftPaths names what cannot be put back, and why.
function leftPaths(r) {
  const list = leftList(r);
  return list.length > 0 && h("div", { class: "warning" }, h("p", null, "Left as it is, because it cannot be put back:"),
    h("ul", null, list.slice(0, 100).map((x) => h("li", null, oneLine(x.path) + " (" + x.what + "): " + x.reason))));
}

// leftText is a sentence about what was left, or nothing.
export function leftText(r) {
  const list = leftList(r);
  return list.length === 0 ? "" : " Left as it is: " + list.slice(0, 3).map((x) => oneLine(x.path) + " (" + x.what + "): " + x.reason).join("; ") + (list.length > 3 ? " and " + (list.length - 3) + " more" : "") + ".";
}

function resultPaths(r) {
  const all = [r, ...(r.also ?? [])].flatMap((x) => x.paths ?? []);
  const total = [r, ...(r.also ?? [])].reduce((n, x) => n + (x.path_count ?? 0), 0);
  const tree = new Paths(() => {}, "Paths that would change back");
  tree.push(all);
  const box = h("div", null, h("h3", null, count(total, "path") + " would change back; the signs say what the steps did"), all.length > 0 && tree.el,
    total > all.length && h("p", { class: "note" }, "The first " + all.length + " are shown."));
  queueMicrotask(() => tree.spread(200));
  return box;
}

function stepList(title, steps) {
  return h("div", null, h("h3", null, title),
    h("ol", { class: "steps", tabindex: "0", "aria-label": title }, steps.slice(0, 500).map((e) => h("li", null, entryName(e)))),
    steps.length > 500 && h("p", null, count(steps.length - 500, "step") + " more"));
}

// preview runs the request as a dry run, shows it, and then does it. words: {title,
// verb(result) -> the button's text, heading}; barriers are those that are known before.
function preview(folder, action, request, words, barriers) {
  return dialog(words.title, (body, close) => {
    let force = false;
    let sent = null;
    const say = h("div", { role: "status" });
    const no = button("Cancel", () => close(null), { autofocus: true });
    const yes = button("…", () => go(), { class: "primary danger", disabled: true });
    const content = h("div", { class: "content" });
    replace(body, content, say, h("div", { class: "actions" }, no, yes));

    const look = async () => {
      yes.disabled = true;
      replace(say, h("p", { class: "dim" }, "Looking what would change…"));
      try {
        const r = await post("folders/" + folder + "/" + action, { ...request, force, dry_run: true });
        sent = r;
        replace(content, real(r.steps).length > 0 && stepList(words.heading, real(r.steps)), force && barriers.length > 0 && barrierBox(barriers, folder, force, turn),
          (r.warnings ?? []).map((w) => h("p", { class: "warning" }, w)), leftPaths(r), resultPaths(r));
        replace(say);
        yes.textContent = words.verb(r);
        if (request.expect && String(real(r.steps).map((e) => e.step_id)) !== String(request.expect)) throw new ApiError(409, { code: "changed" });
        yes.disabled = false;
      } catch (err) {
        refused(err);
      }
    };
    const turn = (v) => {
      force = v;
      look();
    };
    const refused = (err) => {
      const paths = err.body?.paths ?? err.body?.barriers?.flatMap((b) => b.paths) ?? (/barrier/.test(err.code) ? barriers : []);
      if (paths.length || /barrier/.test(err.code)) {
        barriers = paths;
        replace(content, barrierBox(paths, folder, force, turn));
        replace(say);
        document.getElementById("force")?.focus();
      } else if (err.code === "unprotected" && !force) {
        replace(content, problem(err), h("label", null, h("input", { type: "checkbox", id: "force", onchange: (e) => turn(e.target.checked) }), " Undo what can be undone"));
        replace(say);
      } else if (err.code === "changed") {
        replace(say, h("p", { class: "warning" }, "The history has changed since this page showed it. Close this, and look again."));
      } else replace(say, problem(err));
      yes.textContent = words.title;
    };
    // What is done is what was shown.
    const shown = () => (request.expect ? { ...request, expect: sent.steps.map((e) => e.step_id), force } : { ...request, force });
    const go = async () => {
      yes.disabled = true;
      no.disabled = true;
      replace(say, h("p", { class: "dim" }, "Working…"));
      try {
        close({ done: await post("folders/" + folder + "/" + action, shown()), preview: sent });
      } catch (err) {
        no.disabled = false;
        refused(err);
      }
    };
    look();
  });
}

const affected = (e) => (e.barriers ?? []).flatMap((b) => b.paths ?? []);

// undo: steps are those to undo, newest first; entries are the history's.
export function undo(folder, steps, entries, extra = {}) {
  const ids = steps.map((e) => e.step_id);
  const until = entries.indexOf(steps[steps.length - 1]);
  const barriers = [...new Set(entries.slice(0, until + 1).flatMap(affected))];
  return preview(folder, "undo", { count: steps.length, expect: ids, ...extra },
    { title: "Undo " + count(steps.length, "step"), heading: "Undo, newest first", verb: (r) => "Undo " + count(real(r.steps).length, "step") }, barriers);
}

export function redo(folder, steps) {
  return preview(folder, "redo", { count: steps.length, expect: steps.map((e) => e.step_id) },
    { title: "Redo " + count(steps.length, "step"), heading: "Do again", verb: (r) => "Redo " + count(r.steps.length, "step") }, []);
}

export function restore(folder, p, step) {
  return preview(folder, "restore", { path: p, step },
    { title: "Restore " + oneLine(p), heading: "The path is put back to before step " + step, verb: () => "Restore this path" }, []);
}

export function gc(folder) {
  return dialog("Housekeeping", (body, close) => {
    const say = h("div", { role: "status" });
    replace(body, h("p", null, "This drops steps beyond the limits, and compresses old ones. What is dropped cannot be undone any more."), say,
      h("div", { class: "actions" }, button("Cancel", () => close(null), { autofocus: true }), button("Run it", async (e) => {
        e.target.disabled = true;
        replace(say, h("p", { class: "dim" }, "Working…"));
        try {
          close(await post("folders/" + folder + "/gc", {}));
        } catch (err) {
          replace(say, problem(err));
          e.target.disabled = false;
        }
      }, { class: "primary" })));
  });
}

export function mark(folder) {
  return dialog("Mark this point", (body, close) => {
    const say = h("div", { role: "status" });
    const name = h("input", { id: "markname", required: true, maxlength: "64", autocomplete: "off", autofocus: true });
    const save = async (e) => {
      e.preventDefault();
      try {
        await post("folders/" + folder + "/mark", { name: name.value.trim() });
        close(name.value.trim());
      } catch (err) {
        replace(say, problem(err));
      }
    };
    replace(body, h("form", { onsubmit: save }, h("p", null, "A mark names the folder as it is now. You can go back to it with one click."),
      h("label", { for: "markname" }, "Name, without spaces"), name, say,
      h("div", { class: "actions" }, button("Cancel", () => close(null)), h("button", { class: "primary" }, "Mark"))));
  });
}


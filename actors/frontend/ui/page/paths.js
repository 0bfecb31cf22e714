// Paths of a step as a tree, of which only the rows in sight are in the document.
import { count, h, oneLine, pathText } from "./dom.js";
import { List } from "./list.js";

export const SIGNS = { created: "+", deleted: "\u2212", modified: "~", metadata: "m", replaced: "\u21c4", renamed: "\u2192" };
export const CLASSES = { created: "add", deleted: "del", modified: "mod", metadata: "meta", replaced: "mod", renamed: "mod" };

export const sign = (change) => h("span", { class: "sign " + (CLASSES[change] ?? ""), title: change }, SIGNS[change] ?? "?");

function node(name, parent) {
  return { name, parent, children: null, affected: null, add: 0, del: 0, mod: 0, open: false, path: parent?.path ? parent.path + "/" + name : name };
}

export class Paths {
  // open(affected) is called for a path that was chosen.
  constructor(open, label = "Changed paths") {
    this.clear();
    this.list = new List({
      label, role: "tree", class: "paths", height: 24, key: (n) => n.path,
      row: (n) => this.row(n), active: (n) => n.affected && open(n.affected),
      open: (n) => n.children && this.turn(n), press: (k, n, i) => this.press(k, n, i),
    });
    this.el = this.list.el;
  }

  clear() {
    this.root = node("", null);
    this.root.open = true;
    this.size = 0;
  }

  push(affected) {
    for (const a of affected) {
      let at = this.root;
      const up = [at];
      for (const part of a.path.split("/")) {
        at.children ??= new Map();
        let next = at.children.get(part);
        if (!next) at.children.set(part, (next = node(part, at)));
        up.push((at = next));
      }
      at.affected = a;
      const what = CLASSES[a.change] === "add" ? "add" : CLASSES[a.change] === "del" ? "del" : "mod";
      for (const n of up) n[what]++;
      this.size++;
    }
  }

  // spread opens directories as long as few rows come of it.
  spread(most = 200) {
    const queue = [this.root];
    let rows = 0;
    while (queue.length) {
      const n = queue.shift();
      if (!n.children || rows + n.children.size > most) continue;
      n.open = true;
      rows += n.children.size;
      queue.push(...n.children.values());
    }
    this.show();
  }

  show() {
    const rows = [];
    const walk = (n, depth) => {
      for (const c of n.children?.values() ?? []) {
        let at = c;
        let label = c.name;
        while (at.children?.size === 1 && !at.affected) { // a chain of directories in one row
          const only = at.children.values().next().value;
          label += "/" + only.name;
          at = only;
        }
        at.label = label;
        at.depth = depth;
        rows.push(at);
        if (at.open) walk(at, depth + 1);
      }
    };
    walk(this.root, 0);
    this.list.set(rows);
  }

  row(n) {
    const dir = n.children !== null;
    const e = h("div", { class: "path-row", "aria-level": n.depth + 1, title: oneLine(n.path), "aria-expanded": dir ? String(n.open) : undefined },
      h("span", { class: "twist", "aria-hidden": "true" }, dir ? (n.open ? "\u25be" : "\u25b8") : ""),
      n.affected ? sign(n.affected.change) : h("span", { class: "sign" }, ""),
      h("bdi", { class: "path" }, pathText(n.label) + (dir || n.affected?.type === "dir" ? "/" : "")),
      n.affected && n.affected.type !== "file" && n.affected.type !== "dir" && h("span", { class: "dim" }, n.affected.type),
      dir && h("span", { class: "sum", "aria-label": count(n.add + n.del + n.mod, "path") },
        n.add > 0 && h("span", { class: "add" }, "+" + n.add), n.del > 0 && h("span", { class: "del" }, "\u2212" + n.del), n.mod > 0 && h("span", { class: "mod" }, "~" + n.mod)));
    e.style.paddingLeft = 4 + n.depth * 14 + "px";
    return e;
  }

  turn(n, open = !n.open) {
    n.open = open;
    this.show();
  }

  press(key, n, i) {
    if (key === "ArrowRight" && n.children && !n.open) return this.turn(n, true), true;
    if (key === "ArrowRight" && n.open) return this.list.select(i + 1), true;
    if (key === "ArrowLeft" && n.children && n.open) return this.turn(n, false), true;
    if (key === "ArrowLeft") {
      let up = n.parent;
      while (up && !this.list.items.includes(up)) up = up.parent;
      if (up) this.list.select(this.list.items.indexOf(up));
      return true;
    }
    return false;
  }

  // first is the first path that is a file.
  first() {
    return this.list.items.find((n) => n.affected && n.affected.type === "file");
  }

  choose(n) {
    this.list.select(this.list.items.indexOf(n));
  }

  close() {
    this.list.close();
  }
}

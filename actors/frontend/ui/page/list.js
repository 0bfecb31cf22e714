// A list of which only the rows in sight are in the document: 100,000 rows stay
// usable. Keys: arrows, j and k, page up and down, home, end, enter.
import { h, reduced } from "./dom.js";

let lists = 0;

export class List {
  // options: label, role ("listbox" or "tree"), height (of a row in pixels, a number or
  // a function), row(item, index) -> element, key(item), active(item), open(item),
  // press(key, item) -> handled.
  constructor(options) {
    this.o = { role: "listbox", ...options };
    this.items = [];
    this.index = -1;
    this.rows = new Map();
    this.id = "list" + ++lists;
    this.space = h("div", { class: "space", role: "presentation" });
    this.el = h("div", { class: "list " + (options.class ?? ""), role: this.o.role, tabindex: "0", "aria-label": this.o.label }, this.space);
    this.el.addEventListener("scroll", () => this.draw(), { passive: true });
    this.el.addEventListener("keydown", (e) => this.key(e));
    this.el.addEventListener("click", (e) => this.click(e));
    this.el.addEventListener("focus", () => this.index < 0 && this.items.length && this.select(0, false));
    this.watch = new ResizeObserver(() => this.fresh());
    this.watch.observe(this.el);
  }

  get row() {
    return typeof this.o.height === "function" ? this.o.height() : this.o.height;
  }

  // set shows other items, and keeps what is selected by its key.
  set(items) {
    const kept = this.index >= 0 && this.items[this.index] ? this.o.key(this.items[this.index]) : null;
    this.items = items;
    this.index = kept === null ? -1 : items.findIndex((i) => this.o.key(i) === kept);
    this.fresh();
  }

  // fresh draws all rows anew.
  fresh() {
    for (const e of this.rows.values()) e.remove();
    this.rows.clear();
    this.space.style.height = this.items.length * this.row + "px";
    this.draw();
  }

  draw() {
    const row = this.row;
    const first = Math.max(0, Math.floor(this.el.scrollTop / row) - 6);
    const last = Math.min(this.items.length, Math.ceil((this.el.scrollTop + this.el.clientHeight) / row) + 6);
    for (const [i, e] of this.rows) {
      if (i < first || i >= last) {
        e.remove();
        this.rows.delete(i);
      }
    }
    for (let i = first; i < last; i++) {
      if (!this.rows.has(i)) this.make(i, row);
    }
    this.mark();
    this.o.drawn?.(first, last);
  }

  make(i, row) {
    const e = this.o.row(this.items[i], i);
    e.classList.add("row");
    e.id = this.id + "-" + i;
    e.dataset.index = i;
    if (this.o.role !== "table") {
      e.setAttribute("role", this.o.role === "tree" ? "treeitem" : "option");
      e.setAttribute("aria-setsize", this.items.length);
      e.setAttribute("aria-posinset", i + 1);
    }
    e.style.height = row + "px";
    e.style.transform = "translateY(" + i * row + "px)";
    this.rows.set(i, e);
    this.space.append(e);
  }

  mark() {
    for (const [i, e] of this.rows) e.setAttribute("aria-selected", i === this.index);
    if (this.rows.has(this.index)) this.el.setAttribute("aria-activedescendant", this.id + "-" + this.index);
    else this.el.removeAttribute("aria-activedescendant");
  }

  // select makes an item the active one, and brings it into sight.
  select(i, tell = true) {
    if (!this.items.length) return;
    this.index = Math.max(0, Math.min(this.items.length - 1, i));
    const top = this.index * this.row;
    const below = top + this.row - this.el.clientHeight;
    if (top < this.el.scrollTop) this.el.scrollTop = top;
    else if (below > this.el.scrollTop) this.el.scrollTop = below;
    this.draw();
    if (tell) this.o.active?.(this.items[this.index], this.index);
  }

  // reveal selects by key and scrolls it to the middle if it is out of sight.
  reveal(key) {
    const i = this.items.findIndex((x) => this.o.key(x) === key);
    if (i < 0) return false;
    const top = i * this.row;
    if (top < this.el.scrollTop || top + this.row > this.el.scrollTop + this.el.clientHeight) {
      this.el.scrollTo({ top: top - this.el.clientHeight / 2, behavior: reduced() ? "auto" : "smooth" });
    }
    this.index = i;
    this.draw();
    return true;
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const page = Math.max(1, Math.floor(this.el.clientHeight / this.row) - 1);
    const to = { ArrowDown: this.index + 1, j: this.index + 1, ArrowUp: this.index - 1, k: this.index - 1, PageDown: this.index + page, PageUp: this.index - page, Home: 0, End: this.items.length - 1 }[e.key];
    const item = this.items[this.index];
    if (to !== undefined) this.select(to);
    else if ((e.key === "Enter" || e.key === " ") && item) this.o.open?.(item, this.index);
    else if (!item || !this.o.press?.(e.key, item, this.index)) return;
    e.preventDefault();
    e.stopPropagation();
  }

  click(e) {
    const row = e.target.closest(".row");
    if (!row || !this.space.contains(row)) return;
    this.select(Number(row.dataset.index));
    this.o.open?.(this.items[this.index], this.index, true);
  }

  close() {
    this.watch.disconnect();
  }
}

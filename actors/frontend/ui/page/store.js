// What the log holds, as areas: each step as large as what it stores.
import { bytes, button, command, count, empty, facts, h, oneLine, path, problem, replace, s, table } from "./dom.js";
import { get, latest } from "./api.js";
import * as ask from "./dialogs.js";

const AREAS = 150; // the largest; the others are one area
const W = 960, H = 320;

// squarify lays values (largest first) out in a rectangle, near squares.
export function squarify(values, x, y, w, hgt) {
  const total = values.reduce((a, b) => a + b, 0);
  const areas = values.map((v) => (v / total) * w * hgt);
  const out = [];
  let i = 0;
  const worst = (row, side) => {
    const sum = row.reduce((a, b) => a + b, 0);
    return Math.max((side * side * row[0]) / (sum * sum), (sum * sum) / (side * side * row[row.length - 1]));
  };
  while (i < areas.length) {
    const side = Math.min(w, hgt);
    const row = [areas[i++]];
    while (i < areas.length && worst([...row, areas[i]], side) <= worst(row, side)) row.push(areas[i++]);
    const sum = row.reduce((a, b) => a + b, 0);
    const thick = side > 0 ? sum / side : 0;
    let at = 0;
    for (const a of row) {
      const len = thick > 0 ? a / thick : 0;
      out.push(w >= hgt ? { x, y: y + at, w: thick, h: len } : { x: x + at, y, w: len, h: thick });
      at += len;
    }
    if (w >= hgt) [x, w] = [x + thick, w - thick];
    else [y, hgt] = [y + thick, hgt - thick];
  }
  return out;
}

// LIMITS are the settings that bound a log, and what of it they bound.
const LIMITS = [["undo.max_bytes", "Stored", "total"], ["undo.max_steps", "Steps", "steps"], ["undo.max_step_bytes", "A step at most"], ["undo.max_age", "Steps are kept for"]];

const none = (v) => v === undefined || v === null || v <= 0 || v === "0s";

// meter shows how much of a limit is used.
function meter(name, used, most, text) {
  const part = Math.min(1, used / most);
  return h("div", { class: "limit" }, h("span", null, name, " ", h("b", null, text(used)), h("span", { class: "dim" }, " of " + text(most))),
    h("span", { class: "meter" + (part > 0.9 ? " full" : ""), role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": most, "aria-valuenow": Math.min(used, most), "aria-valuetext": text(used) + " of " + text(most) }, h("span", { style: { width: Math.max(part * 100, used > 0 ? 1 : 0) + "%" } })));
}

// limits shows those of the configuration. A session may have been started with others.
function limits(settings, held) {
  const value = (key) => settings.find((x) => x.key === key)?.value;
  return h("div", { class: "limits" }, LIMITS.map(([key, name, of]) => {
    const most = value(key);
    const text = /bytes$/.test(key) ? bytes : (v) => Number(v).toLocaleString("en");
    if (of) return none(most) ? h("div", { class: "limit" }, h("span", null, name, " ", h("b", null, text(held[of])), h("span", { class: "dim" }, " without a limit"))) : meter(name, held[of], most, text);
    return none(most) ? null : h("div", { class: "limit" }, h("span", null, name, " ", h("b", null, /bytes$/.test(key) ? bytes(most) : String(most))));
  }), h("a", { href: "#/config" }, "Change them"));
}

export class StoreView {
  constructor(app, params) {
    this.app = app;
    this.id = params.folder;
    this.body = h("div");
    const f = app.folder(this.id);
    document.title = "Store – sandbox";
    this.el = h("div", { class: "page" }, h("div", { class: "bar head" }, h("h1", null, "Store of ", h("bdi", { class: "path" }, oneLine(f?.label || f?.path || this.id))), h("span", { class: "grow" }), button("Housekeeping…", () => this.gc(), { id: "gc" })), this.body);
    this.load = latest(() => this.read());
    this.load();
  }

  async read() {
    try {
      const [r, settings] = await Promise.all([get("folders/" + this.id + "/store"), get("config", { folder: this.id }).catch(() => [])]);
      this.draw(r, settings);
    } catch (err) {
      replace(this.body, problem(err));
    }
  }

  draw(r, settings) {
    const steps = (r.steps ?? []).filter((x) => x.stored_bytes > 0).sort((a, b) => b.stored_bytes - a.stored_bytes);
    const rest = steps.slice(AREAS);
    const areas = steps.slice(0, AREAS);
    const others = rest.reduce((n, x) => n + x.stored_bytes, 0);
    const total = typeof r.total === "number" ? r.total : steps.reduce((n, x) => n + x.stored_bytes, 0);
    if (others) areas.push({ stored_bytes: others, command: count(rest.length, "smaller step") });
    areas.sort((a, b) => b.stored_bytes - a.stored_bytes);
    const link = (x) => "#/f/" + this.id + "/s/" + x.step_id;
    const log = r.limits ?? {};
    replace(this.body, limits(settings, { total, steps: (r.steps ?? []).length }), facts([["Not compressed", bytes(log.raw_bytes)], ["Can be done again", log.redoable], ["In", log.dir && path(log.dir)]]),
      areas.length ? this.picture(areas, link) : empty("The log stores nothing."),
      steps.length > 0 && table("Steps by size", ["Step", "Command", "Stored", "Form"], steps.slice(0, 200).map((x) => [h("a", { href: link(x) }, "#" + x.step_id), command(x.command || ""), bytes(x.stored_bytes), x.compressed ? "compressed" : ""])),
      steps.length > 200 && h("p", { class: "note" }, "The largest 200 are listed."));
  }

  picture(areas, link) {
    const boxes = squarify(areas.map((a) => a.stored_bytes), 0, 0, W, H);
    const svg = s("svg", { class: "treemap", viewBox: "0 0 " + W + " " + H, role: "img", "aria-label": "Stored bytes by step, as areas; the table below has the same", preserveAspectRatio: "none" });
    areas.forEach((a, i) => {
      const b = boxes[i];
      const text = (a.step_id ? "#" + a.step_id + " " : "") + oneLine(a.command || "");
      const kids = [s("title", null, text + ", " + bytes(a.stored_bytes)), s("rect", { x: b.x, y: b.y, width: Math.max(b.w - 1, 0.5), height: Math.max(b.h - 1, 0.5), class: "area " + (a.compressed ? "packed" : "raw") })];
      if (b.w > 60 && b.h > 16) {
        kids.push(s("text", { x: b.x + 5, y: b.y + 14 }, text.slice(0, Math.floor(b.w / 7.5))));
        if (b.h > 32) kids.push(s("text", { x: b.x + 5, y: b.y + 28, class: "small" }, bytes(a.stored_bytes)));
      }
      svg.append(a.step_id ? s("g", { class: "link", onclick: () => this.app.go(link(a)) }, kids) : s("g", null, kids));
    });
    return h("div", { class: "scroll map" }, svg, h("div", { class: "legend" }, h("span", { class: "key m-raw" }, "as it was"), h("span", { class: "key m-packed" }, "compressed")));
  }

  async gc() {
    const r = await ask.gc(this.id);
    if (!r) return;
    this.app.say("Housekeeping: " + count(r.evicted?.length ?? 0, "step") + " dropped, " + count(r.compressed?.length ?? 0, "step") + " compressed, " + bytes(r.bytes_before) + " → " + bytes(r.bytes_after));
    this.load();
  }

  event(e) {
    if ((e.what === "history" && e.folder === this.id) || e.what === "resume") this.load();
  }
}

// The history as a picture over time: each step a bar, as wide as it took and as high
// as it changed paths (both axes say so). Long pauses are shortened, and marked.
import { clock, count, duration, h, oneLine, replace } from "./dom.js";

const PAUSE = 20e3; // pauses above this are shortened
const FIRST = 250; // how many of the newest steps are shown at first
const KINDS = ["command", "api", "ambient", "barrier"];
export const NAMES = { command: "Command", api: "API write", ambient: "Ambient", barrier: "Barrier", undone: "Undone", service: "Service", mark: "Mark" };

const short = (gap) => (gap <= PAUSE ? Math.max(gap, 0) : PAUSE * (1 + Math.log2(gap / PAUSE) / 6));

export class Timeline {
  constructor(choose) {
    this.choose = choose;
    this.bars = [];
    this.marks = [];
    this.services = [];
    this.view = [0, 1];
    this.canvas = h("canvas", { class: "canvas", tabindex: "0", role: "img", "aria-label": "Timeline", "aria-describedby": "timelinehelp" });
    this.tip = h("div", { class: "tip", "aria-hidden": "true" });
    this.probe = h("span", { hidden: true });
    this.legend = h("div", { class: "legend" });
    const tool = (text, label, f) => h("button", { type: "button", class: "small", "aria-label": label, title: label, onclick: f }, text);
    this.el = h("section", { class: "timeline", "aria-label": "Timeline" },
      h("div", { class: "bar" }, this.legend, h("span", { class: "grow" }),
        tool("\u2212", "Zoom out", () => this.zoom(1.5)), tool("+", "Zoom in", () => this.zoom(1 / 1.5)), tool("All", "Show all of the timeline", () => this.all())),
      h("div", { class: "stage" }, this.canvas, this.tip, this.probe),
      h("p", { id: "timelinehelp", class: "hidden" }, "Plus and minus zoom, left and right move, 0 shows all. The list below has the same steps."));
    const on = (n, f, o) => this.canvas.addEventListener(n, f, o);
    on("wheel", (e) => this.wheel(e), { passive: false });
    on("keydown", (e) => this.key(e));
    on("pointerdown", (e) => this.down(e));
    on("pointermove", (e) => this.move(e));
    on("pointerup", (e) => this.up(e));
    on("pointerleave", () => (this.tip.className = "tip"));
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.canvas);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.recolour = () => { this.colours = null; this.draw(); };
    this.dark.addEventListener("change", this.recolour);
    document.addEventListener("themechange", this.recolour);
  }

  // set takes entries newest first. hits is a set of step ids that are found, or null.
  set(entries, undone, marks, hits, services = []) {
    const order = entries.concat(undone.map((e) => ({ ...e, undone: true }))).sort((a, b) => a.start - b.start || a.seq - b.seq);
    const bars = [];
    let x = 0, last = 0, most = 1;
    const seen = new Set();
    for (const e of order) {
      const gap = bars.length ? e.start - last : 0;
      x += bars.length ? Math.max(short(gap), 40) : 0;
      const took = Math.max(e.end - e.start, 0);
      const shown = e.type === "barrier" ? 0 : Math.max(short(took), 30);
      bars.push({ e, x, w: shown, pause: gap > PAUSE ? gap : 0 });
      x += shown;
      last = Math.max(last, e.end);
      most = Math.max(most, e.affected_count || 0);
      seen.add(e.undone ? "undone" : KINDS.includes(e.type) ? e.type : "command");
    }
    const whole = this.view[0] === 0 && this.view[1] === this.end;
    const following = this.view[1] === this.end;
    const old = this.end;
    Object.assign(this, { bars, marks, hits, services, most, end: Math.max(x, 1) });
    if (old === undefined || (old === 1 && bars.length)) this.view = [bars[bars.length - FIRST]?.x ?? 0, this.end];
    else if (whole) this.view = [0, this.end];
    else if (following) this.view = [Math.max(0, this.view[0] + this.end - old), this.end];
    if (marks.length) seen.add("mark");
    if (services.length) seen.add("service");
    replace(this.legend, [...KINDS, "service", "undone", "mark"].filter((k) => seen.has(k)).map((k) => h("span", { class: "key k-" + k }, NAMES[k])));
    this.canvas.setAttribute("aria-label", "Timeline of " + count(entries.length, "step") + (undone.length ? ", " + undone.length + " undone" : ""));
    this.draw();
  }

  select(id) {
    this.selected = id;
    const b = this.bars.find((c) => c.e.step_id === id && c.e.type !== "barrier");
    if (b && (b.x + b.w < this.view[0] || b.x > this.view[1])) {
      const half = (this.view[1] - this.view[0]) / 2;
      this.look(b.x - half, b.x + half);
    } else this.draw();
  }

  look(from, to) {
    const span = Math.min(this.end, Math.max(50, to - from));
    from = Math.max(0, Math.min(from, this.end - span));
    this.view = [from, from + span];
    this.draw();
  }

  all() {
    this.look(0, this.end);
  }

  zoom(f, at = 0.5) {
    const [a, b] = this.view;
    const p = a + (b - a) * at;
    this.look(p - (p - a) * f, p + (b - p) * f);
  }

  pan(part) {
    const [a, b] = this.view;
    this.look(a + (b - a) * part, b + (b - a) * part);
  }

  wheel(e) {
    e.preventDefault();
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey) this.pan((e.deltaX || e.deltaY) / 1000);
    else this.zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY / 400))), e.offsetX / this.canvas.clientWidth);
  }

  key(e) {
    const f = { "+": () => this.zoom(1 / 1.5), "=": () => this.zoom(1 / 1.5), "-": () => this.zoom(1.5), 0: () => this.all(), ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), Home: () => this.pan(-1e6), End: () => this.pan(1e6) }[e.key];
    if (!f || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    e.stopPropagation();
    f();
  }

  down(e) {
    this.drag = { x: e.clientX, view: [...this.view], moved: false };
    this.canvas.setPointerCapture(e.pointerId);
  }

  move(e) {
    if (this.drag) {
      const d = e.clientX - this.drag.x;
      if (Math.abs(d) > 3) this.drag.moved = true;
      if (this.drag.moved) {
        const [a, b] = this.drag.view;
        const by = (-d / this.canvas.clientWidth) * (b - a);
        this.look(a + by, b + by);
      }
      return;
    }
    this.show(e);
  }

  up(e) {
    const drag = this.drag;
    this.drag = null;
    if (!drag || drag.moved) return;
    const b = this.at(e.offsetX);
    if (b && b.e.type !== "barrier") this.choose(b.e);
  }

  // at finds the bar nearest to a pixel, within a few of them.
  at(px) {
    const scale = this.canvas.clientWidth / (this.view[1] - this.view[0]);
    let best = null, near = 6;
    for (const b of this.bars) {
      const l = (b.x - this.view[0]) * scale;
      const r = l + Math.max(b.w * scale, 2);
      const d = px < l ? l - px : px > r ? px - r : 0;
      if (d < near || (d === near && d === 0)) [best, near] = [b, d];
      if (l > px + 6) break;
    }
    return best;
  }

  // placeOf is where in the picture a time is.
  placeOf(t) {
    const { bars } = this;
    let at = null, next = null;
    for (const b of bars) {
      if (b.e.start > t) {
        next = b;
        break;
      }
      at = b;
    }
    if (!at) return 0;
    const { start, end } = at.e;
    if (t <= end && end > start) return at.x + (at.w * (t - start)) / (end - start);
    const from = at.x + at.w;
    return next && next.e.start > end ? from + ((next.x - from) * (t - end)) / (next.e.start - end) : from;
  }

  // spans are where services run, in pixels.
  spans() {
    const scale = this.canvas.clientWidth / (this.view[1] - this.view[0]);
    return this.services.map((s) => {
      const from = (this.placeOf(Date.parse(s.started_at)) - this.view[0]) * scale;
      const to = s.ended_at ? (this.placeOf(Date.parse(s.ended_at)) - this.view[0]) * scale : (this.end - this.view[0]) * scale;
      return { s, from, to: Math.max(to, from + 4) };
    });
  }

  tell(e, first, more) {
    replace(this.tip, h("div", { class: "cmd" }, first), h("div", { class: "dim" }, more));
    this.tip.className = "tip on";
    this.tip.style.left = Math.max(0, Math.min(e.offsetX, this.canvas.clientWidth - 280)) + "px";
  }

  show(e) {
    const served = e.offsetY < 14 && this.spans().find((x) => e.offsetX >= x.from - 3 && e.offsetX <= x.to + 3)?.s;
    if (served) return this.tell(e, oneLine("service " + served.name + ": " + served.command).slice(0, 200), [clock(served.started_at), served.state, served.ended_at ? duration(Date.parse(served.ended_at) - Date.parse(served.started_at)) : duration(Date.now() - Date.parse(served.started_at))].join(" · "));
    const b = this.at(e.offsetX);
    if (!b) {
      this.tip.className = "tip";
      return;
    }
    const x = b.e;
    this.tell(e, oneLine((x.step_id ? "#" + x.step_id + " " : "") + (x.command || NAMES[x.type] || x.type)).slice(0, 200),
      [clock(x.start), duration(x.end - x.start), count(x.affected_count || 0, "path"), x.undone && "undone", x.exit_code && "exit " + x.exit_code].filter(Boolean).join(" · "));
  }

  style(name) {
    this.colours ??= new Map();
    if (!this.colours.has(name)) {
      this.probe.style.color = "var(--" + name + ")"; // a colour that a canvas knows
      this.colours.set(name, getComputedStyle(this.probe).color);
    }
    return this.colours.get(name);
  }

  draw() {
    if (this.queued) return;
    this.queued = requestAnimationFrame(() => {
      this.queued = 0;
      this.paint();
    });
  }

  paint() {
    const { canvas } = this;
    const ratio = window.devicePixelRatio || 1;
    const [w, hgt] = [canvas.clientWidth, canvas.clientHeight];
    if (!w || !hgt) return;
    canvas.width = w * ratio;
    canvas.height = hgt * ratio;
    const c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    const base = hgt - 20;
    const scale = w / (this.view[1] - this.view[0]);
    c.fillStyle = this.style("line");
    c.fillRect(0, base, w, 1);
    this.groups(c, base, scale, w);
    const top = Math.log1p(this.most);
    for (const b of this.bars) {
      const x = (b.x - this.view[0]) * scale;
      const bw = Math.max(b.w * scale, 2);
      if (b.pause && x > -60 && x < w + 60) this.pause(c, b, x, base, scale);
      if (x + bw < 0) continue;
      if (x > w) break;
      this.bar(c, b, x, bw, base, top);
    }
    this.flags(c, scale, base, w);
    this.serve(c, w);
    this.axis(c, scale, hgt, w);
    performance.mark("timeline-painted");
  }

  bar(c, b, x, w, base, top) {
    const { e } = b;
    const dim = this.hits && !this.hits.has(e.step_id);
    c.globalAlpha = dim ? 0.18 : 1;
    if (e.type === "barrier") {
      c.strokeStyle = this.style("k-barrier");
      c.setLineDash([3, 3]);
      c.beginPath();
      c.moveTo(x, 8);
      c.lineTo(x, base);
      c.stroke();
      c.setLineDash([]);
    } else {
      const high = 4 + (base - 26) * (Math.log1p(e.affected_count || 0) / top);
      c.fillStyle = this.style(e.undone ? "k-undone" : "k-" + (KINDS.includes(e.type) ? e.type : "command"));
      c.fillRect(x, base - high, w > 5 ? w - 1 : w, high);
      if (e.exit_code && !e.undone) {
        c.fillStyle = this.style("bad");
        c.fillRect(x, base + 1, Math.max(w, 2), 3);
      }
      if (e.step_id === this.selected) {
        c.strokeStyle = this.style("accent");
        c.lineWidth = 2;
        c.strokeRect(x - 2, base - high - 2, w + 4, high + 4);
        c.lineWidth = 1;
      }
    }
    c.globalAlpha = 1;
  }

  pause(c, b, x, base, scale) {
    const mid = x - (short(b.pause) * scale) / 2;
    if (short(b.pause) * scale < 64) return;
    c.fillStyle = this.style("dim");
    c.font = "10px system-ui, sans-serif";
    c.textAlign = "center";
    c.fillText("⋯ " + duration(b.pause).split(" ").slice(0, 2).join(" "), mid, base - 4);
  }

  groups(c, base, scale, w) {
    const spans = new Map();
    for (const b of this.bars) {
      if (!b.e.group) continue;
      const g = spans.get(b.e.group) ?? [b.x, b.x];
      spans.set(b.e.group, [Math.min(g[0], b.x), Math.max(g[1], b.x + b.w)]);
    }
    c.fillStyle = this.style("group");
    for (const [a, z] of spans.values()) {
      const x = (a - this.view[0]) * scale;
      const r = (z - this.view[0]) * scale;
      if (r >= 0 && x <= w) c.fillRect(x - 2, 14, Math.max(r - x, 2) + 4, base - 14);
    }
  }

  flags(c, scale, base, w) {
    c.font = "11px system-ui, sans-serif";
    c.textAlign = "left";
    let free = -1;
    for (const m of [...this.marks].sort((a, b) => (a.seq ?? 0) - (b.seq ?? 0))) {
      const b = this.bars.findLast((o) => !o.e.undone && o.e.seq <= (m.seq ?? 0));
      const x = ((b ? b.x + b.w : 0) - this.view[0]) * scale + 1;
      if (x < 0 || x > w) continue;
      c.fillStyle = this.style("k-mark");
      c.fillRect(x, 2, 1.5, base - 2);
      if (x < free) continue;
      const text = oneLine(m.name).slice(0, 24);
      const wide = c.measureText(text).width;
      c.fillText(text, x + wide + 8 > w ? x - wide - 4 : x + 4, this.services.length ? 19 : 11); // below the lines of services
      free = x + wide + 12;
    }
  }

  // serve draws a line at the top for each time that a service ran.
  serve(c, w) {
    c.fillStyle = this.style("k-service");
    for (const { from, to, s } of this.spans()) {
      if (to < 0 || from > w) continue;
      c.fillRect(Math.max(from, 0), 2, Math.min(to, w) - Math.max(from, 0), s.ended_at ? 3 : 5);
    }
  }

  axis(c, scale, hgt, w) {
    c.fillStyle = this.style("dim");
    c.font = "10px system-ui, sans-serif";
    c.textAlign = "left";
    let free = 0;
    for (const b of this.bars) {
      const x = (b.x - this.view[0]) * scale;
      if (x < free) continue;
      if (x > w - 50) break;
      const text = clock(b.e.start);
      c.fillText(text, x, hgt - 5);
      free = x + c.measureText(text).width + 60;
    }
  }

  close() {
    this.watch.disconnect();
    cancelAnimationFrame(this.queued);
    this.dark.removeEventListener("change", this.recolour);
    document.removeEventListener("themechange", this.recolour);
  }
}

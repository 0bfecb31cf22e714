// What the commands of a step wrote: text with the colours that it asks for, and nothing else of what a
// terminal would do.
import { bytes, command, count, h } from "./dom.js";

// An escape sequence: one that begins with CSI, a string (OSC, DCS, PM, APC, SOS), or two characters.
const ESCAPE = /\u001b(?:\[([0-9:;<=>?]*)[ -/]*([@-~])|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|[ -/]*[0-~])/g;

const MOST = 5000; // coloured pieces of one command; what follows has no colours
const SHOWN = 50; // commands of one step

// nearest is the number of the terminal's 16 colours that is like red, green and blue from 0 to 255.
function nearest(r, g, b) {
  const top = Math.max(r, g, b);
  if (top - Math.min(r, g, b) < 32) return top < 64 ? 0 : top < 160 ? 8 : top < 224 ? 7 : 15;
  return (r > top / 2 ? 1 : 0) + (g > top / 2 ? 2 : 0) + (b > top / 2 ? 4 : 0) + (top > 200 ? 8 : 0);
}

function indexed(n) {
  if (n < 16) return n;
  if (n > 231) return nearest(8 + 10 * (n - 232), 8 + 10 * (n - 232), 8 + 10 * (n - 232));
  const level = (x) => (x ? 55 + 40 * x : 0);
  return nearest(level(Math.floor((n - 16) / 36)), level(Math.floor((n - 16) / 6) % 6), level((n - 16) % 6));
}

// paint changes how what follows looks: a sequence of SGR parameters.
function paint(look, parameters) {
  const p = parameters.split(/[;:]/).map((x) => Number(x) || 0);
  for (let i = 0; i < p.length; i++) {
    const n = p[i];
    if (n === 0) Object.keys(look).forEach((k) => delete look[k]);
    else if (n === 1) look.bold = true;
    else if (n === 2) look.faint = true;
    else if (n === 3) look.italic = true;
    else if (n === 4) look.underline = true;
    else if (n === 7) look.inverse = true;
    else if (n === 9) look.struck = true;
    else if (n === 22) delete look.bold, delete look.faint;
    else if (n === 23) delete look.italic;
    else if (n === 24) delete look.underline;
    else if (n === 27) delete look.inverse;
    else if (n === 29) delete look.struck;
    else if (n >= 30 && n <= 37) look.fg = n - 30;
    else if (n >= 90 && n <= 97) look.fg = n - 82;
    else if (n >= 40 && n <= 47) look.bg = n - 40;
    else if (n >= 100 && n <= 107) look.bg = n - 92;
    else if (n === 39) delete look.fg;
    else if (n === 49) delete look.bg;
    else if (n === 38 || n === 48) {
      const which = n === 38 ? "fg" : "bg";
      if (p[i + 1] === 5) {
        look[which] = indexed(Math.min(p[i + 2] ?? 0, 255));
        i += 2;
      } else if (p[i + 1] === 2) {
        look[which] = nearest(p[i + 2] ?? 0, p[i + 3] ?? 0, p[i + 4] ?? 0);
        i += 4;
      }
    }
  }
}

function classes(look) {
  return Object.entries(look).map(([k, v]) => (v === true ? "a-" + k : "a-" + k + v)).join(" ");
}

// terminal makes a command's output a list of [classes, text].
export function terminal(text) {
  const out = [];
  const look = {};
  let from = 0;
  const put = (t) => {
    t = t.replace(/\r\n?/g, "\n");
    if (!t) return;
    const cls = out.length < MOST ? classes(look) : "";
    const last = out[out.length - 1];
    if (last && (last[0] === cls || out.length >= MOST)) last[1] += t;
    else out.push([cls, t]);
  };
  for (const m of text.matchAll(ESCAPE)) {
    put(text.slice(from, m.index));
    from = m.index + m[0].length;
    if (m[2] === "m" && /^[0-9;:]*$/.test(m[1])) paint(look, m[1]);
  }
  put(text.slice(from));
  return out;
}

const written = (text) => terminal(text).map(([cls, t]) => (cls ? h("span", { class: cls }, t) : t));

// outputs shows what was kept of a step's commands.
export function outputs(list) {
  if (!list?.length) return null;
  return h("details", { class: "outputs", open: true }, h("summary", null, "Output"),
    list.slice(0, SHOWN).map((o) => h("div", null, list.length > 1 && h("div", { class: "dim" }, command(o.command)),
      o.head || o.tail
        ? h("pre", { class: "output", tabindex: "0", "aria-label": "Output of " + o.command.slice(0, 200) }, written(o.head),
          o.left_out > 0 && h("div", { class: "dim" }, "… " + bytes(o.left_out) + " left out …"), written(o.tail))
        : h("p", { class: "note" }, bytes(o.bytes) + " were written, and not kept"))),
    list.length > SHOWN && h("p", { class: "note" }, count(list.length - SHOWN, "command") + " more: sandbox show --output"));
}

// A unified diff of one file, as text, in a box of its own.
import { count, h, oneLine } from "./dom.js";

const MOST_LINES = 3000; // of one diff
const MOST_WIDTH = 1000; // characters of one line

// fileDiff shows a unified one, as text.
export function fileDiff(text, name) {
  const lines = text.replace(/\n$/, "").replace(/^(?:diff .*\n(?:(?!--- |@@|Binary).*\n)*)?--- .*\n\+\+\+ .*\n/, "").split("\n"); // the name stands above
  const kind = (l) => (l.startsWith("@@") ? "hunk" : l[0] === "+" ? "add" : l[0] === "-" ? "del" : "same");
  const short = (l) => (l.length > MOST_WIDTH ? l.slice(0, MOST_WIDTH) + "… " + count(l.length - MOST_WIDTH, "character") + " more" : l);
  return h("div", { class: "filediff", tabindex: "0", role: "region", "aria-label": "What would change in " + oneLine(name) },
    lines.slice(0, MOST_LINES).map((l) => h("div", { class: "line " + kind(l) }, h("code", null, oneLine(short(l))))),
    lines.length > MOST_LINES && h("p", { class: "note" }, count(lines.length - MOST_LINES, "line") + " more"));
}

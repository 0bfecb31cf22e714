// The agents of this machine, and what of this program is in their files. What would change
// is shown first, and then done just so.
import { button, command, empty, facts, h, oneLine, path, problem, replace } from "./dom.js";
import { enc, post } from "./api.js";
import { dialog } from "./dialogs.js";
import { fileDiff } from "./filediff.js";
import { Page } from "./tables.js";

const PARTS = { mcp: "MCP server", shell: "shell hook" };
const WILL = { none: ["stays as it is", ""], create: ["is made", "good"], modify: ["is changed", "held"], delete: ["is removed", "bad"] };

function fileChange(c) {
  const [will, cls] = WILL[c.change] ?? [c.change, ""];
  return h("section", { class: "filechange" }, h("h3", null, path(c.file), " ", h("span", { class: "tag " + cls }, will)),
    h("p", { class: "dim" }, (c.what ?? []).map(oneLine).join(", ")),
    c.diff && fileDiff(c.diff, c.file), c.cut && h("p", { class: "note" }, "The diff is longer; its rest is not shown."));
}

// change shows what would become of a client's files, and does it. It resolves with what was done.
function change(client, action, what) {
  const verb = action === "install" ? "Install" : "Remove";
  return dialog(verb + " the " + PARTS[what] + (action === "install" ? " in " : " from ") + oneLine(client.title), (body, close) => {
    let digest = null;
    const say = h("div", { role: "status" });
    const content = h("div", { class: "content" });
    const no = button("Cancel", () => close(null), { autofocus: true });
    const yes = button(verb, () => go(), { class: "primary", disabled: true });
    const again = button("Look again", () => look(), { hidden: true });
    replace(body, content, say, h("div", { class: "actions" }, no, again, yes));
    const send = (more) => post("clients/" + enc(client.name), { action, what, ...more });
    const refused = (err) => {
      yes.disabled = true;
      again.hidden = false;
      replace(say, err.code === "changed" ? h("p", { class: "warning" }, "A file was changed since this was shown, so nothing was done.") : problem(err));
    };
    const look = async () => {
      const held = document.activeElement === again;
      yes.disabled = true;
      again.hidden = true;
      if (held) no.focus();
      replace(say, h("p", { class: "dim" }, "Looking what would change…"));
      try {
        const { result } = await send({ dry_run: true });
        digest = result.digest;
        const some = result.changes.some((c) => c.change !== "none");
        replace(content, result.changes.map(fileChange));
        replace(say, h("p", { class: "dim" }, some ? "A file that is there already is kept as a copy beside it." : "There is nothing to do."));
        yes.disabled = !some;
      } catch (err) {
        refused(err);
      }
    };
    const go = async () => {
      yes.disabled = no.disabled = true;
      replace(say, h("p", { class: "dim" }, "Working…"));
      try {
        close(await send({ expect: digest }));
      } catch (err) {
        no.disabled = false;
        no.focus();
        refused(err);
      }
    };
    look();
  });
}

export class ClientsView extends Page {
  constructor(app) {
    super(app, "Clients", "clients");
    this.notes = h("div", { role: "status" });
    this.body.before(this.notes);
    this.load();
  }

  // read keeps the focus where it was.
  async read() {
    await super.read();
    if (this.held?.startsWith("client-") && !this.closed) document.getElementById(this.held)?.focus({ preventScroll: true });
    this.held = "";
  }

  draw(list) {
    this.held = document.activeElement?.id;
    if (!list.length) return empty("No agent is known.");
    const here = list.filter((c) => c.found);
    const away = list.filter((c) => !c.found);
    return [h("p", { class: "dim" }, "Agents that this program can serve: as an MCP server, whose tools they call, or by a hook, through which the commands of their own shell go. These are your files; for those of one project use ", h("code", null, "sandbox install --scope project"), "."),
      here.length > 0 ? h("div", { class: "cards" }, here.map((c) => this.card(c))) : empty("None of them was found on this machine."),
      away.length > 0 && [h("h2", null, "Not found on this machine"), h("div", { class: "cards" }, away.map((c) => this.card(c)))]];
  }

  card(c) {
    return h("article", { class: "card client" }, h("h2", null, oneLine(c.title)),
      facts([["Program", c.program && path(c.program)], ["Settings", c.folder && path(c.folder)]]),
      Object.keys(PARTS).map((what) => this.part(c, what, c[what] ?? {})));
  }

  part(c, what, p) {
    const action = p.installed ? "uninstall" : "install";
    const name = PARTS[what];
    return h("div", { class: "part" }, h("div", { class: "bar" }, h("h3", null, what === "mcp" ? "MCP server" : "Shell hook"), h("span", { class: "tag " + (p.installed ? "good" : "") }, p.installed ? "installed" : p.file ? "not installed" : "not possible"), h("span", { class: "grow" }),
      p.file && (c.found || p.installed) && button(p.installed ? "Remove…" : "Install…", () => this.ask(c, action, what), { class: "small", id: "client-" + c.name + "-" + what, "aria-label": (p.installed ? "Remove the " : "Install the ") + name + (p.installed ? " from " : " in ") + c.title })),
    p.file && h("p", { class: "dim" }, path(p.file)), p.why && h("p", { class: p.file ? "warning" : "dim" }, oneLine(p.why)));
  }

  async ask(c, action, what) {
    const done = await change(c, action, what);
    if (done) {
      this.app.say(oneLine(c.title) + ": " + PARTS[what] + (action === "install" ? " installed" : " removed"));
      replace(this.notes, done.note && h("p", { class: "note" }, command(done.note)));
    }
    await this.load();
    document.getElementById("client-" + c.name + "-" + what)?.focus({ preventScroll: true });
  }

  event(e) {
    if (e.what === "resume" || e.what === "clients") this.load();
  }
}

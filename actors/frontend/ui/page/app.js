// The frame around the pages: navigation, what is live, and what waits for a person.
import { button, count, empty, h, oneLine, problem, replace, visible } from "./dom.js";
import { get, latest, Live, login, onSignedOut, remember } from "./api.js";
import { FolderView } from "./folder.js";
import { FileView } from "./file.js";
import { OverviewView } from "./overview.js";
import { DecisionsView, question } from "./decisions.js";
import { ActorsView } from "./actors.js";
import { StoreView } from "./store.js";
import { ClientsView } from "./clients.js";
import { NetworkView } from "./network.js";
import { DoctorView } from "./tables.js";
import { ConfigView } from "./config.js";
import { MachineView } from "./machine.js";

const byId = (id) => document.getElementById(id);

const ROUTES = [
  [/^\/?$/, () => OverviewView, []],
  [/^\/f\/([^/]+)(?:\/s\/(\d+))?$/, () => FolderView, ["folder", "step"]],
  [/^\/f\/([^/]+)\/file$/, () => FileView, ["folder"]],
  [/^\/f\/([^/]+)\/store$/, () => StoreView, ["folder"]],
  [/^\/decisions$/, () => DecisionsView, []],
  [/^\/s\/([^/]+)\/tree$/, () => ActorsView, ["session"]],
  [/^\/s\/([^/]+)\/network$/, () => NetworkView, ["session"]],
  [/^\/machine$/, () => MachineView, []],
  [/^\/config$/, () => ConfigView, []],
  [/^\/clients$/, () => ClientsView, []],
  [/^\/doctor$/, () => DoctorView, []],
];

const THEMES = ["auto", "light", "dark"];

class App {
  constructor() {
    this.overview = { sessions: [], folders: [] };
    this.pending = [];
    this.view = null;
    this.told = new Set();
    this.refresh = latest(() => this.askOverview());
    this.decisions = latest(() => this.askDecisions());
    this.theme(localStorage.getItem("sandbox-theme") ?? "auto");
  }

  async start() {
    byId("theme").addEventListener("click", () => this.theme(THEMES[(THEMES.indexOf(this.themed) + 1) % THEMES.length]));
    byId("menu").addEventListener("click", () => this.menu());
    byId("notify").addEventListener("click", () => this.askToNotify());
    byId("skip").addEventListener("click", (e) => { e.preventDefault(); byId("main").focus(); });
    addEventListener("hashchange", () => this.moved());
    addEventListener("keydown", (e) => this.key(e));
    document.addEventListener("visibilitychange", () => !document.hidden && this.lost && this.live?.again());
    onSignedOut(() => this.signedOut());
    await this.enter();
  }

  async enter() {
    try {
      login();
      await this.refresh();
      remember();
    } catch (err) {
      if (err.status === 401) return this.signedOut();
      replace(byId("main"), problem(err), button("Try again", () => this.enter(), { class: "primary" }));
      return;
    }
    this.out = false;
    this.live?.close();
    this.lost = undefined;
    this.live = new Live((e) => this.event(e), (s, wait) => this.state(s, wait));
    this.route();
    this.decisions();
    this.notifyButton();
  }

  // moved follows the address. A new token in it signs in anew.
  moved() {
    if (location.hash.startsWith("#token=")) this.enter();
    else if (!this.out) this.route();
  }

  go(hash, instead = false) {
    if (location.hash === hash) return;
    if (instead) {
      history.replaceState(null, "", hash);
      this.route();
    } else location.hash = hash;
  }

  route() {
    const [path, query] = (location.hash.slice(1) || "/").split("?");
    for (const [re, view, names] of ROUTES) {
      const m = re.exec(path);
      if (!m) continue;
      const params = { query: new URLSearchParams(query ?? "") };
      names.forEach((n, i) => (params[n] = m[i + 1]));
      return this.show(view(), params, [view().name, params.folder, params.session, params.query.get("path") && view() === FileView ? params.query.get("path") : ""].join("|"));
    }
    this.show(null);
  }

  show(View, params, key) {
    this.menu(false);
    if (key && key === this.key_) {
      this.view.update?.(params);
    } else {
      this.view?.close?.();
      this.key_ = key;
      document.title = "sandbox";
      this.view = View ? new View(this, params) : { el: empty("There is no such page.") };
      replace(byId("main"), this.view.el);
      this.view.update?.(params);
      byId("main").scrollTop = 0;
      if (this.routed) byId("main").focus({ preventScroll: true });
      this.routed = true;
    }
    this.nav();
    this.titled();
  }

  async askOverview() {
    this.overview = await get("overview");
    this.nav();
  }

  folder(id) {
    return this.overview.folders.find((f) => f.id === id);
  }

  session(id) {
    return this.overview.sessions.find((s) => s.session === id);
  }

  nav() {
    const here = location.hash || "#/";
    const link = (href, text, extra, cls = "") => h("li", { class: cls }, h("a", { href, "aria-current": here === href ? "page" : undefined }, text, extra));
    const waits = this.pending.length;
    const folders = this.overview.folders.map((f) => {
      const base = "#/f/" + f.id;
      const inside = here.startsWith(base) || (f.session && here.startsWith("#/s/" + f.session + "/"));
      const dot = h("span", { class: "dot " + (f.session ? "on" : ""), title: f.session ? "a session runs" : "history only" });
      return [h("li", null, h("a", { href: base, title: f.path, "aria-current": inside && (here === base || here.startsWith(base + "/s/")) ? "page" : undefined }, dot, h("bdi", null, oneLine(f.label || f.path.slice(f.path.lastIndexOf("/") + 1) || f.path)))),
        inside && [link(base + "/store", "Store", null, "sub"), f.session && link("#/s/" + f.session + "/tree", "Actors", null, "sub"), f.session && link("#/s/" + f.session + "/network", "Network", null, "sub")]];
    });
    const nav = byId("nav");
    const focused = nav.contains(document.activeElement) && document.activeElement.getAttribute("href");
    replace(nav, h("ul", null, link("#/", "Overview"),
      link("#/decisions", "Decisions", waits > 0 && h("span", { class: "badge", "aria-label": count(waits, "question") + " waiting" }, waits))),
    h("h2", null, "Folders"), h("ul", null, folders, !folders.length && h("li", { class: "dim" }, "none yet")),
    h("h2", null, "This machine"), h("ul", null, link("#/machine", "Machine"), link("#/config", "Configuration"), link("#/clients", "Clients"), link("#/doctor", "Doctor")));
    if (focused) [...nav.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused)?.focus({ preventScroll: true });
  }

  titled() {
    const base = document.title.replace(/^\(\d+\) /, "");
    document.title = (this.pending.length ? "(" + this.pending.length + ") " : "") + base;
  }

  async event(e) {
    try {
      if (e.what === "sessions" || e.what === "status") {
        await this.refresh();
        if (e.what === "sessions") this.decisions();
      } else if (e.what === "decisions") this.decisions();
    } catch (err) {
      console.error(err);
    }
    this.view?.event?.(e);
  }

  // state says whether events come.
  async state(s, wait) {
    const el = byId("state");
    const banner = byId("banner");
    if (s === "live") {
      const was = this.lost !== false; // also at first: what happened between the first questions and now was not heard
      this.lost = false;
      replace(el, h("span", { class: "dot on", "aria-hidden": "true" }), " live");
      banner.hidden = true;
      clearTimeout(this.late);
      if (was) await this.event({ what: "sessions" });
      if (was) this.view?.event?.({ what: "resume" });
      if (was) this.decisions();
      return;
    }
    this.lost = true;
    replace(el, h("span", { class: "dot off", "aria-hidden": "true" }), " not connected");
    clearTimeout(this.late);
    this.late = setTimeout(() => {
      if (!this.lost || this.out) return;
      banner.hidden = false;
      replace(banner, h("span", null, "The connection to sandbox ui is lost: what you see may be old. Is it still running? This page tries again" + (wait >= 2000 ? " every few seconds." : ".")), " ", button("Try now", () => this.live.again(), { class: "small" }));
    }, 700);
  }

  signedOut() {
    if (this.out) return;
    this.out = true;
    this.live?.close();
    this.view?.close?.();
    this.view = this.key_ = null;
    byId("banner").hidden = true;
    replace(byId("state"), "");
    replace(byId("main"), h("section", { class: "card signin" }, h("h1", null, "This page is not signed in"),
      h("p", null, "Its key has ended, or the address was opened without it. Run ", h("code", null, "sandbox ui"), " again and open the address that it prints."),
      button("Try again", () => location.reload())));
  }

  // decisions fetches what waits, and tells of what is new.
  async askDecisions() {
    let r;
    try {
      r = await get("decisions");
    } catch (err) {
      this.view?.decided?.(null, err);
      return;
    }
    this.pending = r.pending ?? [];
    const news = this.pending.filter((p) => !this.told.has(p.session + p.safeguard_id));
    this.told = new Set(this.pending.map((p) => p.session + p.safeguard_id));
    this.nav();
    this.titled();
    this.view?.decided?.(r);
    if (news.length) replace(byId("urgent"), news.length === 1 ? "A decision is needed: " + question(news[0]) : count(news.length, "decision") + " are needed");
    if (!this.pending.length) replace(byId("urgent"), "");
    this.notify(news);
  }

  notify(news) {
    if (!document.hidden || !("Notification" in window) || Notification.permission !== "granted") return;
    for (const p of news.slice(0, 3)) {
      const n = new Notification("sandbox: a decision is needed", { body: visible(question(p)).slice(0, 300), tag: p.session + "/" + p.safeguard_id, icon: "icon.svg" });
      n.onclick = () => {
        window.focus();
        this.go("#/decisions");
        n.close();
      };
    }
  }

  notifyButton() {
    byId("notify").hidden = !("Notification" in window) || Notification.permission !== "default";
  }

  async askToNotify() {
    const answer = await Notification.requestPermission();
    this.notifyButton();
    this.say(answer === "granted" ? "This browser tells you when a decision is needed while the page is in the background." : "The browser does not allow notifications from this page.");
  }

  // say tells what has happened, for eyes and for screen readers.
  say(text) {
    const el = byId("said");
    replace(el, text);
    el.classList.add("on");
    clearTimeout(this.quiet);
    this.quiet = setTimeout(() => el.classList.remove("on"), 6000);
  }

  theme(t) {
    this.themed = THEMES.includes(t) ? t : "auto";
    if (this.themed === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.themed;
    localStorage.setItem("sandbox-theme", this.themed);
    replace(byId("theme"), "Theme: " + this.themed);
    byId("theme").setAttribute("aria-label", "Theme: " + this.themed);
    document.dispatchEvent(new Event("themechange"));
  }

  menu(open = !document.body.classList.contains("menu")) {
    document.body.classList.toggle("menu", open);
    byId("menu").setAttribute("aria-expanded", open);
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
    if (e.target.closest("input, textarea, select, dialog")) {
      if (e.key === "Escape" && e.target.matches("input[type=search]")) byId("main").focus();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    if (this.view?.key?.(e.key)) e.preventDefault();
  }
}

new App().start();

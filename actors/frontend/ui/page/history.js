// The history of one folder as the page keeps it: newest first, loaded page by page.
import { get } from "./api.js";

const PAGE = 1000;
const MOST = 100_000; // steps that the page keeps

// slim drops what only a step's own panel needs.
function slim(e) {
  e.start = Date.parse(e.started_at);
  e.end = Date.parse(e.ended_at) || e.start;
  delete e.argv;
  return e;
}

export class History {
  constructor(folder, changed) {
    this.folder = folder;
    this.changed = changed;
    this.entries = [];
    this.marks = [];
    this.undone = [];
    this.services = [];
    this.open = null;
    this.total = 0;
    this.error = null;
    this.running = null;
  }

  page(before, limit) {
    return get("folders/" + this.folder + "/history", { before, limit }, this.abort?.signal);
  }

  take(r) {
    this.marks = r.marks ?? [];
    this.undone = (r.undone ?? []).map(slim).sort((a, b) => b.seq - a.seq);
    this.services = r.services ?? this.services;
    this.open = r.open ?? null;
    this.total = r.total ?? 0;
    this.error = null;
  }

  // load fetches all of it. What is there first is shown first.
  load() {
    this.loading = this.all();
    return this.loading;
  }

  async all() {
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    try {
      let r = await this.page(undefined, PAGE);
      this.take(r);
      let all = (r.entries ?? []).map(slim);
      this.entries = all;
      this.changed("first");
      while (r.more && all.length < MOST && !abort.signal.aborted) {
        r = await this.page(all[all.length - 1].seq, PAGE);
        if (!r.entries?.length) break;
        all = this.entries = all.concat(r.entries.map(slim));
      }
      if (abort.signal.aborted) return;
      this.changed("all");
    } catch (err) {
      if (err.name === "AbortError") return;
      this.error = err;
      this.changed("error");
    } finally {
      if (this.abort === abort) this.abort = null;
    }
  }

  // refresh fetches what is new; several at once become one.
  async refresh() {
    if (this.running) {
      this.again = true;
      return this.running;
    }
    this.running = this.newest();
    await this.running;
    this.running = null;
    if (this.again) {
      this.again = false;
      return this.refresh();
    }
  }

  async newest() {
    if (this.error) return this.load();
    if (this.abort) await this.loading; // what is new meanwhile does not begin it again
    try {
      const r = await this.page(undefined, 100);
      const fresh = (r.entries ?? []).map(slim);
      const last = fresh[fresh.length - 1];
      const kept = last ? this.entries.filter((e) => e.seq < last.seq) : [];
      const joined = !r.more || (this.entries.length > 0 && last.seq <= this.entries[0].seq);
      this.take(r);
      if (!joined) return this.load(); // more is new than was asked for
      this.entries = fresh.concat(r.more ? kept : []);
      this.changed("new");
    } catch (err) {
      this.error = err;
      this.changed("error");
    }
  }

  // steps are the entries that are steps, newest first: barriers are none.
  get steps() {
    return this.entries.filter((e) => e.type !== "barrier");
  }

  // upTo lists the steps from the newest to this one.
  upTo(id) {
    const steps = this.steps;
    const i = steps.findIndex((e) => e.step_id === id);
    return i < 0 ? [] : steps.slice(0, i + 1);
  }

  find(id) {
    return this.entries.find((e) => e.step_id === id && e.type !== "barrier") ?? this.undone.find((e) => e.step_id === id);
  }

  async search(q, signal) {
    const r = await get("folders/" + this.folder + "/history", { q, limit: PAGE }, signal);
    return { entries: (r.entries ?? []).map(slim), more: r.more };
  }

  close() {
    this.abort?.abort();
  }
}

// Talks to the server: requests, the token, and the stream of events.

export class ApiError extends Error {
  constructor(status, e) {
    super(e?.message || "the server answered " + status);
    this.status = status;
    this.code = e?.code ?? "";
    this.hint = e?.hint ?? "";
    this.body = e ?? {};
  }
}

export const enc = encodeURIComponent;

let signedOut = () => {};
export function onSignedOut(f) {
  signedOut = f;
}

// The token that each request shows is kept where all tabs of this address find it, and no page of another port: a cookie would be sent to each of them.
const TOKEN = "sandbox-token";
let given = null; // in this tab's address
const token = () => given ?? localStorage.getItem(TOKEN) ?? "";

async function failure(r) {
  let body = null;
  try {
    body = await r.json();
  } catch {
    // not JSON: the status says enough
  }
  if (r.status === 401) signedOut();
  return new ApiError(r.status, body?.error);
}

async function send(url, options) {
  let r;
  try {
    r = await fetch(url, { credentials: "omit", cache: "no-store", redirect: "error", ...options, headers: { ...options.headers, Authorization: "Bearer " + token() } });
  } catch (err) {
    if (err.name === "AbortError") throw err;
    throw new ApiError(0, { code: "unreachable", message: "sandbox ui does not answer", hint: "Is it still running? Start it again with: sandbox ui" });
  }
  if (!r.ok) throw await failure(r);
  return r;
}

function query(params) {
  const p = Object.entries(params ?? {}).filter(([, v]) => v !== undefined && v !== null && v !== "");
  return p.length ? "?" + p.map(([k, v]) => k + "=" + enc(v)).join("&") : "";
}

export async function get(path, params, signal) {
  return (await send("/api/" + path + query(params), { signal })).json();
}

const CUT = 2 << 20; // the most that the server sends unless all is asked for

// stream calls line for each line of a text, as it comes. It returns whether the
// server has cut it, or stop ended it.
export async function stream(path, params, line, signal) {
  const r = await send("/api/" + path + query(params), { signal });
  const reader = r.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.byteLength;
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop();
    for (const l of lines) {
      if (line(l) === false) {
        await reader.cancel();
        return true;
      }
    }
  }
  if (rest) line(rest);
  return r.headers.get("X-Sandbox-Cut") === "1" || size === CUT; // pages cannot read trailers
}

export async function post(path, body) {
  const r = await send("/api/" + path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Sandbox-UI": "1" },
    body: JSON.stringify(body ?? {}),
  });
  return r.status === 204 ? null : r.json();
}

// latest makes a function that asks for something run once at a time: who calls it meanwhile has it asked once more, and
// waits for that. So an answer is never overtaken by an older one.
export function latest(f) {
  let running = null;
  let again = null;
  const run = async () => {
    try {
      return await f();
    } finally {
      running = null;
    }
  };
  return () => {
    if (!running) return (running = run());
    again ??= running.then(() => {}, () => {}).then(() => {
      again = null;
      return (running = run());
    });
    return again;
  };
}

// login takes the token out of the address and of the history.
export function login() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname + "#/");
  given = token;
}

// remember keeps a token that the server has taken, for other tabs.
export function remember() {
  if (given) localStorage.setItem(TOKEN, given);
}

// picture is the address of a picture within the page. Who shows it gives it up.
export async function picture(path, params, signal) {
  return URL.createObjectURL(await (await send("/api/" + path + query(params), { signal })).blob());
}

// Live is the stream of events: state is "live" or "lost".
export class Live {
  constructor(changed, state) {
    this.changed = changed;
    this.state = state;
    this.tries = 0;
    this.open();
  }

  // open hears events until the server or close ends that.
  async open() {
    const abort = (this.abort = new AbortController());
    let event = "";
    try {
      await stream("events", {}, (line) => {
        if (line.startsWith("event: ")) event = line.slice(7);
        else if (line.startsWith("data: ")) this.heard(event, line.slice(6));
      }, abort.signal);
    } catch (err) {
      if (err.status === 401) return;
    }
    if (abort.signal.aborted) return;
    this.tries++;
    const wait = Math.min(10e3, 250 * 2 ** Math.min(this.tries, 6));
    this.state("lost", wait);
    this.timer = setTimeout(() => this.again(), wait);
  }

  heard(event, data) {
    if (event === "hello") {
      this.tries = 0;
      this.state("live");
    } else if (event === "changed") {
      try {
        this.changed(JSON.parse(data));
      } catch (err) {
        console.error("an event that cannot be read", err);
      }
    }
  }

  // again asks first, so that a lost sign-in is seen.
  async again() {
    clearTimeout(this.timer);
    const before = this.abort;
    try {
      await get("overview");
    } catch (err) {
      if (err.status === 401) return;
    }
    if (this.abort === before && !before.signal.aborted) this.open();
  }

  close() {
    clearTimeout(this.timer);
    this.abort.abort();
  }
}

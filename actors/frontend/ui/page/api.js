// Talks to the server: requests, the login, and the stream of events.

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
    r = await fetch(url, { credentials: "same-origin", cache: "no-store", redirect: "error", ...options });
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

// login exchanges the token in the address for a cookie, and takes it out of the
// address and of the history.
export async function login() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return false;
  history.replaceState(null, "", location.pathname + "#/");
  await post("login", { token });
  return true;
}

// Live is the stream of events: state is "live" or "lost".
export class Live {
  constructor(changed, state) {
    this.changed = changed;
    this.state = state;
    this.tries = 0;
    this.open();
  }

  open() {
    this.source = new EventSource("/api/events");
    this.source.addEventListener("hello", () => {
      this.tries = 0;
      this.state("live");
    });
    this.source.addEventListener("changed", (e) => {
      try {
        this.changed(JSON.parse(e.data));
      } catch (err) {
        console.error("an event that cannot be read", err);
      }
    });
    this.source.addEventListener("error", () => {
      this.source.close();
      this.tries++;
      const wait = Math.min(10e3, 250 * 2 ** Math.min(this.tries, 6));
      this.state("lost", wait);
      this.timer = setTimeout(() => this.again(), wait);
    });
  }

  // again asks first, so that a lost sign-in is seen.
  async again() {
    clearTimeout(this.timer);
    try {
      await get("overview");
    } catch (err) {
      if (err.status === 401) return;
    }
    this.open();
  }

  close() {
    clearTimeout(this.timer);
    this.source.close();
  }
}

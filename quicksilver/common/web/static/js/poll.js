// Polling of JSON. A page that is hidden or paused asks for nothing; an unchanged answer costs a 304.
const listeners = new Set();
const polls = new Set();
let paused = new URLSearchParams(location.search).get("live") === "off";
let changedAt = null;

export const isPaused = () => paused;
/** `call` gets {failing, age} whenever the state of polling changes. */
export const onChange = (call) => { listeners.add(call); };

function publish() {
  // For tests and for scripts of admins: whether each poll has had its first answer.
  document.body.dataset.polled = [...polls].every((one) => one.answered) ? "yes" : "no";
  const failing = [...polls].map((one) => one.failing).find(Boolean) ?? "";
  const age = changedAt === null ? "" : paused ? "paused" : "live";
  for (const call of listeners) call({ failing, age });
}

export function setPaused(value) {
  paused = value;
  publish();
  if (!paused) for (const one of polls) one.soon();
}

class Poll {
  constructor(url, seconds, handle) {
    Object.assign(this, { url, seconds, handle, etag: null, failing: "", failures: 0, timer: null, busy: false, closed: false });
    polls.add(this);
    document.body.dataset.polled = "no";
    this.run();
  }

  async run() {
    if (this.busy || this.closed) return;
    this.busy = true;
    try {
      await this.ask();
      this.failing = "";
      this.failures = 0;
    } catch (error) {
      this.failures += 1;
      this.failing = `No answer from ${this.url}: ${error.message}. Trying again.`;
    }
    this.busy = false;
    this.answered = true;
    publish();
    clearTimeout(this.timer);
    if (!this.closed) this.timer = setTimeout(() => this.tick(), 1000 * this.seconds * Math.min(8, 2 ** this.failures));
  }

  async ask() {
    const url = typeof this.url === "function" ? this.url() : this.url;
    const headers = this.etag && this.asked === url ? { "If-None-Match": this.etag } : {};
    const response = await fetch(url, { headers, cache: "no-store" });
    if (response.status === 304) { changedAt = Date.now(); return; }
    if (response.status === 401) { location.reload(); return; }
    if (!response.ok) {
      let message = `status ${response.status}`;
      try { message = (await response.json()).error.message; } catch { /* no envelope */ }
      throw new Error(message);
    }
    const content = await response.json();
    this.asked = url;
    this.etag = response.headers.get("ETag");
    changedAt = Date.now();
    this.handle(content);
  }

  tick() {
    if (paused || document.hidden) return;
    this.run();
  }

  /** Asks now, as after an action or when the address changed. */
  soon() {
    clearTimeout(this.timer);
    this.run();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    polls.delete(this);
  }
}

/** Calls `handle(json)` now and whenever the answer has changed. url: a text, or a function that returns one. */
export const poll = (url, seconds, handle) => new Poll(url, seconds, handle);

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !paused) for (const one of polls) one.soon();
});

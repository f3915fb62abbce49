// The stream of one worker: requests, commits in batches, pings; after a break it reconnects and sends again what was
// not answered. Every request recognises its own result at the server, so sending twice is safe.

import { DatabaseTime, steady } from './database_time.js';
import { Problem, Refused } from './errors.js';
import { MAX_SEND, connect } from './wire.js';

const FRAME_BYTES = 3 * 1024 * 1024;
/** What a field takes beside its content, or a number with its name. */
const ROW_BYTES = 12;
const UNANSWERED_BYTES = 16 * 1024 * 1024;
const DEFAULT_COMMITS = 1000;
const PING_MS = 10_000;
const SILENCE_MS = 25_000;
const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 5_000;
/** How often an outage is logged while its reason does not change. */
const REMIND_MS = 30_000;

/**
 * @typedef {object} Hooks
 * @property {(news: any) => void} onNews
 * @property {(lost: string[]) => void} onReconnect
 * @property {() => void} onLeaseLost
 * @property {(error: Error) => void} onFailed
 * @property {() => Record<string, number>} held
 * @property {(event: string, fields?: object) => void} log
 */

export class Connection {
  /** How many commits may be unanswered. */
  #maxCommits = DEFAULT_COMMITS;
  #address;
  #access;
  /** @type {Hooks} */
  #hooks;
  #hello;
  #stream = null;
  #client = null;
  #isReady = false;
  #isClosed = false;
  #tries = 0;
  /** The last failure that was logged. */
  #logged = { reason: '', at: 0 };
  #timer = null;
  #nextId = 2;
  #nextNo = 1;
  /** Requests without an answer, in the order in which they were made. */
  #requests = new Map();
  /** Commits that are not sent, and those without an answer; both in the order of their numbers. */
  #queue = [];
  #sent = new Map();
  #sentBytes = 0;
  #isFlushing = false;
  #heardAt = 0;
  /** When the Hello of this stream was sent, by the steady clock. */
  #helloAt = 0;
  #time = new DatabaseTime();
  #joined;

  constructor(address, access, hello, hooks) {
    this.#address = address;
    this.#access = access;
    this.#hello = hello;
    this.#hooks = hooks;
  }

  /** Connect and join; this settles once the server has answered for the first time. */
  open() {
    return new Promise((resolve, reject) => {
      this.#joined = { resolve, reject };
      this.#connect();
    });
  }

  /** The database's time in microseconds, or a little less. */
  now() {
    return this.#time.now();
  }

  /** The database's time, or a little more. */
  latest() {
    return this.#time.latest();
  }

  /** Send a request until it is answered. A claim is sent once: a lost answer is found by an audit. */
  request(kind, body) {
    return new Promise((resolve, reject) => {
      const request = { id: this.#nextId++, kind, body, resolve, reject, parts: [], sentAt: 0 };
      const size = sizeOf(body);
      if (size > MAX_SEND) {
        reject(tooLarge(`the request '${kind}'`, size));
        return;
      }
      if (kind === 'claim' && !this.#isReady) {
        reject(new Disconnected());
        return;
      }
      this.#requests.set(request.id, request);
      if (this.#isReady) this.#send(request);
    });
  }

  /** Write a commit, in one frame with others; return its outcome: `{fate, at}`. */
  commit(commit) {
    return new Promise((resolve, reject) => {
      const entry = { commit: { ...commit, no: this.#nextNo++ }, size: sizeOf(commit), resolve, reject, frame: 0, sentAt: 0 };
      if (entry.size > MAX_SEND) {
        resolve({ fate: 'failed', at: 0, problem: tooLarge('a commit', entry.size) }); // no stream could carry it
        return;
      }
      this.#queue.push(entry);
      this.#flushSoon();
    });
  }

  /** Send no more, and end the stream. */
  close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#stream?.end();
    this.#client?.close();
    const gone = new Disconnected();
    for (const each of [...this.#requests.values(), ...this.#sent.values(), ...this.#queue]) each.reject(gone);
    this.#requests.clear();
    this.#sent.clear();
    this.#queue = [];
  }

  // --- the stream ---------------------------------------------------------------------------------

  #connect() {
    if (this.#isClosed) return;
    let client;
    let stream;
    try {
      const connection = connect(this.#address, this.#access, this.#tries);
      client = connection.client;
      stream = client.Work(connection.metadata);
    } catch (error) {
      if (this.#joined !== undefined) this.#fail(error);
      else this.#tryAgain(error); // a file with certificates is being replaced
      return;
    }
    this.#client = client;
    this.#stream = stream;
    this.#heardAt = performance.now();
    this.#helloAt = steady();
    stream.on('data', (response) => this.#stream === stream && this.#onResponse(response));
    stream.on('error', (error) => this.#onBroken(stream, error));
    stream.on('end', () => this.#onBroken(stream, new Error('the server ended the stream')));
    const isReconnect = this.#joined === undefined;
    const hello = isReconnect ? { ...this.#hello, is_reconnect: true, held: this.#hooks.held() } : this.#hello;
    stream.write({ id: 1, hello });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ping(), PING_MS);
  }

  #ping() {
    if (performance.now() - this.#heardAt >= SILENCE_MS) {
      this.#onBroken(this.#stream, new Error('the server has been silent for 25 s'));
      return;
    }
    if (this.#isReady) this.#stream.write({ id: 0, ping: {} });
    this.#timer = setTimeout(() => this.#ping(), PING_MS / 2);
  }

  #onBroken(stream, error) {
    if (stream === null || this.#stream !== stream || this.#isClosed) return;
    this.#stream = null;
    this.#isReady = false;
    stream.cancel();
    this.#client.close();
    if (isFinal(error)) {
      this.#fail(new Refused(`the server refused this worker: ${reasonOf(error)}`));
      return;
    }
    // What was sent and not answered is sent again on the next stream, before anything newer.
    this.#queue.unshift(...this.#sent.values());
    this.#sent.clear();
    this.#sentBytes = 0;
    for (const request of [...this.#requests.values()]) {
      request.parts = [];
      if (request.kind === 'claim') {
        this.#requests.delete(request.id);
        request.reject(new Disconnected());
      }
    }
    this.#tryAgain(error);
  }

  #tryAgain(error) {
    this.#logOutage(reasonOf(error));
    this.#tries += 1;
    const backoff = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (this.#tries - 1)) * (1 + Math.random() / 2);
    const delay = Math.max(backoff, error.retryAfterMs ?? 0);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#connect(), delay);
  }

  #logOutage(reason) {
    const now = performance.now();
    if (this.#tries > 0 && reason === this.#logged.reason && now - this.#logged.at < REMIND_MS) return;
    this.#logged = { reason, at: now };
    const server = this.#address.addresses[this.#tries % this.#address.addresses.length];
    this.#hooks.log('worker.disconnected', { server, error: reason, tries: this.#tries + 1 });
  }

  #fail(error) {
    if (this.#joined !== undefined) this.#joined.reject(error);
    else this.#hooks.onFailed(error);
    this.close();
  }

  #send(request) {
    request.sentAt = steady();
    this.#stream.write({ id: request.id, [request.kind]: request.body });
  }

  // --- responses ----------------------------------------------------------------------------------

  #onResponse(response) {
    this.#heardAt = performance.now();
    const kind = response.response;
    const body = response[kind];
    this.#learnTime(response, body);
    if (response.id === 1) this.#onHello(kind, body);
    else if (kind === 'news') this.#hooks.onNews(body);
    else if (kind === 'commits') this.#onOutcomes(body, response.at);
    else if (kind === 'goodbye') this.#onGoodbye(body);
    else this.#onAnswer(response, kind, body);
  }

  /** Learn the database's time from a response to something that was sent on this stream. */
  #learnTime({ id, at, response: kind }, body) {
    if (!(at > 0)) return;
    const first = kind === 'commits' ? [...body.done, ...body.others.map(({ no }) => no)].find((no) => this.#sent.has(no)) : undefined;
    const asked = id === 1 ? this.#helloAt : (this.#sent.get(first) ?? this.#requests.get(id))?.sentAt;
    if (asked) this.#time.learn(at, asked);
  }

  #onGoodbye(goodbye) {
    this.#onBroken(this.#stream, new Error(`the server ended the stream: ${goodbye.why}`));
  }

  #onHello(kind, body) {
    if (kind === 'problem') {
      const problem = new Problem(body);
      if (problem.code === 'lease_lost') this.#hooks.onLeaseLost();
      else if (problem.isRetryable) this.#onBroken(this.#stream, problem);
      else this.#fail(new Refused(`the server refused this worker: ${reasonOf(problem)}`));
      return;
    }
    this.#tries = 0;
    this.#isReady = true;
    this.#maxCommits = body.max_commits || DEFAULT_COMMITS;
    for (const request of this.#requests.values()) this.#send(request);
    if (this.#joined !== undefined) {
      this.#joined.resolve(body);
      this.#joined = undefined;
    } else {
      this.#hooks.log('worker.reconnected', { server: body.server });
      const lost = new Set(body.lost);
      this.#queue = this.#queue.filter((entry) => {
        if (lost.has(entry.commit.run)) entry.resolve({ fate: 'lost', at: 0 });
        return !lost.has(entry.commit.run);
      });
      this.#hooks.onReconnect(body.lost);
    }
    this.#flushSoon();
  }

  #onAnswer(response, kind, body) {
    const request = this.#requests.get(response.id);
    if (request === undefined) {
      if (kind === 'problem') this.#onRefusedFrame(response.id, new Problem(body));
      return; // answered before, on this stream or an earlier one
    }
    if (kind === 'problem') {
      this.#requests.delete(response.id);
      this.#onProblem(request, new Problem(body));
    } else if (kind === request.kind) {
      request.parts.push(body);
      if (response.more) return;
      this.#requests.delete(response.id);
      request.resolve(joined(request.parts));
    }
  }

  #onProblem(request, problem) {
    if (!problem.isRetryable || request.kind === 'claim') {
      request.reject(problem);
      return;
    }
    setTimeout(() => {
      if (this.#isClosed) return;
      request.id = this.#nextId++;
      this.#requests.set(request.id, request);
      if (this.#isReady) this.#send(request);
    }, problem.retryAfterMs || FIRST_DELAY_MS);
  }

  /** Fail the commits of a frame that the server did not take; to repeat them in their order takes a new stream. */
  #onRefusedFrame(id, problem) {
    if (id === 0) this.#hooks.log('worker.problem', { code: problem.code, error: problem.message });
    const commits = [...this.#sent].filter(([, entry]) => entry.frame === id).map(([no]) => no);
    if (commits.length === 0) return;
    if (problem.isRetryable) this.#onBroken(this.#stream, problem);
    else for (const no of commits) this.#settle(no, { fate: 'failed', at: 0, problem });
    this.#flushSoon();
  }

  #onOutcomes(reply, at) {
    for (const no of reply.done) this.#settle(no, { fate: 'done', at });
    for (const outcome of reply.others) {
      if (outcome.fate) this.#settle(outcome.no, { fate: outcome.fate, at: outcome.at || at });
      else this.#settle(outcome.no, { fate: 'failed', at, problem: new Problem(outcome.problem) });
    }
    this.#flushSoon();
  }

  #settle(no, outcome) {
    const entry = this.#sent.get(no);
    if (entry === undefined) return; // answered before
    this.#sent.delete(no);
    this.#sentBytes -= entry.size;
    entry.resolve(outcome);
  }

  // --- commits ------------------------------------------------------------------------------------

  #flushSoon() {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    setImmediate(() => {
      this.#isFlushing = false;
      this.#flush();
    });
  }

  /** Send what the limits allow: so many commits and bytes may be unanswered, the rest waits. */
  #flush() {
    while (this.#isReady && this.#queue.length > 0) {
      const commits = [];
      const id = this.#nextId++;
      let bytes = 0;
      while (this.#queue.length > 0 && bytes < FRAME_BYTES && this.#sent.size < this.#maxCommits) {
        const entry = this.#queue[0];
        const isTooMuch = this.#sentBytes + entry.size > UNANSWERED_BYTES && this.#sent.size > 0;
        if (isTooMuch || (bytes > 0 && bytes + entry.size > FRAME_BYTES)) break;
        this.#queue.shift();
        entry.frame = id;
        entry.sentAt = steady();
        this.#sent.set(entry.commit.no, entry);
        this.#sentBytes += entry.size;
        bytes += entry.size;
        commits.push(entry.commit);
      }
      if (commits.length === 0) return;
      this.#stream.write({ id, commits: { commits } });
    }
  }
}

/** The stream is broken, or was closed. */
export class Disconnected extends Error {
  constructor() {
    super('the connection to the server is broken');
  }
}

function isFinal(error) {
  return [3, 7, 12, 16].includes(error.code); // a request, a right, a service or a key that will not become valid
}

/** Return why a stream broke, in words: gRPC puts numbers and metadata around them. */
function reasonOf(error) {
  const text = String(error.details || error.message || error.code);
  return text.replace(/\s*Resolution note:\s*$/, '').replace(/\s+/g, ' ').trim();
}

/** Return the parts of one reply as one: their lists one after the other. */
function joined(parts) {
  const [first, ...others] = parts;
  for (const part of others) {
    for (const [name, value] of Object.entries(part)) {
      if (Array.isArray(value)) first[name].push(...value);
      else if (value === true) first[name] = true;
    }
  }
  return first;
}

/** Return how many bytes a message takes on the wire, or a little more. */
function sizeOf(part) {
  if (typeof part === 'string') return Buffer.byteLength(part) + ROW_BYTES;
  if (ArrayBuffer.isView(part)) return part.byteLength + ROW_BYTES;
  if (part === null || typeof part !== 'object') return ROW_BYTES;
  let size = ROW_BYTES;
  if (Array.isArray(part)) for (const each of part) size += sizeOf(each);
  else for (const [name, value] of Object.entries(part)) if (value !== undefined) size += 3 * name.length + sizeOf(value);
  return size;
}

function tooLarge(what, size) {
  const message = `${what} is ${size} bytes large; the limit is ${MAX_SEND}. Keep the data elsewhere and pass a reference to it.`;
  return new Problem({ code: 'payload_too_large', message });
}

// A worker that is alive: under one id and one lease, with the runs that it has.

import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';

import { stepProgram } from './asking.js';
import { encode, encodeError } from './codec.js';
import { Connection, Disconnected } from './connection.js';
import { SECOND } from './durations.js';
import { Divergence } from './errors.js';
import { Execution } from './execution.js';
import { LeaseRenewer } from './renewer.js';

const SDK = 'onward-node/0.1.0';
const AUDIT_MS = 30_000;
/** How long a worker that leaves waits for the server to take its runs back. */
const LEAVE_MS = 1000;
const PROGRESS_MS = 250;
const CLAIM_WAIT = 20 * SECOND;
const MAX_CLAIM = 500;
const MAX_CRASHES = 5;
const MAX_LOAD = 8;
/** How many runs that may have taken their workers down a worker executes at once, by their crashes. */
const TOGETHER = { 2: 16, 3: 4, 4: 1 };

export class Session {
  running = new Map();
  isStopping = false;
  /** The runs that it had when it ended, with their fences. */
  lost = {};
  #options;
  #before;
  #finish;
  /** Ends the session: `lease_lost`, `left`, or an error. */
  #end;
  #progress = new Map();
  #progressTimer = null;
  /** Runs whose progress is being written. */
  #writing = new Set();
  #auditAt = performance.now() + AUDIT_MS;
  #wake = () => {};
  /** Runs that were claimed and have not begun: their histories are being read. */
  #loading = new Map();
  /** Those of them that have changed since: their inboxes are read once they have begun. */
  #changed = new Set();

  /**
   * @param options  What the worker offers; see `Worker`.
   * @param before  The session of this process that lost its lease, whose place this one takes.
   */
  constructor(options, before) {
    this.#options = options;
    this.#before = before;
    this.id = `${hostname()}-${process.pid}-${randomBytes(6).toString('hex')}`;
    this.log = (event, fields = {}) => options.log(event, { worker: this.id, ...fields });
    this.steps = options.steps;
    this.workflows = options.workflows;
    this.version = options.version;
    this.connection = new Connection(options.address, options.access, this.#hello(), {
      onNews: (news) => this.#onNews(news),
      onReconnect: (lost) => this.#onReconnect(lost),
      onLeaseLost: () => this.#end('lease_lost'),
      onFailed: (error) => this.#end(error),
      held: () => this.held(),
      log: this.log,
    });
    this.now = () => this.connection.now();
    this.latest = () => this.connection.latest();
    this.#finish = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  #hello() {
    const { steps, workflows, queues, tags, slots, version, lease } = this.#options;
    const names = [...[...steps.keys()].map((name) => `step ${name}`), ...workflows.keys()];
    const codes = {};
    for (const [name, step] of steps) codes[`step ${name}`] = step.code;
    for (const [name, workflow] of workflows) codes[name] = workflow.code;
    const place = { worker: this.id, host: hostname(), pid: process.pid };
    const registration = { ...place, version, queues, tags, names, codes, slots };
    return { protocol: 1, sdk: SDK, registration, lease, before: this.#before };
  }

  /** The runs that it has, with their fences. */
  held() {
    return Object.fromEntries([...this.#loading.values(), ...this.running.values()].map((run) => [run.uid, run.fence]));
  }

  /** Work until the worker is stopped, or its lease is lost; return which. */
  async run(onReady) {
    const welcome = await Promise.race([this.connection.open(), this.#finish]);
    if (welcome?.server === undefined) return this.#leaveUnjoined(welcome);
    const { address, access, lease } = this.#options;
    const renewer = new LeaseRenewer(address, access, this.id, lease, (answer) => this.#onRenewed(answer));
    this.log('worker.ready', { server: welcome.server, queues: this.#options.queues.join(',') });
    onReady();
    if (welcome.is_draining) this.stop('drain');
    const claiming = this.#claimRuns();
    const end = await this.#finish;
    this.isStopping = true;
    this.#wake();
    clearTimeout(this.#progressTimer);
    this.lost = this.held();
    for (const execution of [...this.running.values()]) execution.leave('this worker no longer owns the run');
    this.connection.close();
    await renewer.stop();
    await claiming;
    if (end instanceof Error) throw end;
    return end;
  }

  /** End a session that was stopped before a server answered. */
  #leaveUnjoined(end) {
    this.connection.close();
    if (end instanceof Error) throw end;
    return end;
  }

  /** Claim no more, let steps that run come to an end, give back the rest, and leave. */
  stop(signal) {
    if (this.isStopping) return;
    this.isStopping = true;
    this.log('worker.stopping', { signal, runs: this.running.size });
    this.#wake();
    this.#drain().catch((error) => this.#end(error));
  }

  async #drain() {
    for (const execution of this.running.values()) execution.windDown();
    const end = performance.now() + this.#options.drain / 1000;
    if (this.#isBusy) this.connection.request('report_draining', {}).catch(() => {});
    while (this.#isBusy && performance.now() < end) await pause(20);
    for (const execution of [...this.running.values()]) execution.release();
    // While no server answers nothing can be given back: then the lease runs out by itself.
    const late = performance.now() + LEAVE_MS;
    while (this.running.size > 0 && performance.now() < late) await pause(10);
    this.#writeProgress();
    await Promise.race([this.connection.request('leave', { releases: true }).catch(() => {}), pause(LEAVE_MS)]);
    this.#end('left');
  }

  get #isBusy() {
    return [...this.running.values()].some((execution) => !execution.isIdle);
  }

  #onRenewed({ isKept, isDraining }) {
    if (!isKept) this.#end('lease_lost');
    else if (isDraining) this.stop('drain');
  }

  // --- claims -------------------------------------------------------------------------------------

  async #claimRuns() {
    while (!this.isStopping) {
      try {
        if (performance.now() >= this.#auditAt) await this.#audit();
        const free = this.#options.slots - this.running.size; // after the audit: a run that leaves meanwhile wakes nobody
        if (free <= 0) await this.#slotOrStop();
        else await this.#claim(Math.min(free, MAX_CLAIM));
      } catch (error) {
        if (this.isStopping) return;
        this.#auditAt = 0; // a claim may have been made whose answer did not come
        if (!(error instanceof Disconnected)) this.log('worker.claim_failed', { error: error.code ?? error.message });
        await pause(100);
      }
    }
  }

  async #audit() {
    await this.connection.request('audit', { known: [...this.running.keys()] });
    this.#auditAt = performance.now() + AUDIT_MS;
  }

  #slotOrStop() {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  async #claim(limit) {
    const reply = await this.connection.request('claim', { limit, suspects: this.#suspects(limit), wait: CLAIM_WAIT });
    if (reply.was_repeated) this.#auditAt = 0;
    if (this.isStopping || reply.runs.length === 0) return; // leaving gives them back
    await this.#begin(reply.runs);
    const changed = [...reply.changed, ...this.#changed];
    this.#changed.clear();
    if (changed.length > 0) await this.#read(changed);
  }

  #suspects(limit) {
    const crashes = [...this.running.values()].map((run) => run.claimed.crashes ?? 0);
    const suspects = crashes.filter((count) => count >= 2);
    const most = Math.min(...suspects.map((count) => TOGETHER[count] ?? 1), TOGETHER[2]);
    const rooms = Object.entries(TOGETHER).map(([count, together]) => ({
      crashes: Number(count),
      room: Math.max(0, Math.min(limit, Math.min(most, together) - suspects.length)),
    }));
    return [{ crashes: MAX_CRASHES, room: limit }, ...rooms];
  }

  async #begin(claimed) {
    for (const run of claimed) this.#loading.set(run.uid, run);
    try {
      const runs = [];
      for (const run of claimed) {
        if ((run.crashes ?? 0) < MAX_CRASHES) {
          runs.push(run);
          continue;
        }
        await this.#giveUp(run, { state: 'failed', reason: 'crashed', error_type: 'crashed' });
        this.#loading.delete(run.uid);
      }
      const loaded = await this.#load(runs);
      for (const run of runs) {
        if (this.isStopping) return; // leaving gives them back
        if (!this.#loading.has(run.uid)) continue; // it was lost meanwhile
        const found = loaded.get(run.uid) ?? { history: [], inbox: [] };
        if (found.failure) await this.#giveUp(run, failed(new Error(found.failure.message)));
        else await this.#start(run, found);
        this.#loading.delete(run.uid);
      }
    } finally {
      this.#loading.clear(); // the next audit gives back those that did not begin
    }
  }

  /** Read the histories of runs that are not new, and the inboxes of those to which something was sent. */
  async #load(runs) {
    const histories = runs.filter((run) => run.fence > 1 || run.follows !== undefined).map((run) => run.uid);
    const sent = runs.filter((run) => (run.inbox ?? 0) > 0).map((run) => run.uid);
    if (histories.length + sent.length === 0) return new Map();
    const wanted = { histories, inboxes: Object.fromEntries(sent.map((uid) => [uid, {}])) };
    return this.#loaded(await this.connection.request('load', wanted));
  }

  /** Join the parts of a reply by run, and read payloads that it left out. */
  async #loaded(reply) {
    const loaded = new Map();
    for (const part of reply.runs) {
      const found = loaded.get(part.run) ?? { history: [], inbox: [], failure: undefined };
      found.history.push(...part.history);
      found.inbox.push(...part.inbox);
      found.failure ??= part.failure;
      loaded.set(part.run, found);
    }
    for (const [run, found] of loaded) found.inbox = await this.#filled(run, found.inbox);
    return loaded;
  }

  async #filled(run, rows) {
    const omitted = rows.filter((row) => row.is_omitted).map((row) => row.seq);
    const read = new Map();
    for (let at = 0; at < omitted.length; at += MAX_LOAD) {
      const reply = await this.connection.request('messages', { run, seqs: omitted.slice(at, at + MAX_LOAD) });
      for (const row of reply.messages) read.set(row.seq, row);
    }
    return rows.map((row) => read.get(row.seq) ?? row);
  }

  async #start(run, { history, inbox }) {
    let execution;
    try {
      execution = new Execution(this, run, this.#programOf(run), history, inbox);
    } catch (error) {
      await this.#refuse(run, error);
      return;
    }
    this.running.set(run.uid, execution);
    execution.begin();
  }

  #programOf(run) {
    if (run.kind === 'step') return stepProgram(this.steps.get(run.name.replace(/^step /, '')), run);
    return this.workflows.get(run.name);
  }

  /** Pause a run that newer code may be able to read. */
  async #refuse(run, error) {
    const reason = encodeError(new Divergence(`the run's history cannot be read: ${error.message}`));
    const { uid, fence, seq = 0, inbox: seen = 0 } = run;
    const code = this.#programOf(run)?.code;
    const move = { state: 'paused', reason: 'divergence', error: reason, parked_by: code, seen, seq };
    const { fate } = await this.connection.commit({ run: uid, fence, move });
    if (fate === 'busy') await this.connection.commit({ run: uid, fence, move: { state: 'ready', seq } });
  }

  #giveUp(run, move) {
    const request = { by: { run: run.uid, fence: run.fence }, name: run.name, move };
    return this.connection.request('give_up', request);
  }

  // --- its runs -----------------------------------------------------------------------------------

  /** Take note that a run has left this worker. */
  left(execution) {
    if (this.running.get(execution.uid) === execution) this.running.delete(execution.uid);
    this.#wake();
  }

  #onNews(news) {
    if (news.drain) this.stop('drain');
    const runs = news.everything ? [...this.#loading.keys(), ...this.running.keys()] : news.runs;
    for (const uid of runs) if (this.#loading.has(uid)) this.#changed.add(uid);
    this.#read(runs).catch((error) => this.log('worker.read_failed', { error: error.code ?? error.message }));
  }

  /** Read what is new in the inboxes of runs; one that changed without a message may be another's. */
  async #read(uids) {
    const runs = uids.map((uid) => this.running.get(uid)).filter((run) => run !== undefined && !run.isStopped);
    if (runs.length === 0) return;
    const inboxes = Object.fromEntries(runs.map((run) => [run.uid, { seen: run.inbox.seen }]));
    const loaded = await this.#loaded(await this.connection.request('load', { histories: [], inboxes }));
    const silent = runs.filter((run) => !run.isGone && !run.receive(loaded.get(run.uid)?.inbox ?? []));
    if (silent.length === 0) return;
    const owned = (await this.connection.request('owned', {})).runs;
    for (const run of silent) if (!run.isStopped && owned[run.uid] !== run.fence) run.drop();
  }

  /** Read the inbox of a run that could not leave: it has a number that it has not seen. */
  async look(execution) {
    try {
      const { count = 0 } = await this.connection.request('count_messages', { run: execution.uid });
      const inboxes = { [execution.uid]: { seen: execution.inbox.seen } };
      const loaded = await this.#loaded(await this.connection.request('load', { histories: [], inboxes }));
      execution.goOn(loaded.get(execution.uid)?.inbox ?? [], count);
    } catch {
      execution.drop();
    }
  }

  #onReconnect(lost) {
    for (const uid of lost) {
      const run = this.#loading.get(uid);
      if (this.#loading.delete(uid)) this.log('run.lost', { run: run.id });
      this.running.get(uid)?.drop();
    }
    this.#auditAt = 0;
  }

  // --- progress -----------------------------------------------------------------------------------

  progress(execution, value) {
    this.#progress.set(execution.uid, { fence: execution.fence, value: encode(value, 'the progress') });
    this.#progressTimer ??= setTimeout(() => this.#writeProgress(), PROGRESS_MS);
  }

  /** Return progress that is not written yet, to be written with the end of the run. */
  takeProgress(execution) {
    const pending = this.#progress.get(execution.uid);
    this.#progress.delete(execution.uid);
    return pending?.value;
  }

  /** Write the last value of each run, one at a time: while no server answers, only the newest is kept. */
  #writeProgress() {
    this.#progressTimer = null;
    for (const [run, { fence, value }] of this.#progress) {
      if (this.#writing.has(run)) continue;
      this.#progress.delete(run);
      this.#writing.add(run);
      const written = () => this.#writing.delete(run);
      this.connection.request('keep_progress', { run, fence, value }).then(written, written);
    }
    if (this.#progress.size > 0) this.#progressTimer = setTimeout(() => this.#writeProgress(), PROGRESS_MS);
  }
}

function failed(error) {
  return { state: 'failed', reason: 'internal', error: encodeError(error), error_type: 'Error' };
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

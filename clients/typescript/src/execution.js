// One run in a worker: its body runs as far as it can, what it asks for is done, recorded, and then handed over.
//
// `pump` schedules a turn. A turn comes after all microtasks, so the body is quiet then: it waits for calls of ours, or
// has ended. A turn hands over one record and lets the body run; if there is none, it looks at what the run waits for.
// With nothing under way the run parks, and leaves the worker.

import { childCall, elsewhere, stepCall } from './asking.js';
import { Call, ChildCall, SignalCall, StepCall, TimedCall, TimerCall } from './calls.js';
import { BodyClock, ClockCall, lateCleanup } from './clock.js';
import { decode, encode } from './codec.js';
import { WorkflowContext } from './context.js';
import { Cancelled, Unreadable, handedOver } from './errors.js';
import { readHistory } from './history.js';
import { CANCEL_IDENTITY } from './identity.js';
import { Inbox } from './inbox.js';
import { Journal } from './journal.js';
import { Leaving } from './leaving.js';
import { Replay } from './replay.js';
import { Steps } from './steps.js';
import { graceEnds, readStop, stopMove } from './stopping.js';
import { UnclaimedSignals, Waits } from './waits.js';

const MAX_TIMER_MS = 2 ** 31 - 1;

export class Execution {
  /** Calls that the body waits for, by identity. */
  calls = new Map();
  /** How the body ended: `{value}` or `{error}`. */
  end = undefined;
  /** The record of the cancel, once the body was handed it. */
  cancelled = undefined;
  /** Why code and history do not fit, if they do not. */
  diverged = undefined;
  /** Outcomes that the body was handed, for retries of the run. */
  outcomes = [];
  /** The call that an error came from. */
  origins = new WeakMap();
  isStopped = false;
  isGone = false;
  isDraining = false;
  /** Replies of the server that are awaited. */
  asking = 0;
  #waits = new Waits();
  #clock;
  #steps = new Steps(this);
  #unclaimed = new UnclaimedSignals();
  #unwanted = [];
  #memos;
  #tried;
  #lateCleanup;
  #isRecordingCancel = false;
  #isScheduled = false;
  #alarm = undefined;

  constructor(host, claimed, program, history, inbox) {
    this.host = host;
    this.claimed = claimed;
    this.program = program;
    const { records, taken, memos, tried } = readHistory(history);
    this.#memos = memos;
    this.#tried = tried;
    this.#lateCleanup = lateCleanup(claimed, records);
    this.replay = new Replay(records);
    this.inbox = new Inbox(claimed, taken);
    this.inbox.begin(inbox);
    this.inbox.isStopping ||= records.some((record) => record.kind === 'cancel');
    const repeated = claimed.beginning === undefined ? null : JSON.parse(claimed.beginning)[0];
    this.#clock = new BodyClock(claimed.fence > 1 || repeated !== null);
    this.bodyNow = repeated ?? claimed.started_at ?? claimed.created_at ?? 0; // a retry starts when its first run did
    this.journal = new Journal(host.connection, claimed, host.version, {
      lost: () => this.drop(),
      broken: (error) => this.leaving.breakOff(error),
    });
    this.leaving = new Leaving(this);
  }

  get uid() {
    return this.claimed.uid;
  }

  get fence() {
    return this.claimed.fence;
  }

  // --- the body asks ------------------------------------------------------------------------------

  newBranch(parent) {
    return this.replay.branch(parent);
  }

  callStep(branch, step, input, options) {
    return this.#ask(stepCall(this, step, input, options), branch);
  }

  callChild(branch, workflow, input, options) {
    return this.#ask(childCall(this, workflow, input, options), branch);
  }

  callTimer(branch, delay) {
    return this.#ask(new TimerCall(this.bodyNow, delay), branch);
  }

  callSignal(branch, name, timeout) {
    const promise = this.#ask(new SignalCall(name, this.bodyNow, timeout), branch);
    this.#handOnUnclaimed();
    return promise;
  }

  report(value) {
    if (this.replay.live && !this.isStopped) this.host.progress(this, value);
  }

  #ask(call, branch) {
    if (this.isStopped || this.diverged !== undefined) return call.promise; // nothing is done for this body any more
    const answer = this.replay.ask(branch, call.kind, call.name, call.argsHash);
    if (answer.is === 'diverged') {
      this.diverged = answer;
      this.pump();
      return call.promise;
    }
    call = elsewhere(call, answer.record);
    call.identity = answer.identity;
    call.branch = branch;
    call.asked = this.replay.read;
    this.calls.set(call.identity, call);
    if (answer.record !== undefined) call.takeUp(answer.record);
    if (answer.is === 'fresh') this.#start(call, false);
    else if (answer.is === 'resume') this.#begin(call);
    this.pump();
    return call.promise;
  }

  /** Wait no more for the calls of some branches, and of those below them. */
  abandonBranches(branches, error) {
    for (const call of [...this.calls.values()]) {
      if (branches.some((branch) => call.branch === branch || call.branch.startsWith(`${branch}.`))) this.#abandon(call, error);
    }
  }

  #abandon(call, error) {
    this.calls.delete(call.identity);
    this.#waits.discard(call);
    this.#steps.stop(call, error);
    if (call instanceof ChildCall && call.isKept) this.#unwanted.push(call.child);
    call.reject(handedOver(error));
    this.pump();
  }

  isWanted(call) {
    return !this.isStopped && this.calls.get(call.identity) === call;
  }

  // --- what it asked for is done ------------------------------------------------------------------

  #start(call, isReplayed) {
    if (!(call instanceof TimedCall)) this.#begin(call);
    else this.#clock.hold(call, isReplayed);
  }

  #begin(call) {
    const memo = this.#memos.get(call.identity);
    if (memo?.name === `${call.kind} ${call.name}` && memo.args_hash === call.argsHash) {
      this.close(call, { state: 'succeeded', payload: memo.payload });
    } else if (call instanceof ChildCall) this.#beginChild(call);
    else if (call instanceof StepCall && call.due === undefined) this.#steps.perform(call);
    else this.#waits.add(call);
  }

  #beginChild(call) {
    if (call.isKept) {
      this.#waits.add(call);
      return;
    }
    const starts = [call.newRun(this.claimed)];
    const record = this.journal.row(call, 'open', undefined, { payload: call.opening() });
    this.journal.write({ records: [record], starts }, ({ at }) => {
      this.replay.recorded({ ...record, at });
      call.isKept = true;
      if (!this.isWanted(call)) this.#unwanted.push(call.child); // it was abandoned while it was started
      this.wait(call);
    });
  }

  /** Wait for a call, if it is still wanted. */
  wait(call) {
    if (this.isWanted(call)) this.#waits.add(call);
    this.pump();
  }

  /** When the first attempt of a call began that history has. */
  triedSince(call) {
    return this.#tried.get(call.identity);
  }

  /** Whether no step may begin now. */
  get mayNotBegin() {
    return this.isDraining || this.#isBarred;
  }

  get #isBarred() {
    return this.#isRecordingCancel || this.inbox.isHeld;
  }

  /** Write the outcome of a call at the next position of history; once it is written, the body is handed it. */
  close(call, { state, payload, error, message }) {
    this.#waits.discard(call);
    this.#record(call, state, { payload, error, message, took: call.took });
  }

  #record(call, state, rest, then = () => {}) {
    const record = this.journal.row(call, state, this.replay.takePosition(), rest);
    this.journal.write({ records: [record] }, ({ at }) => {
      then();
      this.replay.recorded({ ...record, at });
      this.pump();
    });
  }

  /** Write the time at the next position of history: waits count from it. */
  #keepTime(start, then) {
    const call = new ClockCall(start, this.replay.nextPosition);
    this.#record(call, 'succeeded', { payload: call.payload }, then);
  }

  // --- turns --------------------------------------------------------------------------------------

  begin() {
    if (this.replay.live && this.inbox.cancel !== null) {
      this.leaving.end(stopMove(readStop(this.inbox.takeCancel()))); // it was cancelled before it began
      return;
    }
    let input;
    try {
      input = decode(this.claimed.input, 'the input');
    } catch (error) {
      this.#diverge({ is: 'unreadable', error });
      return;
    }
    this.#isScheduled = this.#lateCleanup !== undefined; // first the time is recorded, or its cleanup would be over
    const body = (async () => this.program.fn(input, new WorkflowContext(this, '')))();
    body.then(
      (value) => this.#ended({ value }),
      (error) => this.#ended({ error: error ?? new Error(`the workflow threw ${error}`) }),
    );
    if (this.#lateCleanup !== undefined) this.#keepTime(this.#lateCleanup, () => (this.#isScheduled = false));
    else this.pump();
  }

  #diverge(why) {
    this.diverged = why;
    this.pump();
  }

  #ended(end) {
    this.end = end;
    this.pump();
  }

  /** Let the run take its next turn, once the body is quiet. */
  pump() {
    if (this.isStopped || this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      if (this.isStopped) return;
      try {
        this.#turn();
      } catch (error) {
        if (error instanceof Unreadable) this.#diverge({ is: 'unreadable', error });
        else this.leaving.breakOff(error);
      }
    });
  }

  #turn() {
    this.#takeStop();
    while (!this.#isBarred && this.diverged === undefined && this.end === undefined) {
      const turn = this.replay.next();
      if (turn.is === 'deliver') {
        this.#deliver(turn.record);
        this.pump();
        return;
      }
      if (turn.is === 'wait') break;
      if (turn.is === 'diverged') this.diverged = turn;
      else for (const identity of turn.released) if (this.calls.has(identity)) this.#start(this.calls.get(identity), true);
    }
    this.#beginWaits();
    this.#conclude();
  }

  /** Let the waits begin that the body has asked for; if it is late, the time is recorded first. */
  #beginWaits() {
    if (!this.replay.live || this.#isRecordingCancel || this.diverged !== undefined || this.end !== undefined) return;
    const { waits, late } = this.#clock.begin(this.bodyNow, this.host.latest(), (call) => this.isWanted(call));
    if (late !== undefined) this.#keepTime(late);
    for (const call of waits) this.#begin(call);
  }

  #deliver(record) {
    this.bodyNow = Math.max(this.bodyNow, record.at);
    if (record.kind === 'cancel') {
      this.cancelled = record;
      this.#clock.absent = 0;
      for (const call of [...this.calls.values()]) this.#abandon(call, new Cancelled(decode(record.payload).why));
      return;
    }
    if (record.kind === 'clock') {
      this.#clock.hear(record, this.calls.values());
      return;
    }
    const call = this.calls.get(record.identity);
    if (call === undefined) {
      this.#unclaimed.add(record);
      this.#handOnUnclaimed();
      return;
    }
    this.#handOver(call, record);
  }

  #handOver(call, record) {
    this.calls.delete(call.identity);
    const error = call.settle(record);
    this.outcomes.push({ identity: call.identity, name: call.name, asked: call.asked, seq: record.seq, isGood: error === undefined });
    if (error !== undefined) this.origins.set(error, call.identity);
  }

  #handOnUnclaimed() {
    const found = this.#unclaimed.take(this.calls.values());
    if (found === undefined) return;
    this.#waits.discard(found.call);
    this.#handOver(found.call, found.record);
  }

  /** Record once that the run is to stop, for its body to receive. */
  #takeStop() {
    if (this.inbox.cancel === null || this.#isRecordingCancel || this.diverged !== undefined || this.end !== undefined) return;
    const message = this.inbox.takeCancel();
    if (this.cancelled !== undefined || this.replay.recordOf(CANCEL_IDENTITY) !== undefined) return;
    const stop = readStop(message);
    const call = new Call('cancel', 'cancel');
    call.identity = CANCEL_IDENTITY;
    this.#isRecordingCancel = true;
    this.#record(call, 'succeeded', { payload: encode(stop), message: message.seq }, () => (this.#isRecordingCancel = false));
  }

  #conclude() {
    if (this.diverged !== undefined) this.leaving.pause();
    else if (this.end !== undefined && !this.inbox.isHeld) {
      if (this.asking === 0) this.leaving.finish();
    } else if (this.#isGraceOver && this.asking === 0) this.leaving.end(stopMove(decode(this.cancelled.payload)));
    else {
      this.#cancelUnwanted();
      this.#endWaits();
      if (!this.mayNotBegin) this.#steps.takeUpUndone();
      this.#rest();
    }
  }

  #endWaits() {
    if (this.#isBarred || !this.replay.live) return;
    for (const { call, ...outcome } of this.#waits.ready(this.inbox, this.host.now())) {
      if (call instanceof StepCall) this.#steps.perform(call);
      else this.close(call, outcome);
    }
  }

  #cancelUnwanted() {
    if (this.#unwanted.length === 0 || !this.replay.live) return;
    this.dismiss(this.#unwanted.splice(0), () => this.pump());
  }

  /** Cancel children that nothing waits for any more; then call `then`. */
  dismiss(children, then) {
    this.ask('dismiss', { by: this.owner(), children }, then);
  }

  owner() {
    return { run: this.uid, fence: this.fence };
  }

  /** Ask the server something for this run; without an answer the run is another's. */
  ask(kind, body, then) {
    this.asking += 1;
    this.host.connection.request(kind, body).then(
      (reply) => {
        this.asking -= 1;
        if (!this.isGone) then(reply);
      },
      (error) => {
        this.asking -= 1;
        if (error.code === undefined || error.code === 'lease_lost') this.drop();
        else this.leaving.breakOff(error);
      },
    );
  }

  /** Wait for what is being worked on or, if there is nothing, leave the worker. */
  #rest() {
    if (this.journal.writing > 0 || this.#steps.underWay > 0 || this.asking > 0) {
      this.#setAlarm();
      return;
    }
    if (this.#isScheduled) return;
    if (this.#steps.hasUndone && this.isDraining) {
      this.release();
      return;
    }
    const { seen } = this.inbox;
    if (this.inbox.isHeld) this.leaving.park(this.#waits, { state: 'paused', reason: 'operator', seen });
    else if (this.calls.size === 0 && this.cancelled === undefined) this.leaving.endStuck();
    else this.leaving.park(this.#waits, { state: 'waiting', due: this.#nextDue(), seen });
  }

  #nextDue() {
    const { nextDue } = this.#waits;
    return this.cancelled === undefined ? nextDue : Math.min(nextDue ?? Infinity, this.#graceEnds);
  }

  get #graceEnds() {
    return graceEnds(this.cancelled) + this.#clock.absent;
  }

  get #isGraceOver() {
    return this.cancelled !== undefined && this.#graceEnds <= this.host.now();
  }

  #setAlarm() {
    clearTimeout(this.#alarm);
    const due = this.#nextDue();
    if (due === undefined || this.#isBarred) return;
    const ms = Math.max(1, Math.ceil((due - this.host.now()) / 1000));
    this.#alarm = setTimeout(() => this.pump(), Math.min(ms, MAX_TIMER_MS));
  }

  // --- others about it ----------------------------------------------------------------------------

  get isIdle() {
    return this.journal.writing === 0 && this.#steps.underWay === 0 && this.asking === 0;
  }

  /** The children that end with the run. */
  get childrenLeft() {
    const awaited = [...this.calls.values()].filter((call) => call instanceof ChildCall && call.isKept);
    return [...new Set([...this.#unwanted, ...awaited.map((call) => call.child)])];
  }

  /** Take messages, and the number of the last one; return whether any is new. */
  receive(rows, counted = 0) {
    const { seen } = this.inbox;
    this.inbox.add(rows, counted);
    this.pump();
    return this.inbox.seen > seen;
  }

  /** Do no more for the body: how the run leaves is decided. */
  stop() {
    this.isStopped = true;
    clearTimeout(this.#alarm);
  }

  /** Go on: a message arrived before the run could leave. */
  goOn(rows, counted) {
    if (this.isGone) return;
    this.isStopped = false;
    this.receive(rows, counted);
  }

  /** Begin no more steps; after those under way, release the run if it needs more. */
  windDown() {
    this.isDraining = true;
    this.pump();
  }

  /** Release the run unfinished, for another worker to continue. */
  release() {
    if (this.isStopped) return;
    this.stop();
    this.#steps.stopAll('the worker is stopping');
    this.journal.whenWritten(() => {
      if (!this.isGone) this.journal.write({ move: { state: 'ready', seq: this.replay.last } }, () => this.leave());
    });
  }

  /** Forget the run without writing anything: it belongs to another worker. */
  drop() {
    if (this.isGone) return;
    this.host.log('run.lost', { run: this.claimed.id });
    this.leave('this worker no longer owns the run');
  }

  leave(why = 'its result is no longer needed') {
    if (this.isGone) return;
    this.stop();
    this.isGone = true;
    this.#steps.stopAll(why);
    this.host.left(this);
  }
}

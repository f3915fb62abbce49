// The durable calls of a workflow: what history keeps of each, and what its outcome means to the code.

import { decode, decodeError, encode, encodeError } from './codec.js';
import { childUid, digest } from './identity.js';
import { RunCancelled, RunFailed, TimedOut, handedOver } from './errors.js';
import { readEnd } from './inbox.js';

/** One call of a body, from asking to outcome. */
export class Call {
  identity = '';
  branch = '';
  attempt = 1;
  /** When the run must look at it again, if nothing happens before. */
  due = undefined;
  /** Whether an open record of it is in history. */
  isKept = false;
  /** The position up to which history was read when it was asked for. */
  asked = 0;
  took = 0;
  /** How long before `due` it began, by the time of the body. */
  lasts = 0;

  constructor(kind, name, argsHash) {
    this.kind = kind;
    this.name = name;
    this.argsHash = argsHash;
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // A branch that is abandoned may never look at its last call.
    this.promise.catch(() => {});
  }

  /** Go on where a record left off: an open wait, or an attempt that failed. */
  takeUp(record) {
    this.isKept = record.state === 'open';
    this.attempt = this.isKept ? record.attempt : record.attempt + 1;
    if (record.due !== undefined) this.due = record.due;
  }

  /** Hand the outcome to the code; return the error, if it is one. */
  settle(record) {
    if (record.state === 'succeeded') {
      this.resolve(this.value(record));
      return undefined;
    }
    const error = handedOver(this.raised(record));
    this.reject(error);
    return error;
  }

  value(record) {
    return decode(record.payload, `the outcome of ${this.name}`);
  }

  raised(record) {
    return decodeError(record.error);
  }
}

/** A step that runs in this worker. */
export class StepCall extends Call {
  /** When its first attempt began, by the database's time. */
  since = undefined;

  constructor(definition, input, argsHash, limits) {
    super('step', definition.name, argsHash);
    this.definition = definition;
    /** JSON, so that no attempt can change what the next one is given. */
    this.input = input;
    this.limits = limits;
  }
}

/** A call that waits for a time, or for something else until a time. */
export class TimedCall extends Call {
  /** Whether it ends something else, and is no sleep. */
  isLimit = true;
  /** Whether a clock record says from when it counts. */
  isTimed = false;

  /** @param {number | null} delay  How long it is; null: without an end. */
  constructor(kind, name, askedAt, delay) {
    super(kind, name);
    this.askedAt = askedAt;
    this.delay = delay;
    if (delay === null) return;
    this.due = askedAt + delay;
    this.lasts = delay;
  }

  /** Be due so much later, counted from `now` on. */
  putOff(length, now) {
    this.due += length;
    this.lasts = Math.max(0, this.due - now);
  }
}

/** A sleep. */
export class TimerCall extends TimedCall {
  isLimit = false;

  constructor(askedAt, delay) {
    super('timer', 'sleep', askedAt, delay);
  }

  value() {
    return undefined;
  }
}

/** A wait for a signal, which may have a limit. */
export class SignalCall extends TimedCall {
  constructor(name, askedAt, timeout) {
    super('signal', name, askedAt, timeout);
  }

  raised() {
    return new TimedOut(`the wait for '${this.name}'`, 'its timeout');
  }
}

/** A run that this one starts and waits for: a child, or a step that runs elsewhere. */
export class ChildCall extends Call {
  child = '';

  constructor(kind, name, start, askedAt) {
    super(kind, name, start?.args_hash);
    this.start = start;
    this.askedAt = askedAt;
  }

  takeUp(record) {
    super.takeUp(record);
    this.due = undefined;
    if (record.payload !== undefined) this.child = decode(record.payload).uid;
  }

  /** Return the run to be started. */
  newRun(parent) {
    this.child = childUid(parent.uid, this.identity, this.askedAt);
    return {
      ...this.start,
      uid: this.child,
      id: this.child,
      parent: parent.uid,
      parent_identity: this.identity,
      root: parent.root ?? parent.uid,
      origin: digest('child', parent.origin ?? parent.uid, this.identity),
      version: parent.version,
      trace: parent.trace,
      attempt: 1,
      cancel_with_parent: 1,
    };
  }

  /** Return the payload of its open record: the awaited run. */
  opening() {
    return encode({ uid: this.child, is_reported: true, cancel_with_parent: true });
  }

  /** Return how its record is closed by the message about the end of the run. */
  closing(payload) {
    const { state, reason, data } = readEnd(payload);
    if (state === 'succeeded') return { state, payload: data };
    const whose = encode({ run: this.child, reason });
    if (state !== 'failed') return { state, payload: whose };
    return { state, payload: whose, error: data.length > 0 ? data : encodeError(new RunFailed(this.child, reason, '')) };
  }

  raised(record) {
    const { run, reason } = decode(record.payload);
    if (this.kind === 'step' && record.state === 'timed_out') {
      return new TimedOut(`step '${this.name}'`, 'its time limit');
    }
    if (record.state !== 'failed') return new RunCancelled(run, record.state, reason);
    const error = decodeError(record.error);
    if (this.kind === 'step' || (error instanceof RunFailed && error.run === run)) return error;
    return new RunFailed(run, reason, error.message, error);
  }
}

// Replay: which recorded call a call is, and in which order results are handed over.
//
// It serves a run that is replayed and one that is live alike: a result is written first, then noted with `recorded`,
// then handed over by `next`. So the body sees results in the order of history, both times.

import { Naming, branchOf } from './identity.js';

/** What reached others: it must not silently vanish from the code. */
const GRAVE = new Set(['effect', 'child', 'signal', 'publish', 'start']);
/** Records that the worker writes for the run itself; no code asks for them. */
const OWN = new Set(['cancel', 'clock']);
const KINDS = new Set([...GRAVE, ...OWN, 'step', 'timer', 'patch']);

/**
 * @typedef {object} Record
 * @property {string} identity
 * @property {number} attempt
 * @property {number} [seq]  The position at which it is handed over; absent while it is open or is tried again.
 * @property {string} kind
 * @property {string} name
 * @property {string} state
 * @property {string} [args_hash]
 * @property {number} [due]
 * @property {Buffer} [payload]
 * @property {Buffer} [error]
 * @property {number} at  The time at which it was written.
 */

function isGrave(record) {
  return GRAVE.has(record.kind) && !(record.kind === 'signal' && record.seq === undefined);
}

function bySeq(one, other) {
  return (one.record.seq ?? Infinity) - (other.record.seq ?? Infinity);
}

/** One run's history, and how far its body has read it. */
export class Replay {
  /** Whether history is read: calls that are not in it are done at once. */
  live;
  /** The position up to which the body was handed what history has. */
  read = 0;
  /** The last position that history has. */
  last = 0;
  #taken = 0;
  #calls = new Map();
  #order = [];
  #held = [];
  #late = [];
  /** Calls that reached others, and that the code has not asked for yet. */
  #unread = new Set();
  #naming = new Naming();

  /** @param {Record[]} history */
  constructor(history) {
    for (const record of [...history].sort((one, other) => one.attempt - other.attempt)) {
      if (!KINDS.has(record.kind)) throw new Error(`record ${record.identity} has the unknown kind ${record.kind}`);
      this.#calls.set(record.identity, { identity: record.identity, record, asked: null, status: 'recorded' });
    }
    this.#order = [...this.#calls.values()].filter((call) => call.record.seq !== undefined).sort(bySeq);
    this.last = this.#taken = this.#order.at(-1)?.record.seq ?? 0;
    this.live = this.#calls.size === 0;
    this.#unread = new Set([...this.#calls.values()].filter((call) => isGrave(call.record)));
  }

  branch(parent) {
    return this.#naming.branch(parent);
  }

  /** The position that `takePosition` returns next. */
  get nextPosition() {
    return this.#taken + 1;
  }

  /** Return the position for the next record that closes a call; each is used in turn. */
  takePosition() {
    this.#taken += 1;
    return this.#taken;
  }

  recordOf(identity) {
    return this.#calls.get(identity)?.record;
  }

  /**
   * Return what a call means: `fresh` (do it), `held` (do it once history is read), `read` (its result follows),
   * `resume` (it was begun), or `diverged`.
   */
  ask(branch, kind, name, argsHash) {
    const identity = this.#naming.call(branch, name);
    const asked = { branch, kind, name };
    const call = this.#calls.get(identity);
    if (call === undefined) return this.#askNew(identity, asked);
    const { record } = call;
    const isOther = record.args_hash !== undefined && argsHash !== undefined && record.args_hash !== argsHash;
    if (record.kind !== kind || record.name !== name || isOther) {
      const difference = record.kind !== kind ? 'kind' : record.name !== name ? 'name' : 'arguments';
      return { is: 'diverged', identity, recorded: record, asked, difference };
    }
    call.asked = asked;
    this.#unread.delete(call);
    if (record.seq !== undefined) {
      if (call.status === 'passed') this.#late.push(call);
      call.status = 'read';
      return { is: 'read', identity };
    }
    if (this.live) {
      call.status = 'under way';
      return { is: 'resume', identity, record };
    }
    call.status = 'held';
    this.#held.push(call);
    return { is: 'held', identity, record };
  }

  #askNew(identity, asked) {
    const call = { identity, record: undefined, asked, status: 'under way' };
    if (this.live) {
      const left = this.#leftBehind(asked.branch);
      if (left !== undefined) return { is: 'diverged', identity, recorded: left, asked, difference: 'unread' };
    } else {
      call.status = 'held';
      this.#held.push(call);
    }
    this.#calls.set(identity, call);
    return { is: this.live ? 'fresh' : 'held', identity };
  }

  /** Take note of a record that is now in history; if it has a position it will be handed over. */
  recorded(record) {
    let call = this.#calls.get(record.identity);
    if (call === undefined) {
      call = { identity: record.identity, record, asked: null, status: 'under way' };
      this.#calls.set(record.identity, call);
    }
    call.record = record;
    if (record.seq === undefined) return;
    this.last = record.seq;
    call.status = 'read';
    this.#order.push(call);
  }

  /** Return what to do now that the body is quiet: deliver a record, begin what was held, or wait. */
  next() {
    if (this.#late.length > 0) return this.#deliver(this.#late.sort(bySeq).shift());
    while (this.#order.length > 0) {
      const call = this.#order.shift();
      if (call.asked === null && !OWN.has(call.record.kind)) call.status = 'passed';
      else return this.#deliver(call);
    }
    return this.live ? { is: 'wait' } : this.#reachFrontier();
  }

  #deliver(call) {
    this.read = Math.max(this.read, call.record.seq);
    this.#calls.delete(call.identity);
    return { is: 'deliver', record: call.record };
  }

  #reachFrontier() {
    for (const call of this.#held) {
      const left = this.#leftBehind(call.asked.branch);
      if (left !== undefined) return { is: 'diverged', recorded: left, asked: call.asked, difference: 'unread' };
    }
    this.live = true;
    const released = this.#held.map((call) => call.identity);
    for (const call of this.#held) call.status = 'under way';
    this.#held = [];
    return { is: 'frontier', released };
  }

  /** Return the record, if there is one, that forbids the run to end: it reached others, and the code ignores it. */
  unread() {
    return [...this.#unread].sort(bySeq)[0]?.record;
  }

  #leftBehind(branch) {
    if (this.#unread.size === 0) return undefined;
    const own = [...this.#unread].filter((call) => branchOf(call.identity) === branch);
    return own.sort(bySeq)[0]?.record;
  }
}

// What a run waits for: times, signals and the ends of other runs.

import { ChildCall, SignalCall } from './calls.js';

/** Return how a message closes a wait, if one has come for it. */
function messageFor(call, inbox) {
  if (call instanceof ChildCall) {
    const row = inbox.ends.get(call.identity);
    return row && { ...call.closing(row.payload), message: row.seq };
  }
  const row = call instanceof SignalCall ? inbox.takeSignal(call.name) : undefined;
  return row && { state: 'succeeded', payload: row.payload, message: row.seq };
}

/** The calls of a run that wait, in the order in which they were asked for. */
export class Waits {
  #calls = new Map();

  add(call) {
    this.#calls.set(call.identity, call);
  }

  discard(call) {
    this.#calls.delete(call.identity);
  }

  /** The earliest time at which one of them must be looked at. */
  get nextDue() {
    const dues = [...this].map((call) => call.due).filter((due) => due !== undefined);
    return dues.length === 0 ? undefined : Math.min(...dues);
  }

  /**
   * Return the calls whose message or time has come, each with its outcome; they wait no more.
   * A message that is here wins over a time that has passed. Times come in their order.
   */
  ready(inbox, now) {
    const outcomes = [];
    const over = [];
    for (const call of this) {
      const outcome = messageFor(call, inbox);
      if (outcome !== undefined) outcomes.push({ call, ...outcome });
      else if (call.due !== undefined && call.due <= now) over.push(call);
    }
    for (const call of over.sort((one, other) => one.due - other.due)) {
      outcomes.push({ call, state: call instanceof SignalCall ? 'timed_out' : 'succeeded' });
    }
    for (const { call } of outcomes) this.discard(call);
    return outcomes;
  }

  [Symbol.iterator]() {
    return [...this.#calls.values()][Symbol.iterator]();
  }
}

/**
 * Signals that were recorded for a wait which was abandoned before it was handed them: no signal is lost, the next wait
 * of that name has it.
 */
export class UnclaimedSignals {
  #records = [];

  /** Keep a record that no call waits for, if it is a signal. */
  add(record) {
    if (record.kind === 'signal' && record.state === 'succeeded') this.#records.push(record);
  }

  /** Return the first of these signals that one of the calls waits for, with that call. */
  take(calls) {
    if (this.#records.length === 0) return undefined;
    const waits = [...calls].filter((call) => call instanceof SignalCall);
    for (const [at, record] of this.#records.entries()) {
      const call = waits.find((each) => each.name === record.name);
      if (call === undefined) continue;
      this.#records.splice(at, 1);
      return { call, record };
    }
    return undefined;
  }
}

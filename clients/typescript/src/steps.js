// The steps of a run: they are performed, tried again, and their outcomes written.

import { beginAttempt } from './attempt.js';
import { decode, encodeError } from './codec.js';
import { errorFields } from './errors.js';
import { decide } from './retry.js';

export class Steps {
  #execution;
  #attempts = new Map();
  #undone = new Set();

  constructor(execution) {
    this.#execution = execution;
  }

  /** How many attempts are under way. */
  get underWay() {
    return this.#attempts.size;
  }

  /** Whether steps were asked for that could not begin. */
  get hasUndone() {
    return this.#undone.size > 0;
  }

  /** Begin an attempt of a step; it is kept for later if nothing new may begin. */
  perform(call) {
    const execution = this.#execution;
    if (execution.mayNotBegin) {
      this.#undone.add(call);
      return;
    }
    call.due = undefined;
    call.since ??= execution.triedSince(call) ?? execution.host.now();
    const attempt = beginAttempt({
      definition: call.definition,
      input: decode(call.input),
      run: execution.claimed,
      attempt: call.attempt,
      timeout: call.limits.timeout,
      report: (value) => execution.report(value),
    });
    this.#attempts.set(call, attempt);
    const ended = attempt.outcome.then((outcome) => this.#ended(call, outcome));
    ended.catch((error) => execution.leaving.breakOff(error)); // or Node would end the process
  }

  #ended(call, { payload, error, took }) {
    const execution = this.#execution;
    this.#attempts.delete(call);
    if (execution.isWanted(call)) {
      call.took = took;
      if (error === undefined) execution.close(call, { state: 'succeeded', payload });
      else this.#failed(call, error);
    }
    execution.pump();
  }

  #failed(call, error) {
    const execution = this.#execution;
    const { host, journal, replay, claimed } = execution;
    const after = decide(call.limits.retry, call.attempt, error, host.now() - call.since);
    host.log('step.failed', { run: claimed.id, step: call.name, attempt: call.attempt, ...errorFields(error) });
    if (after === null) {
      execution.close(call, { state: 'failed', error: encodeError(error) });
      return;
    }
    const rest = { due_in: after, error: encodeError(error), took: call.took };
    const record = journal.row(call, 'failed', undefined, rest);
    journal.write({ records: [record] }, ({ at }) => {
      replay.recorded({ ...record, at });
      call.attempt += 1;
      call.due = at + after;
      execution.wait(call);
    });
  }

  /** Begin what could not begin before. */
  takeUpUndone() {
    for (const call of this.#undone) {
      this.#undone.delete(call);
      this.perform(call);
    }
  }

  /** Stop an attempt whose result is not needed any more. */
  stop(call, reason) {
    this.#undone.delete(call);
    this.#attempts.get(call)?.stop(reason);
  }

  /** Stop all attempts: the run leaves its worker. */
  stopAll(why) {
    for (const attempt of this.#attempts.values()) attempt.stop(new Error(`the step was stopped: ${why}`));
  }
}

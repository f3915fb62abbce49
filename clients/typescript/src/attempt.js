// One attempt of a step: its time limit, its context, its outcome.

import { encode } from './codec.js';
import { shown } from './durations.js';
import { TimedOut } from './errors.js';

const MAX_TIMER_MS = 2 ** 31 - 1;

/** The names of the steps in this process whose functions have not returned, one for each attempt. */
const unfinished = new Map();

/** Return the names of the steps whose functions have not returned, also of those that nothing waits for any more. */
export function unfinishedSteps() {
  return [...unfinished.values()];
}

/** The second argument of a step, after its input. */
class StepContext {
  #attempt;
  #controller;
  #report;

  constructor(run, attempt, controller, report) {
    this.run = run.id;
    this.#attempt = attempt;
    this.#controller = controller;
    this.#report = report;
  }

  /** The number of this attempt, from 1. */
  get attempt() {
    return this.#attempt;
  }

  /** Aborted when the result is no longer needed, or when the attempt has taken too long. */
  get signal() {
    return this.#controller.signal;
  }

  /** Throw if the step was aborted; call this in loops that do not pass `signal` on. */
  heartbeat() {
    this.#controller.signal.throwIfAborted();
  }

  /** Report the progress of the run; the last value wins. */
  progress(value) {
    this.heartbeat();
    this.#report(value);
  }
}

/**
 * Perform one attempt of a step.
 * @param {{definition: any, input: any, run: any, attempt: number, timeout: number, report: (value: any) => void}} given
 * @returns {{stop: (reason: Error) => void, outcome: Promise<{payload?: Buffer, error?: unknown, took: number}>}}
 */
export function beginAttempt({ definition, input, run, attempt, timeout, report }) {
  const controller = new AbortController();
  const context = new StepContext(run, attempt, controller, report);
  const began = performance.now();
  const took = () => Math.floor((performance.now() - began) * 1000);
  let timer;
  const limit = new Promise((resolve) => {
    timer = setTimeout(() => {
      const error = new TimedOut(`step '${definition.name}'`, shown(timeout));
      controller.abort(error);
      resolve({ error, took: took() });
    }, Math.min(timeout / 1000, MAX_TIMER_MS));
  });
  unfinished.set(controller, definition.name);
  const work = (async () => {
    try {
      const result = await definition.fn(input, context);
      return { payload: encode(result, `the result of step '${definition.name}'`), took: took() };
    } catch (error) {
      return { error: error ?? new Error('the step threw null or undefined'), took: took() };
    } finally {
      unfinished.delete(controller);
    }
  })();
  const outcome = Promise.race([work, limit]).finally(() => clearTimeout(timer));
  const stop = (reason) => {
    timer.unref(); // a step that ignores its signal does not keep a process alive whose worker has left
    controller.abort(reason);
  };
  return { outcome, stop };
}

// What a workflow is given beside its input: every call through it is durable.

import { BadInput, BranchAbandoned, Cancelled } from './errors.js';
import { microseconds } from './durations.js';
import { checkName } from './identity.js';

export class WorkflowContext {
  #execution;
  #branch;

  constructor(execution, branch) {
    this.#execution = execution;
    this.#branch = branch;
  }

  /** The id of the run. */
  get run() {
    return this.#execution.claimed.id;
  }

  /** The time at which the workflow received the latest result, signal or timer; the same in every replay. */
  now() {
    return new Date(Math.floor(this.#execution.bodyNow / 1000));
  }

  /** Run a step, and return its result. With a queue, the step runs on a worker that serves the queue. */
  step(step, input = {}, options = {}) {
    return this.#execution.callStep(this.#branch, step, input, options);
  }

  /** Sleep for a length of time, for which the run holds no slot. */
  sleep(length) {
    return this.#execution.callTimer(this.#branch, microseconds(length));
  }

  /** Wait for a signal, and return its value; with a timeout this raises `TimedOut` when it is over. */
  signal(name, options = {}) {
    const timeout = options.timeout === undefined ? null : microseconds(options.timeout);
    return this.#execution.callSignal(this.#branch, checkName(name, 'the name of a signal'), timeout);
  }

  /** Start another workflow, in any language, and return its result. */
  child(workflow, input = {}, options = {}) {
    return this.#execution.callChild(this.#branch, workflow, input, options);
  }

  /**
   * Run branches side by side, each with a context of its own, and return their results.
   * When one fails, the others are abandoned, and its error is raised once they have ended.
   */
  all(branches) {
    const results = this.#all(branches);
    results.catch(() => {}); // like a call, it may be left behind by code that fails or is cancelled
    return results;
  }

  async #all(branches) {
    if (!Array.isArray(branches) || branches.some((each) => typeof each !== 'function')) {
      const advice = 'Write ctx.all([(ctx) => ctx.step(...), ...]).';
      throw new BadInput('ctx.all', 'was not given a list of functions', advice);
    }
    const paths = branches.map(() => this.#execution.newBranch(this.#branch));
    const before = this.#execution.cancelled;
    let failure;
    const runs = branches.map(async (code, nth) => {
      if (failure !== undefined) return undefined; // another has failed before this one could begin
      try {
        return await code(new WorkflowContext(this.#execution, paths[nth]));
      } catch (error) {
        // What stops one branch has reached all others: each cleans up, and an error of that counts for more.
        const isStop = error instanceof Cancelled || error instanceof BranchAbandoned;
        if (failure === undefined && !isStop && this.#execution.cancelled === before) {
          const others = paths.filter((path) => path !== paths[nth]);
          this.#execution.abandonBranches(others, new BranchAbandoned());
        }
        if (failure === undefined || (failure.isStop && !isStop)) failure = { error, isStop };
        return undefined;
      }
    });
    const results = await Promise.all(runs);
    if (failure !== undefined) throw failure.error;
    return results;
  }

  /** Let others see how far the run is; the last value counts. */
  progress(value) {
    this.#execution.report(value);
  }
}

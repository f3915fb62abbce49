// The worker: what it offers, and its sessions, one after the other.

import { unfinishedSteps } from './attempt.js';
import { checkName, digest } from './identity.js';
import { microseconds } from './durations.js';
import { BadInput, wasHandedOver } from './errors.js';
import { policyOf } from './retry.js';
import { Session } from './session.js';
import { readAccess, readUrl } from './wire.js';

/** How long code that follows the end of a worker has if a step still runs. */
const EXIT_MS = 2000;

function definition(what, name, fn, options) {
  if (typeof name !== 'string' || name === '' || Buffer.byteLength(name) > 500) {
    const advice = 'Pass the name as the first argument.';
    throw new BadInput(`the name of a ${what}`, 'is not a string of 1 to 500 bytes', advice);
  }
  checkName(name, `the name of a ${what}`);
  if (typeof fn !== 'function') {
    throw new BadInput(`${what} '${name}'`, 'has no function', 'Pass a function as the second argument.');
  }
  return {
    name,
    fn,
    queue: options.queue === undefined ? undefined : checkName(options.queue, `the queue of ${what} '${name}'`),
    retry: options.retry === undefined ? undefined : policyOf(options.retry),
    timeout: options.timeout === undefined ? undefined : microseconds(options.timeout),
    code: digest(fn.toString()).slice(0, 12),
  };
}

/** Define a step: a function whose result is recorded once in the history of a run. */
export function step(name, fn, options = {}) {
  return definition('step', name, fn, options);
}

/** Define a workflow: a function that survives crashes, because every call through its context is recorded. */
export function workflow(name, fn, options = {}) {
  return definition('workflow', name, fn, options);
}

function byName(definitions = [], version) {
  const code = version === undefined ? {} : { code: digest('version', version).slice(0, 12) };
  return new Map(definitions.map((each) => [each.name, { ...each, ...code }]));
}

function logLine(event, { stack = '', ...fields }) {
  const shown = Object.entries(fields).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  process.stderr.write(`${event}: ${shown.join(' ')}\n${stack}`);
}

/** Whether the user has chosen what Node does with a rejection that nothing handles. */
const HAS_CHOSEN = [...process.execArgv, process.env.NODE_OPTIONS ?? ''].some((each) => each.includes('--unhandled-rejections'));
let guarded = 0;

/**
 * Let a worker live on if a workflow leaves a promise behind whose call has failed or was cancelled: one run would end
 * all runs of the process, here and in each worker that takes it next. Other rejections do what they do without us.
 */
function onUnhandled(error) {
  if (wasHandedOver(error) || process.listeners('unhandledRejection').some((each) => each !== onUnhandled)) return;
  throw error;
}

function guard() {
  if (!HAS_CHOSEN && guarded++ === 0) process.on('unhandledRejection', onUnhandled);
}

function unguard() {
  if (!HAS_CHOSEN && --guarded === 0) process.off('unhandledRejection', onUnhandled);
}

const SIGNALS = ['SIGTERM', 'SIGINT'];
/** The handlers of signals of all workers in this process. */
const stops = new Set();

/** Whether other code handles a signal too. Asked before any handler ran: one of `once` is gone afterwards. */
function isHandledElsewhere(signal) {
  return process.listeners(signal).some((each) => !stops.has(each));
}

/** Executes steps and workflows for an Onward server. */
export class Worker {
  #options;
  #session = null;
  #isStopping = false;

  constructor(url, options = {}) {
    const { version } = options;
    this.#options = {
      address: readUrl(url ?? process.env.ONWARD_URL),
      access: readAccess(
        options.key ?? process.env.ONWARD_KEY,
        options.namespace ?? process.env.ONWARD_NAMESPACE,
      ),
      steps: byName(options.steps, version),
      workflows: byName(options.workflows, version),
      queues: (options.queues ?? ['default']).map((each) => checkName(each, 'a queue of the worker')),
      tags: options.tags ?? [],
      slots: options.slots ?? 100,
      version,
      lease: microseconds(options.lease ?? '15s'),
      drain: microseconds(options.drain ?? '10s'),
      log: options.log ?? logLine,
    };
  }

  /**
   * Run the worker until `stop()`, SIGTERM or SIGINT. If the lease is lost, the worker forgets its runs and joins again
   * under a new id: other workers continue the runs.
   */
  async run({ handleSignals = true, onReady = () => {} } = {}) {
    let exits = false;
    const stop = (signal) => {
      exits = !isHandledElsewhere(signal);
      this.stop(signal);
    };
    stops.add(stop);
    if (handleSignals) for (const signal of SIGNALS) process.prependListener(signal, stop);
    guard();
    try {
      let before;
      while (!this.#isStopping) {
        this.#session = new Session(this.#options, before);
        const end = await this.#session.run(onReady);
        if (end !== 'lease_lost') return;
        before = { worker: this.#session.id, held: this.#session.lost };
        this.#options.log('worker.lease_lost', { worker: this.#session.id });
      }
    } finally {
      unguard();
      if (handleSignals) for (const signal of SIGNALS) process.off(signal, stop);
      stops.delete(stop);
      if (exits) this.#exitSoon();
    }
  }

  /** Let no step that ignores its signal keep the process alive; other code has time to come to its end. */
  #exitSoon() {
    const exit = () => {
      const steps = unfinishedSteps();
      if (steps.length === 0) return;
      this.#options.log('worker.exits', { unfinished: steps.join(', ') });
      process.exit();
    };
    setTimeout(exit, EXIT_MS).unref();
  }

  /** Claim no more runs, wait for running steps, release the remaining runs, and leave. */
  stop(signal = 'stop') {
    this.#isStopping = true;
    this.#session?.stop(signal);
  }
}

// The worker: what it offers, and its sessions, one after the other.

import { digest } from './identity.js';
import { microseconds } from './durations.js';
import { BadInput } from './errors.js';
import { policyOf } from './retry.js';
import { Session } from './session.js';
import { readAccess, readUrl } from './wire.js';

function definition(what, name, fn, options) {
  if (typeof name !== 'string' || name === '' || Buffer.byteLength(name) > 500) {
    const advice = 'Pass the name as the first argument.';
    throw new BadInput(`the name of a ${what}`, 'is not a string of 1 to 500 bytes', advice);
  }
  if (typeof fn !== 'function') {
    throw new BadInput(`${what} '${name}'`, 'has no function', 'Pass a function as the second argument.');
  }
  return {
    name,
    fn,
    queue: options.queue,
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
      queues: options.queues ?? ['default'],
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
    const stop = (signal) => this.stop(signal);
    if (handleSignals) for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, stop);
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
      if (handleSignals) for (const signal of ['SIGTERM', 'SIGINT']) process.off(signal, stop);
    }
  }

  /** Claim no more runs, wait for running steps, release the remaining runs, and leave. */
  stop(signal = 'stop') {
    this.#isStopping = true;
    this.#session?.stop(signal);
  }
}

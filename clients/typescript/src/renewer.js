// The lease renewer of a worker. It is a thread and not a timer: a step that computes for half a minute blocks the
// timers of its thread, and with them the lease of every run that the worker has.

import { Worker as Thread } from 'node:worker_threads';

const TICK_MS = 1000;

export class LeaseRenewer {
  #thread;
  #ticks;

  /** @param {(answer: {isKept: boolean, isDraining: boolean}) => void} onAnswer */
  constructor(address, access, worker, lease, onAnswer) {
    this.#thread = new Thread(new URL('./renewer_thread.js', import.meta.url), {
      workerData: { address, access, worker, lease, joinedAt: Date.now() },
    });
    this.#thread.on('message', onAnswer);
    this.#thread.unref();
    this.#ticks = setInterval(() => this.#thread.postMessage('tick'), TICK_MS);
    this.#ticks.unref();
  }

  stop() {
    clearInterval(this.#ticks);
    return this.#thread.terminate();
  }
}

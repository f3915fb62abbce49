import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Execution } from '../src/execution.js';
import { encode } from '../src/codec.js';
import { workflow } from '../src/index.js';

/** A worker with one run, whose commits are written at once, and the commits and requests that the run has made. */
class Host {
  commits = [];
  requests = [];
  steps = new Map();
  workflows = new Map();
  #at = 1_000_000;

  constructor(claimed = {}) {
    this.claimed = { uid: 'r', id: 'r', fence: 1, kind: 'workflow', name: 'w', queue: 'node', input: encode({}), ...claimed };
    this.connection = {
      commit: async (commit) => {
        this.commits.push(commit);
        return { fate: 'done', at: (this.#at += 1) };
      },
      request: async (kind, body) => {
        this.requests.push({ kind, body });
        return {};
      },
    };
    this.over = new Promise((resolve) => {
      this.left = resolve;
    });
  }

  now() {
    return this.#at;
  }

  log() {}

  takeProgress() {}

  /** Begin a run of the body. */
  begin(body, { history = [], inbox = [] } = {}) {
    const execution = new Execution(this, this.claimed, workflow('w', body), history, inbox);
    execution.begin();
    return execution;
  }

  /** Return how a run of the body left the worker. */
  async run(body, given) {
    this.begin(body, given);
    await this.over;
    return this.commits.at(-1).move;
  }

  get records() {
    return this.commits.flatMap(({ records }) => records ?? []);
  }

  get starts() {
    return this.commits.flatMap(({ starts }) => starts ?? []);
  }
}

test('a child runs on the queue of its workflow, and otherwise on that of its parent', async () => {
  const letters = workflow('letters', async () => {}, { queue: 'letters' });
  const host = new Host();
  await host.run(async (_, ctx) => {
    const branches = [
      (one) => one.child(letters),
      (two) => two.child(letters, {}, { queue: 'other' }),
      (three) => three.child(workflow('plain', async () => {})),
      (four) => four.child('elsewhere'),
    ];
    return ctx.all(branches);
  });
  const queues = host.starts.map(({ name, queue }) => `${name} ${queue}`);
  assert.deepEqual(queues, ['letters letters', 'letters other', 'plain node', 'elsewhere node']);
});

test('a child that is named runs on the queue of the workflow that this worker has', async () => {
  const host = new Host();
  host.workflows = new Map([['letters', workflow('letters', async () => {}, { queue: 'letters' })]]);
  await host.run((_, ctx) => ctx.child('letters'));
  assert.equal(host.starts[0].queue, 'letters');
});

test('a child on another queue does not need the tags of its parent', async () => {
  const host = new Host({ tags: 'gpu' });
  await host.run((_, ctx) => ctx.all([(one) => one.child('here'), (two) => two.child('there', {}, { queue: 'other' })]));
  assert.deepEqual(host.starts.map(({ tags }) => tags), ['gpu', '']);
});

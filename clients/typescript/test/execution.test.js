import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

import { Execution } from '../src/execution.js';
import { ChildCall } from '../src/calls.js';
import { decodeError, encode, encodeError } from '../src/codec.js';
import { RunFailed } from '../src/errors.js';
import { BadInput, Retryable, Worker, step, workflow } from '../src/index.js';

/** The record of a cancel that a run was told of a moment ago. */
const CANCEL = {
  identity: '=cancel',
  attempt: 1,
  kind: 'cancel',
  name: 'cancel',
  state: 'succeeded',
  payload: encode({ why: 'operator', grace: 60_000_000 }),
  closed_at: 1_000_000,
};

/** A worker with one run, whose commits are written soon, and the commits and requests that the run has made. */
class Host {
  commits = [];
  requests = [];
  steps = new Map();
  workflows = new Map();
  #at;

  constructor(claimed = {}, at = 1_000_000) {
    this.#at = at;
    this.claimed = { uid: 'r', id: 'r', fence: 1, kind: 'workflow', name: 'w', queue: 'node', input: encode({}), ...claimed };
    this.connection = {
      commit: async (commit) => {
        this.commits.push(commit);
        await new Promise((resolve) => setTimeout(resolve, 2)); // the body goes on meanwhile
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

  latest() {
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

/** Run a program that has a worker in it, and return its exit code and what it wrote to stderr. */
function play(body) {
  const source = `
    import { Worker } from ${JSON.stringify(new URL('../src/index.js', import.meta.url))};
    import { Execution } from ${JSON.stringify(new URL('../src/execution.js', import.meta.url))};
    import { Cancelled, StepFailed, handedOver } from ${JSON.stringify(new URL('../src/errors.js', import.meta.url))};
    ${body}
    new Worker('onward://127.0.0.1:1', { log() {} }).run();
    setTimeout(() => process.exit(7), 300);
  `;
  const { status, stderr } = spawnSync('node', ['--input-type=module', '-e', source], { encoding: 'utf8', timeout: 20_000 });
  return { status, stderr };
}

test('a worker survives that a workflow does not look at an error that a call has raised', () => {
  const ours = play(`
    const error = handedOver(new Cancelled('operator'));
    setTimeout(() => Promise.reject(error), 50);
    setTimeout(() => Promise.reject(new Error('wrapped', { cause: error })), 50);
  `);
  assert.deepEqual(ours, { status: 7, stderr: '' });
});

test('any other error that nothing looks at still ends the process', () => {
  const { status, stderr } = play("setTimeout(() => Promise.reject(new Error('a bug')), 50);");
  assert.equal(status, 1);
  assert.match(stderr, /a bug/);
});

test('an abandoned group of branches raises nothing that is unhandled', async (t) => {
  const unhandled = [];
  const note = (error) => unhandled.push(error);
  process.on('unhandledRejection', note);
  t.after(() => process.off('unhandledRejection', note));
  const host = new Host({ fence: 2 });
  const history = [{ ...CANCEL, seq: 1 }];
  const move = await host.run(
    async (_, ctx) => {
      const both = ctx.all([(one) => one.sleep('1h'), (two) => two.sleep('2h')]);
      await ctx.sleep('3h');
      await both;
    },
    { history },
  );
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual([move.state, unhandled], ['cancelled', []]);
});

test('a step that throws something odd fails like any other', async () => {
  const odd = [Object.create(null), { toString: 1 }, Object.assign(new Error('x'), { notes: 'one' })];
  for (const thrown of odd) {
    const failing = step('failing', () => Promise.reject(thrown), { retry: { attempts: 1 } });
    const host = new Host();
    const move = await host.run((_, ctx) => ctx.step(failing));
    assert.deepEqual([move.state, move.reason, host.records[0].state], ['failed', 'logic', 'failed']);
  }
});

test('a step whose delay is no length of time is tried again after the delay of its policy', async () => {
  for (const after of [NaN, -1, 'soon']) {
    const busy = step('busy', () => Promise.reject(Object.assign(new Retryable('busy'), { after })), { retry: { delay: '3s', jitter: 0 } });
    const host = new Host();
    await host.run((_, ctx) => ctx.step(busy));
    assert.deepEqual(host.records.map(({ state, due_in: due }) => [state, due]), [['failed', 3_000_000]]);
  }
});

test('a name that a server would refuse raises an error where it is passed', async () => {
  const bad = ['', 'half \ud800', 'a\u0000b', 'x'.repeat(513), 7];
  const calls = [
    (ctx, name) => ctx.signal(name),
    (ctx, name) => ctx.child(name),
    (ctx, name) => ctx.child('c', {}, { queue: name }),
    (ctx, name) => ctx.step(name, {}, { queue: 'q' }),
    (ctx, name) => ctx.step('s', {}, { queue: name }),
  ];
  for (const name of bad) {
    for (const call of calls) {
      const host = new Host();
      const move = await host.run(async (_, ctx) => call(ctx, name));
      assert.deepEqual([move.state, move.error_type], ['failed', 'onward.errors.BadInput'], `${call} ${name}`);
    }
    assert.throws(() => step(name, () => 1), BadInput);
    assert.throws(() => workflow('w', () => 1, { queue: name }), BadInput);
    assert.throws(() => new Worker('onward://localhost', { queues: [name] }), BadInput);
  }
});

/** Run a body that was cancelled while it waited. */
async function cancelled(host, body) {
  return host.run(body, { history: [{ ...CANCEL, seq: 1 }] });
}

test('the cleanup of a branch is not abandoned when another branch passes the cancel on', async () => {
  const undo = step('undo', async ({ who }) => who);
  const host = new Host({ fence: 2 });
  const cleaned = [];
  const branch = async (ctx, who) => {
    try {
      await ctx.sleep('1h');
    } finally {
      cleaned.push(await ctx.step(undo, { who }));
    }
  };
  const move = await cancelled(host, (_, ctx) =>
    ctx.all([(one) => branch(one, 1), (two) => two.sleep('2h'), (three) => three.all([(inner) => branch(inner, 2)])]),
  );
  assert.deepEqual([move.state, cleaned], ['cancelled', [1, 2]]);
});

test('an error in the cleanup of a branch fails the run', async () => {
  const move = await cancelled(new Host({ fence: 2 }), (_, ctx) =>
    ctx.all([
      (one) => one.sleep('1h'),
      async (two) => {
        await two.sleep('1h').catch(() => {});
        throw new RangeError('no cleanup');
      },
    ]),
  );
  assert.deepEqual([move.state, move.error_type], ['failed', 'RangeError']);
});

test('a branch does not begin once another has failed', async () => {
  const host = new Host();
  const move = await host.run((_, ctx) => ctx.all([(one) => one.step('unknown'), (two) => two.signal('never')]));
  assert.deepEqual([move.state, move.error_type], ['failed', 'onward.errors.BadInput']);
});

test('the cleanup of a branch goes on when the cleanup of another fails, and when both were abandoned', async () => {
  const undo = step('undo', async () => 'undone');
  const done = [];
  const clean = async (ctx, who) => {
    await ctx.sleep('1h').catch(() => {});
    done.push(`${who} ${await ctx.step(undo)}`);
  };
  const failing = async (ctx) => {
    await ctx.sleep('1h').catch(() => {});
    throw new RangeError('no cleanup');
  };
  await cancelled(new Host({ fence: 2 }), (_, ctx) => ctx.all([(one) => clean(one, 'cancelled'), failing]));
  const fail = step('fail', () => Promise.reject(new RangeError('fails')), { retry: { attempts: 1 } });
  const inner = (ctx) => ctx.all([(one) => clean(one, 'abandoned'), (two) => two.sleep('2h')]);
  await new Host().run((_, ctx) => ctx.all([inner, (two) => two.step(fail)]));
  assert.deepEqual(done, ['cancelled undone', 'abandoned undone']);
});

test('a child that is being started when its parent ends is cancelled', async () => {
  const ends = [() => Promise.reject(new Error('ends at once')), () => 1];
  for (const end of ends) {
    const host = new Host();
    await host.run((_, ctx) => {
      ctx.child('long');
      return end();
    });
    assert.deepEqual(host.requests.map(({ kind, body }) => [kind, body.children]), [['dismiss', [host.starts[0].uid]]]);
  }
});

test('a workflow that throws nothing has failed', async () => {
  for (const nothing of [undefined, null]) {
    const { state, reason, result } = await new Host().run(() => Promise.reject(nothing));
    assert.deepEqual([state, reason, result], ['failed', 'logic', undefined]);
  }
});

test('the error of a child names that child, also if a child of its own had failed', async () => {
  const inner = new RunFailed('grandchild', 'logic', 'deep', new RangeError('deep'));
  for (const [error, run, cause] of [[inner, 'child', 'grandchild'], [new RunFailed('child', 'crashed', ''), 'child', undefined]]) {
    const call = new ChildCall('child', 'c', {}, 0);
    const raised = call.raised({ state: 'failed', payload: encode({ run: 'child', reason: 'logic' }), error: encodeError(error) });
    assert.deepEqual([raised.constructor, raised.run, raised.cause?.run], [RunFailed, run, cause]);
  }
});

test('a value of a format that this version cannot read pauses the run, as newer code may read it', async () => {
  const child = { uid: 'c', is_reported: true, cancel_with_parent: true };
  const opened = { identity: ':c#1', attempt: 1, kind: 'child', name: 'c', state: 'open', payload: encode(child), opened_at: 1 };
  const signal = { seq: 1, message: 'm', kind: 'signal', name: 's', payload: Buffer.from('zstd:1') };
  const end = { seq: 1, message: 'm', kind: 'child', name: ':c#1', payload: Buffer.from('succeeded\n\nzstd:1') };
  const failed = { seq: 1, message: 'm', kind: 'child', name: ':c#1', payload: Buffer.from('failed\nlogic\nzstd:1') };
  const found = [
    [(_, ctx) => ctx.signal('s'), [], signal],
    [(_, ctx) => ctx.child('c'), [opened], end],
    [(_, ctx) => ctx.child('c').catch(() => {}), [opened], failed],
  ];
  for (const [body, history, message] of found) {
    const host = new Host({ fence: 2, inbox: 1 });
    const move = await host.run(body, { history, inbox: [message] });
    assert.deepEqual([move.state, move.reason], ['paused', 'divergence']);
    assert.match(decodeError(move.error).message, /cannot be read: its codec tag is "zstd"/);
  }
});

test('arguments that are no object raise an error where they are passed', async () => {
  const local = step('local', () => 1);
  const calls = [
    (ctx, input) => ctx.child('c', input),
    (ctx, input) => ctx.step('s', input, { queue: 'q' }),
    (ctx, input) => ctx.step(local, input),
  ];
  for (const input of [[1], 'a', 1, true, null, new Date(0)]) {
    for (const call of calls) {
      const host = new Host();
      const move = await host.run(async (_, ctx) => call(ctx, input));
      assert.deepEqual([move.state, move.error_type], ['failed', 'onward.errors.BadInput'], `${call} ${JSON.stringify(input)}`);
    }
  }
});

test('a length of time of more than a thousand years raises an error where it is passed', async () => {
  const calls = [
    (ctx) => ctx.sleep(1e13),
    (ctx) => ctx.sleep('400000d'),
    (ctx) => ctx.signal('s', { timeout: 1e13 }),
  ];
  for (const call of calls) {
    const move = await new Host().run(async (_, ctx) => call(ctx));
    assert.deepEqual([move.state, move.error_type], ['failed', 'onward.errors.BadInput'], `${call}`);
  }
  assert.throws(() => step('s', () => 1, { timeout: 1e13 }), BadInput);
  assert.equal((await new Host().run((_, ctx) => ctx.sleep('365000d'))).state, 'waiting');
});

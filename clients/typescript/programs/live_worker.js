// Steps that Python workflows call, and a workflow with every kind of call, for tests against a real server. With
// KILL_AT=n the process kills itself when the n-th response arrives, before it is read; with DIES=1 it does in `undo`.

import { Fatal, Worker, step, workflow } from '../src/index.js';
import { workersClient } from '../src/wire.js';

const killAt = Number(process.env.KILL_AT ?? 0);
if (killAt > 0) {
  const { prototype } = workersClient();
  const open = prototype.Work;
  let responses = 0;
  prototype.Work = function work(...given) {
    const stream = open.apply(this, given);
    stream.on('data', () => {
      responses += 1;
      if (responses === killAt) process.kill(process.pid, 'SIGKILL');
    });
    return stream;
  };
}

const add = step('add', async ({ a, b }) => a + b, { retry: { attempts: 3, delay: '10ms' } });
const fail = step('fail', async ({ message }) => {
  throw new Fatal(message);
});

const undo = step('undo', async () => {
  if (process.env.DIES) process.kill(process.pid, 'SIGKILL');
  return 'undone';
});

const careful = workflow('careful', async (_, ctx) => {
  try {
    await ctx.signal('never');
  } finally {
    await ctx.step(undo);
  }
});

const sum = workflow('sum', async ({ numbers }, ctx) => {
  let total = 0;
  for (const number of numbers) total = await ctx.step(add, { a: total, b: number });
  return total;
});

const order = workflow('order', async ({ n, wait = '50ms' }, ctx) => {
  let total = 0;
  for (let nth = 0; nth < 3; nth++) total = await ctx.step(add, { a: total, b: n });
  const approval = await ctx.signal('approval');
  const children = await ctx.child(sum, { numbers: [n, n] });
  await ctx.sleep(wait);
  const both = await ctx.all([(one) => one.step(add, { a: n, b: 1 }), (two) => two.step(add, { a: n, b: 2 })]);
  return { n, total, approval, children, both };
});

await new Worker(undefined, {
  queues: (process.env.QUEUE ?? 'node').split(','),
  steps: [add, fail, undo],
  workflows: [careful, sum, order],
  lease: process.env.LEASE ?? '2s',
  slots: Number(process.env.SLOTS ?? 100),
  log: process.env.VERBOSE ? undefined : () => {},
}).run();

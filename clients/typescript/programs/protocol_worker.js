// The test program of docs/protocol.md: `python -m onward.testing.protocol -- node programs/protocol_worker.js`.

import { setTimeout as delay } from 'node:timers/promises';

import { Cancelled, Fatal, TimedOut, Worker, step, workflow } from '../src/index.js';

const add = step('add', async ({ a, b }) => a + b);
const fail = step('fail', async ({ message }) => {
  throw new Fatal(message);
});
const flaky = step(
  'flaky',
  async ({ times }, { attempt }) => {
    if (attempt <= times) throw new Error(`attempt ${attempt} fails`);
    return attempt;
  },
  { retry: { attempts: 5, delay: '10ms', jitter: 0 } },
);
const hang = step('hang', async (_, { signal }) => {
  await delay(60_000, undefined, { signal });
});
const show = step('show', async ({ value }, ctx) => {
  ctx.progress(value);
  return value;
});
const block = step('block', async ({ seconds }) => {
  const end = performance.now() + seconds * 1000;
  while (performance.now() < end); // a computation
});

const sum = workflow('sum', async ({ numbers }, ctx) => {
  let total = 0;
  for (const number of numbers) total = await ctx.step(add, { a: total, b: number });
  return total;
});

async function undoing(ctx, work) {
  try {
    await work();
  } catch (error) {
    if (error instanceof Cancelled) await ctx.step(add, { a: 1, b: 1 });
    throw error;
  }
}

const workflows = [
  sum,
  workflow('both', (_, ctx) => ctx.all([(one) => one.step(add, { a: 1, b: 2 }), (two) => two.step(add, { a: 3, b: 4 })])),
  workflow('flake', ({ times }, ctx) => ctx.step(flaky, { times })),
  workflow('broken', ({ message }, ctx) => ctx.step(fail, { message })),
  workflow('report', ({ value }, ctx) => ctx.step(show, { value })),
  workflow('busy', ({ seconds }, ctx) => ctx.step(block, { seconds })),
  workflow('nap', async ({ seconds }, ctx) => {
    await ctx.sleep(seconds);
    return ctx.step(add, { a: 1, b: 2 });
  }),
  workflow('approval', (_, ctx) => ctx.signal('approval')),
  workflow('patient', async ({ seconds }, ctx) => {
    try {
      return await ctx.signal('approval', { timeout: seconds });
    } catch (error) {
      if (error instanceof TimedOut) return 'timed out';
      throw error;
    }
  }),
  workflow('sum_then_approval', async ({ numbers }, ctx) => {
    let total = 0;
    for (const number of numbers) total = await ctx.step(add, { a: total, b: number });
    return ctx.signal('approval');
  }),
  workflow('hang_or_approval', (_, ctx) => Promise.race([ctx.step(hang), ctx.signal('approval')])),
  workflow('family', ({ n }, ctx) => ctx.child(sum, { numbers: [n, n] })),
  workflow('remote', ({ x }, ctx) => ctx.step('far', { x }, { queue: 'elsewhere' })),
  workflow('undo', (_, ctx) => undoing(ctx, () => ctx.signal('never'))),
  workflow('undo_step', (_, ctx) => undoing(ctx, () => ctx.step(hang))),
];

await new Worker(process.env.ONWARD_URL, {
  queues: ['protocol'],
  steps: [add, fail, flaky, hang, show, block],
  workflows,
  drain: '1s',
  log: process.env.VERBOSE ? undefined : () => {},
}).run();

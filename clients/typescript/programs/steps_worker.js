// Workflows of steps that only add one, for benchmarks. Prints "ready" once the worker has joined.

import { Worker, step, workflow } from '../src/index.js';

const add = step('add', async ({ n }) => n + 1);

const count = workflow('count', async ({ steps }, ctx) => {
  let n = 0;
  for (let nth = 0; nth < steps; nth++) n = await ctx.step(add, { n });
  return n;
});

await new Worker(undefined, {
  queues: ['node'],
  workflows: [count],
  steps: [add],
  slots: Number(process.env.SLOTS ?? 1000),
}).run({ onReady: () => console.log('ready') });

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import test from 'node:test';

/** Send SIGTERM to a process with a worker and a step that never ends, and return what it printed. */
async function stopped(code) {
  const source = `
    import { Worker } from './src/index.js';
    import { beginAttempt } from './src/attempt.js';
    ${code}
    const definition = { name: 'stuck', fn: () => new Promise(() => {}) };
    beginAttempt({ definition, run: { id: 'r' }, attempt: 1, timeout: 3_600_000_000, report: () => {} });
    setInterval(() => {}, 60_000);
    const worker = new Worker('onward://localhost:1', { log: (event) => console.log(event) });
    worker.run().then(() => console.log('run returned'));
    setTimeout(() => process.kill(process.pid, 'SIGTERM'), 100);
  `;
  const child = spawn('node', ['--input-type=module', '-e', source], { stdio: ['ignore', 'pipe', 'inherit'], timeout: 30_000 });
  let printed = '';
  child.stdout.on('data', (data) => (printed += data));
  const [status] = await once(child, 'close');
  return { status, printed };
}

test('a step that ignores its signal does not keep a stopped process alive', async () => {
  const { status, printed } = await stopped('');
  assert.equal(status, 0);
  assert.match(printed, /run returned\n(.*\n)*worker.exits/);
});

for (const add of ['on', 'once']) {
  test(`a process whose code handles the signal with ${add} is not ended by the worker`, async () => {
    const { status, printed } = await stopped(`
      process.${add}('SIGTERM', () => setTimeout(() => { console.log('clean end'); process.exit(7); }, 4000));
    `);
    assert.deepEqual([status, printed.includes('clean end'), printed.includes('worker.exits')], [7, true, false]);
  });
}

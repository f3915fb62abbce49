import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';

import grpc from '@grpc/grpc-js';

import { Connection } from '../src/connection.js';
import { Worker, step, workflow } from '../src/index.js';
import { readUrl, workersClient } from '../src/wire.js';

const WELCOME = { server: 'test', max_commits: 10 };

/** Serve `Work` with a function of each request and its stream, and the number of the stream; return the URL. */
async function serve(t, onRequest) {
  const server = new grpc.Server();
  let streams = 0;
  server.addService(workersClient().service, {
    Work(stream) {
      const nth = (streams += 1);
      stream.on('error', () => {});
      stream.on('data', (request) => onRequest(request, stream, nth));
    },
    Renew: (_, answer) => answer(null, { is_kept: true }),
  });
  const port = await new Promise((resolve, reject) => {
    const bound = (error, found) => (error ? reject(error) : resolve(found));
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), bound);
  });
  t.after(() => server.forceShutdown());
  return `onward://127.0.0.1:${port}`;
}

function connectionTo(t, url, events = []) {
  const log = (event, fields) => events.push({ event, ...fields });
  const hooks = { log, held: () => ({}), onNews() {}, onReconnect() {}, onLeaseLost() {}, onFailed() {} };
  const connection = new Connection(readUrl(url), {}, { protocol: 1 }, hooks);
  t.after(() => connection.close());
  return connection;
}

async function until(isTrue, what) {
  const end = Date.now() + 10_000;
  while (!isTrue()) {
    if (Date.now() > end) assert.fail(`it did not happen: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

test('an outage is logged in words, and again after a while', async (t) => {
  let ahead = 0;
  const real = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => real() + ahead);
  const events = [];
  connectionTo(t, 'onward://127.0.0.1:1', events).open().catch(() => {});
  await until(() => events.length === 1, 'the first event');
  assert.equal(events[0].event, 'worker.disconnected');
  assert.match(events[0].error, /ECONNREFUSED/);
  assert.equal(events[0].server, '127.0.0.1:1');
  await new Promise((resolve) => setTimeout(resolve, 500));
  assert.equal(events.length, 1);
  ahead = 31_000;
  await until(() => events.length === 2, 'a second event');
  assert.ok(events[1].tries > 2);
});

test('a worker that the server refuses gets an error of one line', async (t) => {
  const url = await serve(t, (_, stream) => {
    const metadata = new grpc.Metadata();
    metadata.set('onward-problem-bin', Buffer.from('bytes'));
    stream.emit('error', { code: grpc.status.UNAUTHENTICATED, details: 'the key was revoked', metadata });
  });
  const error = await connectionTo(t, url).open().catch((failed) => failed);
  assert.equal(inspect(error).replace(/^\[|\]$/g, ''), 'Refused: the server refused this worker: the key was revoked');
});

test('a problem that answers the first request is an error of one line', async (t) => {
  const problem = { code: 'bad_input', message: 'the queue is not allowed' };
  const url = await serve(t, ({ id }, stream) => stream.write({ id, problem }));
  const error = await connectionTo(t, url).open().catch((failed) => failed);
  assert.match(inspect(error), /^\[?Refused: .*the queue is not allowed\]?$/);
});

test('the clock follows responses, not the times of commits that were written before', async (t) => {
  const later = 2_000_000_000_000_000;
  const url = await serve(t, ({ id, request, commits }, stream) => {
    if (request === 'hello') stream.write({ id, at: later, hello: WELCOME });
    if (request !== 'commits') return;
    const others = commits.commits.map(({ no }) => ({ no, fate: 'done', at: 1000 }));
    stream.write({ id, at: later + 1_000_000, commits: { done: [], others } });
  });
  const connection = connectionTo(t, url);
  await connection.open();
  assert.deepEqual(await connection.commit({ run: 'r', fence: 1 }), { fate: 'done', at: 1000 });
  assert.ok(connection.now() >= later + 1_000_000);
});

for (const isLost of [true, false]) {
  test(`a run ${isLost ? 'lost' : 'kept'} while its history is read ${isLost ? 'does not begin' : 'begins'}`, async (t) => {
    let held;
    let isLoaded = false;
    let isClaimed = false;
    const run = { uid: 'u1', id: 'r1', name: 'step pay', kind: 'step', fence: 2, input: Buffer.from('json:{}') };
    const url = await serve(t, ({ id, request, hello, load }, stream, nth) => {
      if (request === 'hello') {
        if (nth > 1) held = hello.held;
        stream.write({ id, at: 1, hello: { ...WELCOME, lost: nth > 1 && isLost ? ['u1'] : [] } });
      } else if (request === 'claim' && !isClaimed) {
        isClaimed = true;
        stream.write({ id, at: 1, claim: { runs: [run] } });
      } else if (request === 'load' && nth === 1) {
        stream.emit('error', { code: grpc.status.UNAVAILABLE, details: 'it broke' });
      } else if (request === 'load') {
        isLoaded = true;
        stream.write({ id, at: 1, load: { runs: load.histories.map((uid) => ({ run: uid })) } });
      } else if (request === 'audit' || request === 'leave') stream.write({ id, at: 1, [request]: {} });
    });
    let calls = 0;
    const pay = step('pay', () => (calls += 1));
    const worker = new Worker(url, { steps: [pay], log() {}, drain: '10ms' });
    const running = worker.run({ handleSignals: false });
    await until(() => isLoaded, 'the history is read');
    if (!isLost) await until(() => calls === 1, 'the step runs');
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.deepEqual(held, { u1: 2 });
    assert.equal(calls, isLost ? 0 : 1);
    worker.stop();
    await running;
  });
}

test('news of a run that arrives while its history is read is read once the run has begun', async (t) => {
  const run = { uid: 'u1', id: 'r1', name: 'step pay', kind: 'step', fence: 2, input: Buffer.from('json:{}') };
  const inboxes = [];
  let isClaimed = false;
  const url = await serve(t, ({ id, request, load }, stream) => {
    if (request === 'hello') stream.write({ id, at: 1, hello: WELCOME });
    else if (request === 'claim' && !isClaimed) {
      isClaimed = true;
      stream.write({ id, at: 1, claim: { runs: [run] } });
    } else if (request === 'load') {
      inboxes.push(Object.keys(load.inboxes));
      if (inboxes.length === 1) stream.write({ id: 0, news: { runs: ['u1'] } });
      stream.write({ id, at: 1, load: { runs: load.histories.map((uid) => ({ run: uid })) } });
    } else if (request === 'owned') stream.write({ id, at: 1, owned: { runs: { u1: 2 } } });
    else if (request === 'audit' || request === 'leave') stream.write({ id, at: 1, [request]: {} });
  });
  const pay = step('pay', () => new Promise(() => {}));
  const worker = new Worker(url, { steps: [pay], log() {}, drain: '10ms' });
  const running = worker.run({ handleSignals: false });
  await until(() => inboxes.length === 2, 'the inbox of the run is read');
  assert.deepEqual(inboxes, [[], ['u1']]);
  worker.stop();
  await running;
});

test('a slot that becomes free during an audit is used', async (t) => {
  const run = { uid: 'u1', id: 'r1', name: 'trivial', kind: 'workflow', fence: 1, input: Buffer.from('json:{}') };
  let claims = 0;
  let hold;
  const url = await serve(t, ({ id, request, commits }, stream) => {
    if (request === 'hello') stream.write({ id, at: 1, hello: WELCOME });
    else if (request === 'claim') {
      claims += 1;
      if (claims === 1) stream.write({ id, at: 1, claim: { runs: [run], was_repeated: true } });
    } else if (request === 'commits') hold = () => stream.write({ at: 1, commits: { done: commits.commits.map(({ no }) => no) } });
    else if (request === 'audit') {
      until(() => hold !== undefined, 'the end of the run')
        .then(() => hold())
        .then(() => setTimeout(() => stream.write({ id, at: 1, audit: {} }), 50));
    } else if (request === 'leave') stream.write({ id, at: 1, leave: {} });
  });
  const worker = new Worker(url, { workflows: [workflow('trivial', async () => 1)], slots: 1, log() {}, drain: '10ms' });
  const running = worker.run({ handleSignals: false });
  t.after(async () => {
    worker.stop();
    await running;
  });
  await until(() => claims === 2, 'a second claim');
});

const REFUSED = { code: 'bad_input', message: 'the frame has too many commits' };

test('a problem with the id of a frame fails the commits of that frame', { timeout: 10_000 }, async (t) => {
  let isFirst = true;
  const url = await serve(t, ({ id, request, commits }, stream) => {
    if (request === 'hello') stream.write({ id, at: 1, hello: WELCOME });
    if (request !== 'commits') return;
    if (isFirst) stream.write({ id, problem: REFUSED });
    else stream.write({ at: 2, commits: { done: commits.commits.map(({ no }) => no) } });
    isFirst = false;
  });
  const connection = connectionTo(t, url);
  await connection.open();
  const outcomes = await Promise.all([connection.commit({ run: 'a', fence: 1 }), connection.commit({ run: 'b', fence: 1 })]);
  assert.deepEqual(outcomes.map(({ fate, problem }) => [fate, problem.code]), [['failed', 'bad_input'], ['failed', 'bad_input']]);
  assert.equal((await connection.commit({ run: 'a', fence: 1 })).fate, 'done');
});

test('a frame that is refused for now is sent again in its order, on a new stream', { timeout: 10_000 }, async (t) => {
  const runs = [];
  const url = await serve(t, ({ id, request, commits }, stream, nth) => {
    if (request === 'hello') stream.write({ id, at: 1, hello: WELCOME });
    if (request !== 'commits') return;
    if (nth === 1) stream.write({ id, problem: { code: 'unavailable', message: 'busy', is_retryable: true } });
    else {
      runs.push(...commits.commits.map(({ run }) => run));
      stream.write({ at: 2, commits: { done: commits.commits.map(({ no }) => no) } });
    }
  });
  const connection = connectionTo(t, url);
  await connection.open();
  const outcomes = await Promise.all([connection.commit({ run: 'a', fence: 1 }), connection.commit({ run: 'b', fence: 1 })]);
  assert.deepEqual([runs, outcomes.map(({ fate }) => fate)], [['a', 'b'], ['done', 'done']]);
});

test('a problem without a request is logged', async (t) => {
  const url = await serve(t, ({ id }, stream) => {
    stream.write({ id, at: 1, hello: WELCOME });
    stream.write({ id: 0, problem: { code: 'internal', message: 'a frame cannot be read' } });
  });
  const events = [];
  await connectionTo(t, url, events).open();
  await until(() => events.length > 0, 'an event');
  assert.deepEqual(events, [{ event: 'worker.problem', code: 'internal', error: 'a frame cannot be read' }]);
});

test('a commit or request that no message can carry fails alone', { timeout: 10_000 }, async (t) => {
  let streams = 0;
  const url = await serve(t, ({ id, request, commits }, stream, nth) => {
    streams = nth;
    if (request === 'hello') stream.write({ id, at: 1, hello: WELCOME });
    if (request === 'commits') stream.write({ at: 2, commits: { done: commits.commits.map(({ no }) => no) } });
    if (request === 'audit') stream.write({ id, at: 2, audit: {} });
  });
  const connection = connectionTo(t, url);
  await connection.open();
  const large = Buffer.alloc(17 * 1024 * 1024);
  const waits = Array.from({ length: 300_000 }, (_, nth) => ({ identity: `:sleep#${nth}`, kind: 'timer', name: 'sleep', state: 'open' }));
  const given = [
    { run: 'a', fence: 1, move: { state: 'failed', error: large } },
    { run: 'b', fence: 1, move: { state: 'running' } },
    { run: 'c', fence: 1, records: waits },
  ];
  const outcomes = await Promise.all(given.map((commit) => connection.commit(commit)));
  assert.deepEqual(outcomes.map(({ fate }) => fate), ['failed', 'done', 'failed']);
  assert.equal(outcomes[0].problem.code, 'payload_too_large');
  const refused = await connection.request('retry', { end: { state: 'failed', error: large } }).catch((error) => error);
  assert.equal(refused.code, 'payload_too_large');
  await connection.request('audit', { known: [] });
  assert.equal(streams, 1);
});

test('an answer of more than 16 MiB is read, and its parts are joined', async (t) => {
  const payload = Buffer.alloc(12 * 1024 * 1024);
  const part = (seq) => ({ messages: [{ run: 'r', seq, payload }, { run: 'r', seq: seq + 1, payload }] });
  const url = await serve(t, ({ id, request }, stream) => {
    if (request === 'hello') stream.write({ id, at: 1, hello: WELCOME });
    if (request !== 'messages') return;
    stream.write({ id, more: true, messages: part(1) });
    stream.write({ id, messages: part(3) });
  });
  const connection = connectionTo(t, url);
  await connection.open();
  const answer = await Promise.race([
    connection.request('messages', { run: 'r', seqs: [1, 2, 3, 4] }),
    new Promise((resolve) => setTimeout(resolve, 5000, { messages: [] })),
  ]);
  assert.deepEqual(answer.messages.map(({ seq, payload: { length } }) => [seq, length]), [1, 2, 3, 4].map((seq) => [seq, payload.length]));
});

test('a step that ignores its signal does not keep a worker alive that was told to end', async (t) => {
  const run = { uid: 'u1', id: 'r1', name: 'step stubborn', kind: 'step', fence: 1, input: Buffer.from('json:{}') };
  let isClaimed = false;
  const url = await serve(t, ({ id, request, commits }, stream) => {
    if (request === 'hello') stream.write({ id, at: 1, hello: WELCOME });
    else if (request === 'claim' && !isClaimed) stream.write({ id, at: 1, claim: { runs: [run] } });
    else if (request === 'commits') stream.write({ at: 1, commits: { done: commits.commits.map(({ no }) => no) } });
    else if (request === 'leave' || request === 'report_draining') stream.write({ id, at: 1, [request]: {} });
    isClaimed ||= request === 'claim';
  });
  const source = `
    import { Worker, step } from ${JSON.stringify(new URL('../src/index.js', import.meta.url))};
    const stubborn = step('stubborn', () => new Promise(() => {
      setInterval(() => {}, 1000);
      console.log('begun');
    }));
    await new Worker(${JSON.stringify(url)}, { steps: [stubborn], drain: '10ms' }).run();
    console.log('cleaned up');
  `;
  const file = join(mkdtempSync(join(tmpdir(), 'onward-')), 'worker.mjs');
  writeFileSync(file, source);
  const child = spawn('node', [file]);
  t.after(() => child.kill('SIGKILL'));
  let said = '';
  child.stdout.on('data', (data) => {
    said += data;
    if (String(data).includes('begun')) child.kill('SIGTERM');
  });
  child.stderr.on('data', (data) => (said += data));
  let status;
  child.on('exit', (code) => (status = code));
  await until(() => status !== undefined, 'the process ends');
  assert.equal(status, 0, said);
  assert.match(said, /cleaned up\n[^]*worker\.exits: .*unfinished="stubborn"/);
});

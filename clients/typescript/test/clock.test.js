import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { delayedBy, isLate } from '../src/clock.js';
import { decode, encode } from '../src/codec.js';
import { step, workflow } from '../src/index.js';
import { Execution } from '../src/execution.js';
import { DatabaseTime, steady } from '../src/database_time.js';

const SECOND = 1_000_000;
const HOUR = 3600 * SECOND;
const START = 1_800_000_000 * SECOND;

/** A worker with one run, at a time that passes only as commits are written. */
class Host {
  records = [];
  moves = [];
  steps = new Map();
  workflows = new Map();

  constructor(at, claimed) {
    this.at = at;
    this.claimed = { uid: 'r', id: 'r', fence: 2, kind: 'workflow', name: 'w', queue: 'node', input: encode({}), started_at: START, ...claimed };
    this.connection = {
      commit: async ({ records = [], move }) => {
        this.records.push(...records);
        if (move !== undefined) this.moves.push(move);
        this.at += 1;
        await new Promise((resolve) => setTimeout(resolve, 2)); // the body goes on meanwhile
        return { fate: 'done', at: this.at };
      },
      request: async () => ({}),
    };
    this.over = new Promise((resolve) => {
      this.left = resolve;
    });
  }

  now() {
    return this.at;
  }

  latest() {
    return this.at;
  }

  log() {}

  takeProgress() {}

  /** Run a body until it leaves, and return its last move. */
  async run(body, history = []) {
    new Execution(this, this.claimed, workflow('w', body), history, []).begin();
    await this.over;
    return this.moves.at(-1);
  }

  get clocks() {
    return this.records.filter(({ kind }) => kind === 'clock');
  }
}

const add = step('add', async () => 1);

const cancelled = (at, grace) => ({
  identity: '=cancel',
  attempt: 1,
  seq: 1,
  kind: 'cancel',
  name: 'cancel',
  state: 'succeeded',
  payload: encode({ why: 'operator', grace }),
  closed_at: at,
});

async function undoing(_, ctx) {
  try {
    await ctx.signal('never');
  } finally {
    await ctx.step(add);
  }
}

test('a cleanup lasts longer by the time in which no worker had the run', async () => {
  const ready = START + SECOND;
  const host = new Host(START + 8 * SECOND, { claimed_at: START + 8 * SECOND, ready_at: ready });
  const move = await host.run(undoing, [cancelled(START, 5 * SECOND)]);
  assert.equal(move.state, 'cancelled');
  assert.deepEqual(
    host.records.map(({ identity, seq, kind, name, state }) => [identity, seq, kind, name, state]),
    [
      ['=clock.2', 2, 'clock', 'clock', 'succeeded'],
      [':add#1', 3, 'step', 'add', 'succeeded'],
    ],
  );
  assert.deepEqual(decode(host.clocks[0].payload), { since: ready, is_replayed: true });
});

test('a cleanup whose worker was there for all of its time ends', async () => {
  const at = START + 8 * SECOND;
  const host = new Host(at, { claimed_at: at, ready_at: at - SECOND / 2 });
  const move = await host.run(undoing, [cancelled(START, 5 * SECOND)]);
  assert.deepEqual([move.state, host.records], ['cancelled', []]);
});

test('a clock record in history delays the end of the cleanup in the next replay, too', async () => {
  const clock = { identity: '=clock.2', attempt: 1, seq: 2, kind: 'clock', name: 'clock', state: 'succeeded', closed_at: START + 8 * SECOND };
  const history = [cancelled(START, 5 * SECOND), { ...clock, payload: encode({ since: START + SECOND, is_replayed: true }) }];
  const at = START + 11 * SECOND; // the cleanup may take until 12 s
  const host = new Host(at, { claimed_at: at, ready_at: at });
  await host.run(undoing, history);
  assert.deepEqual(host.records.map(({ identity }) => identity), [':add#1']);
});

test('the time of a crash does not reset the number of crashes', async () => {
  const host = new Host(START + 8 * SECOND, { claimed_at: START + 8 * SECOND, ready_at: START, crashes: 1 });
  await host.run(undoing, [cancelled(START, 5 * SECOND)]);
  assert.deepEqual(host.moves.map(({ state }) => state), ['running', 'cancelled']);
  assert.equal(host.clocks.length, 1);
});

test('a timeout that is first asked for after an outage counts from a clock record', async () => {
  const done = { identity: ':add#1', attempt: 1, seq: 1, kind: 'step', name: 'add', state: 'succeeded', payload: encode(1), closed_at: START };
  const host = new Host(START + HOUR, {});
  const move = await host.run(
    async (_, ctx) => {
      await ctx.step(add);
      await ctx.signal('approval', { timeout: '3s' });
    },
    [{ ...done, args_hash: undefined }],
  );
  const [clock, wait] = host.records;
  assert.deepEqual([clock.identity, decode(clock.payload)], ['=clock.2', { since: START, is_replayed: true }]);
  assert.deepEqual([wait.kind, wait.state, wait.took], ['signal', 'open', 3 * SECOND]);
  assert.equal(wait.due, START + HOUR + 1 + 3 * SECOND);
  assert.deepEqual([move.state, move.due, move.seq], ['waiting', wait.due, 2]);
});

test('a sleep that was under way while the run got on keeps its due time after a crash', async () => {
  const done = { identity: '1:add#1', attempt: 1, seq: 1, kind: 'step', name: 'add', state: 'succeeded', payload: encode(1), closed_at: START + 10 };
  const host = new Host(START + HOUR, {});
  const move = await host.run((_, ctx) => ctx.all([(one) => one.sleep('2h'), (two) => two.step(add)]), [done]);
  assert.equal(host.clocks.length, 0);
  assert.equal(move.due, START + 2 * HOUR);
});

test('a wait that begins in time needs no clock record', async () => {
  const host = new Host(START + SECOND / 20, { fence: 1 });
  const move = await host.run((_, ctx) => ctx.sleep('100ms'));
  assert.deepEqual([host.clocks.length, move.due], [0, START + SECOND / 10]);
});

test('a live run whose answers come late begins its waits at a clock record', async () => {
  const host = new Host(START + 5 * SECOND, { fence: 1 });
  await host.run((_, ctx) => ctx.all([(one) => one.sleep('1h'), (two) => two.signal('s')]));
  assert.deepEqual(decode(host.clocks[0].payload), { since: START, is_replayed: false });
  assert.equal(host.moves.at(-1).due, START + 5 * SECOND + 1 + HOUR);
  assert.equal(host.clocks.length, 1);
});

test('the time of the database is known to a little less and a little more', () => {
  const time = new DatabaseTime();
  const now = steady();
  time.learn(START, now - 3 * SECOND);
  assert.ok(time.now() >= START && time.now() < START + SECOND);
  assert.ok(time.latest() >= START + 3 * SECOND);
  time.learn(START + HOUR, steady());
  assert.ok(time.now() >= START + HOUR && time.latest() < START + HOUR + SECOND);
  time.learn(START, now); // asked before the clock was set
  assert.ok(time.now() >= START + HOUR);
});

test('the rules of clock records are those of Python', () => {
  const page = readFileSync(new URL('../../../docs/protocol.md', import.meta.url), 'utf8');
  const vectors = JSON.parse(/^```json\n(\{\n  "fingerprints".*?)^```$/ms.exec(page)[1]);
  for (const { delay, since, now, is_replayed: isReplayed, late } of vectors.clock_records) {
    assert.equal(isLate(delay, since, now, isReplayed), late);
  }
  for (const { since, is_replayed: isReplayed, at, asked, is_timeout: isTimeout, later } of vectors.clock_delays) {
    assert.equal(delayedBy({ since, is_replayed: isReplayed }, at, asked, isTimeout), later);
  }
});

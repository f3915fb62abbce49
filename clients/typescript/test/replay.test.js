import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Replay } from '../src/replay.js';
import { Inbox, readEnd } from '../src/inbox.js';

const record = (identity, seq, kind, name, rest = {}) => ({ identity, attempt: 1, seq, kind, name, state: 'succeeded', at: seq ?? 0, ...rest });

test('results are handed over in the order of history, not in that of the calls', () => {
  const replay = new Replay([record(':b#1', 1, 'step', 'b'), record(':a#1', 2, 'step', 'a')]);
  replay.ask('', 'step', 'a');
  replay.ask('', 'step', 'b');
  const order = [replay.next(), replay.next()].map((turn) => turn.record.name);
  assert.deepEqual(order, ['b', 'a']);
});

test('a call that history does not have is held until history is read', () => {
  const replay = new Replay([record(':a#1', 1, 'step', 'a')]);
  assert.equal(replay.ask('', 'step', 'new').is, 'held');
  replay.ask('', 'step', 'a');
  assert.equal(replay.next().is, 'deliver');
  assert.deepEqual(replay.next(), { is: 'frontier', released: [':new#1'] });
  assert.equal(replay.ask('', 'step', 'later').is, 'fresh');
});

test('other arguments, kinds and forgotten children do not fit', () => {
  const replay = new Replay([record(':a#1', 1, 'step', 'a', { args_hash: 'x' }), record(':c#1', 2, 'child', 'c')]);
  assert.equal(replay.ask('', 'step', 'a', 'y').difference, 'arguments');
  assert.equal(replay.ask('', 'step', 'c').difference, 'kind');
  assert.equal(replay.unread().name, 'c');
});

test('a run that goes on past a recorded signal diverges', () => {
  const replay = new Replay([record(':s#1', 1, 'signal', 's')]);
  replay.ask('', 'step', 'new');
  assert.equal(replay.next().is, 'diverged');
});

test('an inbox knows each message once, and what holds the run', () => {
  const inbox = new Inbox({ inbox: 1, held_by: '' }, new Set([1]));
  const rows = [
    { seq: 1, message: 'a', kind: 'signal', name: 's' },
    { seq: 2, message: 'b', kind: 'signal', name: 's' },
    { seq: 3, message: 'c', kind: 'pause', name: 'p' },
  ];
  inbox.add(rows);
  inbox.add(rows);
  assert.equal(inbox.seen, 3);
  assert.equal(inbox.takeSignal('s').seq, 2);
  assert.equal(inbox.takeSignal('s'), undefined);
  assert.equal(inbox.isHeld, true);
  inbox.add([{ seq: 4, message: 'd', kind: 'resume', name: 'p' }]);
  assert.equal(inbox.isHeld, false);
});

test('the end of a child has a state, a reason, and data with line breaks', () => {
  const end = readEnd(Buffer.from('failed\nlogic\njson:{"a":\n1}'));
  assert.deepEqual([end.state, end.reason, end.data.toString()], ['failed', 'logic', 'json:{"a":\n1}']);
});

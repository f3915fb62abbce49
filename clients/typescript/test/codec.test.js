import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { decode, decodeError, encode, encodeError, fingerprint } from '../src/codec.js';
import { microseconds, shown } from '../src/durations.js';
import { BadInput, Fatal, RunFailed, StepFailed, TimedOut, Unencodable, errorFields } from '../src/errors.js';
import { Naming, childUid, escaped } from '../src/identity.js';
import { STEPS, decide, delayAfter, policyOf } from '../src/retry.js';

const PAGE = readFileSync(new URL('../../../docs/protocol.md', import.meta.url), 'utf8');
const VECTORS = JSON.parse(/^```json\n(\{\n  "fingerprints".*?)^```$/ms.exec(PAGE)[1]);

for (const { value, fingerprint: wanted } of VECTORS.fingerprints) {
  test(`the fingerprint of ${JSON.stringify(value).slice(0, 40)} is that of Python`, () => {
    assert.equal(fingerprint(value), wanted);
  });
}

test('child uids are those of Python', () => {
  for (const { parent, identity, asked_at: at, uid } of VECTORS.child_uids) assert.equal(childUid(parent, identity, at), uid);
});

test('identities are those of Python', () => {
  for (const { text, escaped: wanted } of VECTORS.escapes) assert.equal(escaped(text), wanted);
});

test('calls are numbered by branch and name', () => {
  const naming = new Naming();
  const branch = naming.branch('');
  const made = [naming.call('', 'add'), naming.call('', 'add'), naming.call(branch, 'add'), naming.branch(branch)];
  assert.deepEqual(made, [':add#1', ':add#2', '0:add#1', '0.0']);
});

test('errors of Python come back with type, bases and cause', () => {
  for (const { payload, type, message } of VECTORS.errors) {
    const error = decodeError(Buffer.from(payload));
    if (type.endsWith('TimedOut')) assert.ok(error instanceof TimedOut);
    else assert.deepEqual([error.type, error.message], [type, message]);
  }
});

test('an error keeps its type, its bases and its cause', () => {
  class OutOfStock extends Fatal {}
  const error = decodeError(encodeError(new OutOfStock('no tea', { cause: new RangeError('0 left') })));
  assert.ok(error.isA('OutOfStock') && error.isA('Fatal'));
  assert.equal(error.message, 'no tea');
  assert.equal(error.cause.type, 'RangeError');
});

test('the frames of an error end with a newline, so that a message can follow', () => {
  const { traceback } = decode(encodeError(new RangeError('negative amount')));
  assert.match(traceback, /^    at .*\n$/s);
});

test('a log event shows type, message and frames of an error and of its causes', () => {
  const { error, message, stack } = errorFields(new RangeError('negative amount', { cause: new TypeError('no text') }));
  assert.deepEqual([error, message], ['RangeError', 'negative amount']);
  assert.match(stack, /^    at .*\nCaused by TypeError: no text\n    at .*\n$/s);
  assert.deepEqual(errorFields('thrown'), { error: 'Error', message: 'thrown', stack: '' });
});

test('errors of Onward come back as themselves', () => {
  assert.ok(decodeError(encodeError(new TimedOut('step', '1s'))) instanceof TimedOut);
  assert.equal(decodeError(encodeError(new RunFailed('r', 'logic', 'x'))).run, 'r');
});

test('payloads have a tag, and nothing in them is changed silently', () => {
  assert.equal(encode({ a: [1, null] }).toString(), 'json:{"a":[1,null]}');
  assert.equal(encode(undefined).toString(), 'json:null');
  assert.deepEqual(decode(encode({ a: 'é😀' })), { a: 'é😀' });
  for (const value of [NaN, { a: Infinity }, [1n], () => 1, 'half \ud800']) assert.throws(() => encode(value), Unencodable);
  assert.throws(() => encode('x'.repeat(3_000_000)), Unencodable);
  assert.throws(() => decode(Buffer.from('zstd:x')), /codec tag is "zstd"/);
});

test('durations are seconds or texts', () => {
  assert.equal(microseconds(1.5), 1_500_000);
  assert.equal(microseconds('1h 30m'), 5_400_000_000);
  assert.equal(shown(5_400_000_000), '1h 30m');
  for (const wrong of ['', 'soon', -1, NaN, '1x']) assert.throws(() => microseconds(wrong), /not valid/);
});

test('a policy decides by type, attempts and time', () => {
  assert.equal(decide(STEPS, 1, new Error('x'), 0, 0), 1_000_000);
  assert.equal(decide(STEPS, 3, new Error('x')), null);
  assert.equal(decide(STEPS, 1, new Fatal('x')), null);
  assert.equal(decide(policyOf({ only: TypeError }), 1, new Error('x')), null);
  assert.notEqual(decide(policyOf({ only: TypeError }), 1, new TypeError('x')), null);
  assert.equal(decide(policyOf({ never: 'TypeError' }), 1, new TypeError('x')), null);
  assert.equal(decide(policyOf({ within: 1 }), 1, new Error('x'), 10), null);
  assert.equal(delayAfter(STEPS, 50, 0), 60_000_000);
  assert.throws(() => policyOf({ attempts: 0 }), /positive/);
});

test('text that only looks like half a character is stored as it is, and half a character is refused', () => {
  for (const text of ['{"smile": "\\ud83d\\ude00"}', '\\ud800', '\\\\ud800', 'C:\\udata\\udabc', '\u{1f600}']) {
    assert.equal(decode(encode(text)), text);
    assert.equal(decodeError(encodeError(new Error(text))).message, text);
    assert.deepEqual(decode(encode({ [text]: 1 })), { [text]: 1 });
  }
  for (const text of ['\ud83d', '\\\ud83d', '\ude00 \ud83d']) {
    assert.throws(() => encode({ a: [text] }), Unencodable);
    assert.throws(() => encode({ [text]: 1 }), Unencodable);
    assert.equal(decodeError(encodeError(new Error(text))).message, text.replace(/[\ud800-\udfff]/g, '?'));
  }
});

test('a retry policy that Python would refuse is refused', () => {
  const bad = [{ delay: '2m' }, { factor: 0.5 }, { factor: NaN }, { factor: '2' }, { jitter: -1 }, { jitter: 2 }, { jitter: NaN }, { within: 0 }];
  for (const given of bad) assert.throws(() => policyOf(given), BadInput, JSON.stringify(given));
  assert.equal(policyOf({ delay: '2m', maxDelay: '2m' }).delay, 120_000_000);
});

test('the wait after any attempt is a number', () => {
  for (const policy of [policyOf({ delay: 0 }), policyOf({ delay: '1us', factor: 10 })]) {
    const waits = [1, 2, 1_025, 100_000].map((attempt) => delayAfter(policy, attempt, 0.5));
    assert.ok(waits.every(Number.isFinite), String(waits));
  }
  assert.equal(delayAfter(policyOf({ delay: 0 }), 1_025, 0.5), 0);
});

test('a value that JSON would lose is refused, and not only emptied', () => {
  const circle = {};
  circle.self = circle;
  const lost = [new Map([['a', 1]]), new Set([1]), Promise.resolve(1), new WeakMap(), new ArrayBuffer(2), circle, new Date(NaN)];
  for (const value of lost) {
    assert.throws(() => encode(value), Unencodable);
    assert.throws(() => encode({ deep: [value] }), Unencodable);
    assert.throws(() => fingerprint({ value }), Unencodable);
  }
  class Point {
    x = 1;
  }
  assert.deepEqual(decode(encode([new Date(0), new Point()])), ['1970-01-01T00:00:00.000Z', { x: 1 }]);
});

// Values to payloads and back: JSON with the tag of its codec in front (`json:[1]`), and fingerprints of values.

import { blake2b16 } from './blake2b.js';
import { HALF, Unencodable, Unreadable, errorFromJson, errorToJson } from './errors.js';

export const MAX_PAYLOAD = 2 * 1024 * 1024;

export const TAG = 'json:';

function refused(what, fact) {
  const advice = 'Pass plain data: null, booleans, finite numbers, strings, arrays or objects.';
  return new Unencodable(`${what} ${fact}. ${advice}`);
}

/** Objects whose content JSON does not see: it would write them as `{}`. A promise among them was not awaited. */
const OPAQUE = [Map, Set, WeakMap, WeakSet, WeakRef, Promise, ArrayBuffer, SharedArrayBuffer];

function checked(item, what) {
  const kind = typeof item;
  if (kind === 'number' && !Number.isFinite(item)) throw refused(what, `contains ${item}`);
  if (kind === 'bigint' || kind === 'function' || kind === 'symbol') throw refused(what, `contains a ${kind}`);
  const opaque = kind === 'object' && item !== null && OPAQUE.find((each) => item instanceof each);
  if (opaque) throw refused(what, `contains a ${opaque.name}`);
  return item;
}

function write(value, what) {
  let text;
  try {
    text = JSON.stringify(value, function check(key, item) {
      if (item === null && this[key] instanceof Date) throw refused(what, 'contains an invalid Date');
      return checked(item, what);
    });
  } catch (error) {
    if (error instanceof TypeError && /^Converting circular/.test(error.message)) throw refused(what, 'contains itself');
    throw error;
  }
  if (text === undefined) return 'null';
  if (HALF.test(text)) throw refused(what, 'contains a lone surrogate, which is half a character');
  return text;
}

/**
 * Return a value as a payload.
 * @param {unknown} value
 * @param {string} what  What an error calls the value.
 * @returns {Buffer}
 */
export function encode(value, what = 'the value') {
  const payload = Buffer.from(TAG + write(value, what));
  if (payload.length - TAG.length > MAX_PAYLOAD) {
    const fact = `is ${payload.length} bytes when encoded; the limit is ${MAX_PAYLOAD}`;
    throw new Unencodable(`${what} ${fact}. Keep the data elsewhere and pass a reference to it.`);
  }
  return payload;
}

/**
 * Return the value in a payload.
 * @param {Buffer | undefined} payload
 */
export function decode(payload, what = 'a stored value') {
  const text = payload?.toString() ?? '';
  if (!text.startsWith(TAG)) {
    throw new Unreadable(`${what} cannot be read: its codec tag is ${JSON.stringify(text.split(':')[0].slice(0, 80))}`);
  }
  return JSON.parse(text.slice(TAG.length));
}

export function encodeError(error) {
  return Buffer.from(TAG + errorToJson(error));
}

export function decodeError(payload) {
  return errorFromJson(decode(payload, 'a stored error'));
}

function byCodePoint(one, other) {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

function sortedKeys(value) {
  const keys = Object.keys(value);
  // JavaScript compares halves of characters: that differs from code points beyond the first 65,536.
  return keys.some((key) => /[\ud800-\udfff]/.test(key)) ? keys.sort(byCodePoint) : keys.sort();
}

function sortedText(value) {
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(sortedText).join(',')}]`;
  const entries = sortedKeys(value).map((key) => `${JSON.stringify(key)}:${sortedText(value[key])}`);
  return `{${entries.join(',')}}`;
}

/** Return the JSON of a value with sorted keys and without spaces. */
export function canonical(value) {
  return sortedText(JSON.parse(write(value, 'the value')));
}

/** Return the fingerprint of a value: equal for equal values, in every process and every language. */
export function fingerprint(value) {
  return blake2b16(Buffer.from(canonical(value)));
}

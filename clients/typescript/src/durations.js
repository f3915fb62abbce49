// Lengths of time: numbers of seconds, or texts such as '1h 30m'. Inside the worker all are microseconds.

import { BadInput } from './errors.js';

export const SECOND = 1_000_000;
export const MINUTE = 60 * SECOND;

const UNITS = {
  us: 1,
  ms: 1_000,
  s: SECOND,
  m: MINUTE,
  h: 60 * MINUTE,
  d: 24 * 60 * MINUTE,
  w: 7 * 24 * 60 * MINUTE,
};
/** What Python and the server take of a length of time: a thousand years. */
export const MAX_DURATION = 365_000 * UNITS.d;
const PART = /(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d|w)/y;

/**
 * Return a length of time in microseconds.
 * @param {import('../index.js').Duration} given
 * @returns {number}
 */
export function microseconds(given) {
  const length = lengthOf(given);
  if (length === null) {
    throw new BadInput(`duration ${JSON.stringify(given)}`, 'is not valid', "Pass seconds, or a string such as '1h 30m'.");
  }
  if (length > MAX_DURATION) {
    throw new BadInput(`duration ${JSON.stringify(given)}`, 'is longer than a thousand years', 'Use a shorter one.');
  }
  return length;
}

function lengthOf(given) {
  if (typeof given === 'number') return Number.isFinite(given) && given >= 0 ? Math.round(given * SECOND) : null;
  return typeof given === 'string' ? parsed(given.trim()) : null;
}

function parsed(text) {
  let length = 0;
  PART.lastIndex = 0;
  while (PART.lastIndex < text.length) {
    const found = PART.exec(text);
    if (found === null) return null;
    length += Number(found[1]) * UNITS[found[2]];
    while (text[PART.lastIndex] === ' ') PART.lastIndex++;
  }
  return text === '' ? null : Math.round(length);
}

/** Return a length of time as people write it: `1h 30m`. */
export function shown(length) {
  const parts = [];
  let left = length;
  for (const unit of ['w', 'd', 'h', 'm', 's', 'ms', 'us']) {
    const count = Math.floor(left / UNITS[unit]);
    if (count > 0) parts.push(`${count}${unit}`);
    left -= count * UNITS[unit];
  }
  return parts.join(' ') || '0s';
}

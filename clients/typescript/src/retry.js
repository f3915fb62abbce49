// Retry policies: how often something is tried, how long between, and for which errors.

import { MINUTE, SECOND, microseconds, shown } from './durations.js';
import { BadInput, Fatal, Retryable, Unencodable, typesOf } from './errors.js';

/**
 * @typedef {object} Policy  As it is stored; times are microseconds.
 * @property {number | null} attempts
 * @property {number} delay
 * @property {number} factor
 * @property {number} max_delay
 * @property {number} jitter
 * @property {string[]} only
 * @property {string[]} never
 * @property {number | null} within
 */

/** @type {Policy} */
export const STEPS = {
  attempts: 3,
  delay: SECOND,
  factor: 2,
  max_delay: MINUTE,
  jitter: 0.1,
  only: [],
  never: [],
  within: null,
};

/** @returns {Policy} a policy as it is stored, in microseconds */
export function policyOf(given) {
  const policy = {
    attempts: given.attempts === undefined ? STEPS.attempts : given.attempts,
    delay: given.delay === undefined ? STEPS.delay : microseconds(given.delay),
    factor: given.factor ?? STEPS.factor,
    max_delay: given.maxDelay === undefined ? STEPS.max_delay : microseconds(given.maxDelay),
    jitter: given.jitter ?? STEPS.jitter,
    only: namesOf(given.only),
    never: namesOf(given.never),
    within: given.within === undefined ? null : microseconds(given.within),
  };
  if (policy.attempts !== null && !(Number.isInteger(policy.attempts) && policy.attempts > 0)) {
    throw new BadInput(`retry attempts=${policy.attempts}`, 'is not a positive whole number', 'Use 1 to try once.');
  }
  // The worker of a routed step may be in Python, which refuses to read any other policy.
  checkNumber('factor', policy.factor, 1, Number.MAX_VALUE);
  checkNumber('jitter', policy.jitter, 0, 1);
  if (policy.delay > policy.max_delay) {
    const fact = `is longer than maxDelay=${shown(policy.max_delay)}`;
    throw new BadInput(`retry delay=${shown(policy.delay)}`, fact, 'Raise maxDelay, or shorten delay.');
  }
  if (policy.within === 0) throw new BadInput('retry within=0', 'leaves no time for an attempt', 'Allow more time.');
  return policy;
}

function checkNumber(what, value, least, most) {
  if (typeof value === 'number' && least <= value && value <= most) return;
  const span = most === 1 ? `from ${least} to ${most}` : `of at least ${least}`;
  throw new BadInput(`retry ${what}=${value}`, `is not a number ${span}`, 'Use one, or leave the option out.');
}

function namesOf(given = []) {
  return [given].flat().map((kind) => (typeof kind === 'string' ? kind : typesOf(kind.prototype)[0]));
}

/** Return how long to wait after an attempt (from 1), in microseconds. */
export function delayAfter(policy, attempt, random) {
  const power = policy.delay === 0 ? 0 : policy.factor ** (attempt - 1); // it may be infinite
  const grown = Math.min(policy.max_delay, Math.round(policy.delay * power));
  return grown + Math.floor(grown * policy.jitter * random);
}

/**
 * Return after how many microseconds to try again after an attempt failed; null: not at all.
 * @param {Policy} policy
 */
export function decide(policy, attempt, error, elapsed = 0, random = Math.random()) {
  if (error instanceof Fatal || error instanceof Unencodable) return null;
  const names = typesOf(error);
  if (names.some((name) => name === 'onward.errors.Fatal' || policy.never.includes(name))) return null;
  const isListed = policy.only.length === 0 || names.some((name) => policy.only.includes(name));
  if (!isListed && !(error instanceof Retryable)) return null;
  if (policy.attempts !== null && attempt >= policy.attempts) return null;
  const after = delayOf(error) ?? delayAfter(policy, attempt, random);
  return policy.within !== null && elapsed + after >= policy.within ? null : after;
}

/** Return how long an error asks to wait; undefined if it does not say, or says what is no length of time. */
function delayOf(error) {
  if (!(error instanceof Retryable) || error.after === undefined) return undefined;
  try {
    return microseconds(error.after);
  } catch {
    return undefined; // such as the NaN of a header that is a date
  }
}

/** Return the policy and the time limit of a routed step, which the run that called it has set. */
export function readLimits(text) {
  const limits = text ? JSON.parse(text) : {};
  return { retry: limits.retry ?? null, timeout: limits.timeout ?? null };
}

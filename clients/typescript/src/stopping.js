// The request that a run stops: why, and how long the cleanup may take.

import { decode } from './codec.js';
import { MINUTE } from './durations.js';

const GRACE = MINUTE;

/** Return the request to stop that a message holds: why, and how long the cleanup may take. */
export function readStop(message) {
  const grace = message.payload === undefined ? GRACE : decode(message.payload);
  return { why: message.name || 'operator', grace };
}

/** Return until when the cleanup of a cancelled body may take, if a worker has the run all the time. */
export function graceEnds(record) {
  return record.at + decode(record.payload).grace;
}

/** Return the last move of a run that was told to stop. */
export function stopMove({ why }) {
  return { state: why === 'deadline' ? 'timed_out' : 'cancelled', reason: why };
}

// Clock records: from when the waits of a run count that comes to them late.
//
// For a body it is the time of the last record that it was handed. Mostly that is a moment ago. After a crash, a deploy
// or a pause it may be long ago, and a limit of three seconds that counts from there is over before it begins. So the
// worker first writes a clock record, and waits that are not in history count from that. A wait that is in history keeps
// its due time. `src/onward/core/replay/clock.py` has the same rules: a run must mean the same wherever it is read.

import { Call, TimedCall } from './calls.js';
import { decode, encode } from './codec.js';
import { SECOND } from './durations.js';

/** How late waits may begin without a clock record: at most, and in a live run at least. */
const LATE_MAX = SECOND;
const LATE_MIN = SECOND / 10;

/**
 * What a clock record is about: waits that were asked for at `since` or later. If history was read before, limits that
 * were asked for earlier count on from here, too, for nothing was done within them. Sleeps asked for earlier do not.
 * @typedef {{since: number, is_replayed: boolean}} LateStart
 */

/** Return whether a wait of this length needs a clock record to count from. */
export function isLate(delay, since, now, isReplayed) {
  const allowed = Math.min(Math.floor(delay / 4), LATE_MAX);
  return isAhead(since, now) || now - since > (isReplayed ? allowed : Math.max(allowed, LATE_MIN));
}

/** Return whether a clock that was ahead, and was set back since, wrote a time. */
export function isAhead(since, now) {
  return since - now > LATE_MAX;
}

/**
 * Return by how much a clock record of the time `at` puts off a wait that is not in history. It is negative if the wait
 * was asked for while the clock was ahead, and that was set back.
 * @param {LateStart} start
 */
export function delayedBy(start, at, askedAt, isLimit) {
  if (askedAt >= start.since) return at - askedAt;
  if (askedAt > at) return at - start.since; // by a clock that was ahead: what was left of it is left now
  return start.is_replayed && isLimit ? Math.max(0, at - start.since) : 0;
}

/**
 * Return since when no worker had a run that was cleaning up, if that was long.
 * @returns {LateStart | undefined}
 */
export function lateCleanup(claimed, records) {
  if (!records.some((record) => record.kind === 'cancel')) return undefined;
  const since = claimed.ready_at || Math.max(...records.map((record) => record.at));
  return claimed.claimed_at - since > LATE_MAX ? { since, is_replayed: true } : undefined;
}

/** A record of the time at which a run that is late begins its waits. */
export class ClockCall extends Call {
  /** @param {LateStart} start */
  constructor(start, position) {
    super('clock', 'clock');
    this.identity = `=clock.${position}`;
    this.payload = encode(start);
  }
}

/** Lets the waits of a body begin, once it is certain from when they count. */
export class BodyClock {
  /** How long no worker had the run, as clock records say; counted anew once it is to stop. */
  absent = 0;
  #held = [];
  #isReplayed;
  #isWritten = true;

  /** @param {boolean} isReplayed  Whether the body does again what was done before, so that it is late by now. */
  constructor(isReplayed) {
    this.#isReplayed = isReplayed;
  }

  /** Keep a wait until the body is quiet; waits begin in the order in which they were asked for. */
  hold(call, isReplayed) {
    this.#held.push(call);
    this.#isReplayed ||= isReplayed;
  }

  /**
   * Return the waits that begin now, or what the clock record is about that they need first.
   * @param {number} bodyNow  The time of the body.
   * @param {number} now  The database's time, or a little more: the answer to the last record may have come late.
   * @param {(call: Call) => boolean} isWanted
   * @returns {{waits: TimedCall[], late?: LateStart}}
   */
  begin(bodyNow, now, isWanted) {
    if (!this.#isWritten) return { waits: [] };
    this.#held = this.#held.filter(isWanted);
    const late = this.#held.filter((call) => this.#isLate(call, bodyNow, now)).map((call) => call.askedAt);
    if (late.length > 0) {
      this.#isWritten = false;
      const since = this.#isReplayed ? bodyNow : Math.min(...late);
      return { waits: [], late: { since, is_replayed: this.#isReplayed } };
    }
    const waits = this.#held;
    this.#held = [];
    this.#isReplayed = false;
    return { waits };
  }

  #isLate(call, bodyNow, now) {
    if (call.delay === null || call.isKept || call.isTimed) return false;
    if (!this.#isReplayed) return isLate(call.delay, call.askedAt, now, false);
    // A sleep that was under way while the run got on keeps its due time.
    if (call.askedAt < bodyNow && !call.isLimit && !isAhead(call.askedAt, now)) return false;
    return isLate(call.delay, bodyNow, now, true);
  }

  /** Let the waits that are not in history count from a clock record. */
  hear(record, calls) {
    const start = decode(record.payload, 'a clock record');
    const { at } = record;
    if (start.is_replayed) this.absent += at - start.since;
    for (const call of calls) {
      if (!(call instanceof TimedCall) || call.delay === null || call.isKept) continue;
      const later = delayedBy(start, at, call.askedAt, call.isLimit);
      if (later !== 0) call.putOff(later, at);
      if (call.askedAt >= start.since || call.askedAt > at) call.askedAt += later;
    }
    for (const call of this.#held) call.isTimed = true; // once is enough, however long it took to write the record
    this.#isWritten = true;
  }
}

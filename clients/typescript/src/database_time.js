// The database's time, as a worker knows it between two answers.
//
// An answer says what time it was at some moment between its request and its arrival, so it bounds how far the
// database's clock is from the steady one of this machine. What was believed stays while it is within those bounds; if
// it is not, the worker follows, forward and back.

/** The steady clock of this machine, in microseconds. */
export function steady() {
  return Math.floor(performance.now() * 1000);
}

export class DatabaseTime {
  #ahead = null;
  #aheadMax = 0;
  #followedAt = 0;

  /** The database's time in microseconds, or a little less. */
  now() {
    return this.#ahead === null ? Date.now() * 1000 : steady() + this.#ahead;
  }

  /** The database's time, or a little more. */
  latest() {
    return this.#ahead === null ? Date.now() * 1000 : steady() + this.#aheadMax;
  }

  /** Learn from an answer that arrives now: the database's time, and when it was asked for by the steady clock. */
  learn(at, asked) {
    const now = steady();
    const [lowest, highest] = [at - now, at - asked];
    if (this.#ahead === null) {
      this.#ahead = lowest;
      this.#aheadMax = highest;
      return;
    }
    if (asked < this.#followedAt) return; // it may be from before the clock was set
    const isSet = lowest > this.#aheadMax || highest < this.#ahead;
    this.#aheadMax = isSet ? highest : Math.min(this.#aheadMax, highest);
    if (lowest <= this.#ahead && this.#ahead <= highest) return;
    this.#ahead = lowest;
    this.#followedAt = now;
  }
}

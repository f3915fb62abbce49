// The messages of one run: which of them are not taken yet, and what holds the run.

/** Return what holds a run after a message, each source once. */
function heldAfter(sources, kind, source) {
  const left = sources.filter((each) => each !== source);
  return kind === 'pause' ? [...left, source] : left;
}

export class Inbox {
  /** The number of the last message that was read. */
  seen;
  /** Signals that no wait has taken, in the order of their numbers. */
  signals = [];
  /** Ends of children, by the identity of the call that started them. */
  ends = new Map();
  /** The message that the run is to stop, until it is taken. */
  cancel = null;
  /** Whether the run was ever told to stop. */
  isStopping = false;
  /** The runs whose pauses hold this one. */
  heldBy;
  #taken;
  #heldAt;

  /**
   * @param claimed  The claim: its `held_by` counts messages up to its `inbox`.
   * @param {Set<number>} taken  The numbers of messages that history has.
   */
  constructor(claimed, taken) {
    this.seen = claimed.inbox ?? 0;
    this.heldBy = (claimed.held_by ?? '').split(' ').filter(Boolean);
    this.#heldAt = this.seen;
    this.#taken = taken;
  }

  /** Add the messages that a claim was answered with: all that history has not taken. */
  begin(rows) {
    for (const row of rows) {
      this.seen = Math.max(this.seen, row.seq);
      this.#sort(row);
    }
  }

  /** Add messages; those that are known already change nothing. */
  add(rows, counted = 0) {
    for (const row of rows) {
      if (row.seq <= this.seen) continue;
      this.seen = row.seq;
      this.#sort(row);
    }
    this.seen = Math.max(this.seen, counted);
  }

  #sort(row) {
    if (this.#taken.has(row.seq)) return;
    if (row.kind === 'signal') {
      if (!this.signals.some((each) => each.message === row.message)) this.signals.push(row);
    } else if (row.kind === 'child') this.ends.set(row.name, row);
    else if (row.kind === 'cancel') {
      this.cancel ??= row;
      this.isStopping = true;
    } else if ((row.kind === 'pause' || row.kind === 'resume') && row.seq > this.#heldAt) {
      this.heldBy = heldAfter(this.heldBy, row.kind, row.name);
    }
  }

  /** Take the message that the run is to stop, if there is one. */
  takeCancel() {
    const { cancel } = this;
    this.cancel = null;
    return cancel;
  }

  /** Return the first signal of a name that no wait has taken, and take it. */
  takeSignal(name) {
    const at = this.signals.findIndex((row) => row.name === name);
    return at < 0 ? undefined : this.signals.splice(at, 1)[0];
  }

  get isHeld() {
    return this.heldBy.length > 0 && !this.isStopping;
  }
}

/** Return the end of a child in the payload of the message to its parent. */
export function readEnd(payload) {
  const first = payload.indexOf(10);
  const second = payload.indexOf(10, first + 1);
  return {
    state: payload.subarray(0, first).toString(),
    reason: payload.subarray(first + 1, second).toString(),
    data: payload.subarray(second + 1),
  };
}

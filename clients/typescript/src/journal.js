// What the owner of a run writes: commits under the fence of its claim, whose outcomes are taken in order.

/** Writes for one run. */
export class Journal {
  /** How many commits are under way. */
  writing = 0;
  #connection;
  #claimed;
  #crashes;
  #version;
  #hooks;
  #tail = Promise.resolve();
  #then = null;

  /** @param hooks  `lost()`: the run is another's; `broken(error)`: the server refused a commit. */
  constructor(connection, claimed, version, hooks) {
    this.#connection = connection;
    this.#claimed = claimed;
    this.#crashes = claimed.crashes ?? 0;
    this.#version = version;
    this.#hooks = hooks;
  }

  /** Return the record of a call. */
  row(call, state, seq, rest = {}) {
    return {
      identity: call.identity,
      attempt: call.attempt,
      seq,
      kind: call.kind,
      name: call.name,
      state,
      args_hash: call.argsHash,
      version: this.#version,
      ...rest,
    };
  }

  /**
   * Write records, a move of the run, and runs to start, all or nothing; then call `then` with the outcome.
   * The first commit after a crash says that the run got on, so that the crash counts no more; one of the time does not.
   */
  write({ records = [], move, starts = [] }, then) {
    if (this.#crashes > 0 && move === undefined && records[0]?.kind !== 'clock') {
      move = { state: 'running' };
      this.#crashes = 0;
    }
    this.writing += 1;
    const { uid: run, fence } = this.#claimed;
    const outcome = this.#connection.commit({ run, fence, records, move, starts });
    const before = this.#tail;
    this.#tail = (async () => {
      const answer = await outcome.catch(() => ({ fate: 'lost', at: 0 }));
      await before; // answers come in any order, but records are handed over in theirs
      this.writing -= 1;
      this.#answered(answer, then);
    })();
  }

  #answered(answer, then) {
    if (answer.fate === 'lost') this.#hooks.lost();
    else if (answer.fate !== 'failed') this.#written(answer, then);
    else if (answer.problem.isRetryable) this.#hooks.lost(); // what was written is not known: the next owner sees
    else this.#hooks.broken(answer.problem);
  }

  #written(answer, then) {
    then(answer);
    if (this.writing > 0 || this.#then === null) return;
    const after = this.#then;
    this.#then = null;
    after();
  }

  /** Call this once nothing is under way. */
  whenWritten(then) {
    if (this.writing > 0) this.#then = then;
    else then();
  }
}

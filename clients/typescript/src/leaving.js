// How a run leaves its worker: it waits, pauses, ends, is retried, or breaks.

import { decode, decodeError, encode, encodeError } from './codec.js';
import { Cancelled, Divergence, errorFields, typesOf } from './errors.js';
import { CANCEL_IDENTITY } from './identity.js';
import { decide } from './retry.js';
import { readStop, stopMove } from './stopping.js';

const NAME_BYTES = 200;

function clipped(text) {
  return Buffer.from(text).subarray(0, NAME_BYTES).toString().replace(/\ufffd$/, '');
}

/** Parks, pauses and ends one run. */
export class Leaving {
  #execution;
  #isBroken = false;

  constructor(execution) {
    this.#execution = execution;
  }

  /** Park the run; waits that are not in history are written in the same commit, unless something has arrived. */
  park(waits, move) {
    const execution = this.#execution;
    execution.stop();
    const opened = [...waits].filter((call) => !call.isKept && call.attempt === 1);
    const { journal } = execution;
    const records = opened.map((call) => journal.row(call, 'open', undefined, { due: call.due, took: call.lasts }));
    const written = { ...move, seq: execution.replay.last };
    journal.write({ records, move: written }, ({ fate }) => {
      if (execution.isGone) return;
      if (fate === 'busy') execution.host.look(execution); // a message has arrived: read it first
      else execution.leave();
    });
  }

  /** Pause a run whose code does not fit its history until other code is deployed. */
  pause() {
    const execution = this.#execution;
    const stop = this.#unreceivedStop();
    const error = divergence(execution.diverged);
    execution.host.log('run.diverged', { run: execution.claimed.id, call: error.step });
    if (stop !== null) {
      this.end({ ...stopMove(stop), error: encodeError(error) });
      return;
    }
    const { seen } = execution.inbox;
    const { code } = execution.program;
    this.park([], { state: 'paused', reason: 'divergence', error: encodeError(error), parked_by: code, seen });
  }

  #unreceivedStop() {
    const execution = this.#execution;
    const cancel = execution.inbox.takeCancel();
    if (cancel !== null) return readStop(cancel);
    const record = execution.replay.recordOf(CANCEL_IDENTITY);
    return record === undefined || execution.cancelled !== undefined ? null : decode(record.payload);
  }

  /** End a run whose body has ended. */
  finish() {
    const execution = this.#execution;
    const left = execution.replay.unread();
    if (left !== undefined) {
      execution.diverged = { is: 'diverged', recorded: left, asked: null, difference: 'unread' };
      this.pause();
      return;
    }
    this.end(this.#moveOf(execution.end));
  }

  #moveOf({ value, error }) {
    const execution = this.#execution;
    const isCancelled = execution.cancelled !== undefined;
    if (isCancelled && (error === undefined || error instanceof Cancelled)) {
      return stopMove(decode(execution.cancelled.payload));
    }
    if (error === undefined) {
      try {
        return { state: 'succeeded', result: encode(value, `the result of '${execution.program.name}'`) };
      } catch (refused) {
        return this.#failure(refused);
      }
    }
    return this.#failure(error);
  }

  #failure(error) {
    const type = clipped(typesOf(error)[0]);
    const move = { state: 'failed', reason: 'logic', error: encodeError(error), error_type: type };
    const failed = this.#failedCall(error);
    if (failed === undefined) return move;
    const { outcomes } = this.#execution;
    // Results that came after the failure, of calls made before it, are kept by a retry.
    const beside = outcomes.filter((each) => each.isGood && each.asked < failed.seq && each.seq >= failed.seq);
    const kept = [failed.identity, ...beside.map((each) => each.identity)];
    return { ...move, failed_call: JSON.stringify(kept), failed_step: clipped(failed.name) };
  }

  /** Return the call whose error ended the run: one in the chain of its causes, or else the last that failed. */
  #failedCall(error) {
    const { outcomes, origins } = this.#execution;
    const failed = outcomes.filter((each) => !each.isGood);
    for (let each = error; each instanceof Error; each = each.cause) {
      const identity = origins.get(each);
      if (identity !== undefined) return failed.find((outcome) => outcome.identity === identity);
    }
    return failed.at(-1);
  }

  /** End the run; a failed one is retried if its policy says so. */
  end(move) {
    const execution = this.#execution;
    execution.stop();
    const progress = execution.host.takeProgress(execution);
    const last = progress === undefined ? move : { ...move, progress };
    const delay = this.#retryDelay(last);
    if (delay === null) this.#endForGood(last);
    else this.#retry(last, delay);
  }

  #retryDelay(move) {
    const { claimed, inbox } = this.#execution;
    const isRetried = claimed.retry !== undefined && claimed.kind === 'workflow' && move.reason === 'logic';
    if (!isRetried || inbox.isStopping) return null;
    return decide(JSON.parse(claimed.retry), claimed.attempt, decodeError(move.error));
  }

  #retry(move, delay) {
    const execution = this.#execution;
    const policy = JSON.parse(execution.claimed.retry);
    const within = policy.within === null ? undefined : policy.within - delay;
    const retried = ({ fate }) => {
      if (fate === 'made') execution.leave();
      else if (fate === 'busy') execution.host.look(execution);
      else if (['late', 'undone', 'forked'].includes(fate)) this.#endForGood(move);
      else execution.drop();
    };
    execution.journal.whenWritten(() => {
      const end = { ...move, seq: execution.replay.last, seen: execution.inbox.seen };
      execution.ask('retry', { by: execution.owner(), end, delay, within }, retried);
    });
  }

  #endForGood(move) {
    const execution = this.#execution;
    const { journal, replay } = execution;
    const write = () => journal.write({ move: { ...move, seq: replay.last } }, () => execution.leave());
    // First, what is under way: it may start a child, and the move says which position of history is the last.
    journal.whenWritten(() => {
      const { childrenLeft } = execution;
      if (childrenLeft.length > 0) execution.dismiss(childrenLeft, write);
      else write();
    });
  }

  /** End a run whose body waits for something that is no call of its context. */
  endStuck() {
    const error = new Error(
      'no step, timer, signal or child can wake the workflow: it awaits something else. ' +
        'Await only calls to ctx methods; do everything else in a step.',
    );
    this.end(this.#failure(error));
  }

  /** End the run for an internal error: it must neither hang nor be tried again and again. */
  breakOff(error) {
    const execution = this.#execution;
    execution.host.log('run.broken', { run: execution.claimed.id, ...errorFields(error) });
    if (this.#isBroken) {
      execution.drop(); // not even the failure can be written
      return;
    }
    this.#isBroken = true;
    execution.stop();
    const type = clipped(typesOf(error)[0]);
    this.#endForGood({ state: 'failed', reason: 'internal', error: encodeError(error), error_type: type });
  }
}

function divergence({ is, error, recorded, asked, difference }) {
  if (is === 'unreadable') return new Divergence(`this version of the code cannot read a value of the run: ${error.message}`);
  const was = `${recorded.kind} '${recorded.name}' (${recorded.identity})`;
  let now = `, but the code now has ${asked?.kind} '${asked?.name}'`;
  if (asked === null) now = ', but the code ended without making this call';
  if (difference === 'arguments') now = ' with different arguments than the code passes now';
  const advice = 'Deploy code that matches the history, or fork or retry the run.';
  return new Divergence(`the history has ${was}${now}. ${advice}`, recorded.identity);
}

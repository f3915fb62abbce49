"""Faults to plant in a copy of the TypeScript worker, and the scenario that must find each."""

from typing import NamedTuple


class Fault(NamedTuple):
    """One change of the worker's source, and which rules the tester may name for it."""

    name: str
    file: str
    old: str
    new: str
    scenario: str
    rules: str


FAULTS = [
    Fault(
        "claims twice at a time", "session.js",
        "const claiming = this.#claimRuns();",
        "const claiming = this.#claimRuns(); this.#claimRuns();",
        "a_routed_step", "one-claim",
    ),
    Fault(
        "hands a result over before it is written", "execution.js",
        "const record = this.journal.row(call, state, this.replay.takePosition(), rest);",
        "const record = this.journal.row(call, state, this.replay.takePosition(), rest);"
        " this.replay.recorded({ ...record, at: this.host.now() }); this.pump();",
        "a_late_answer", "record-first",
    ),
    Fault(
        "parks without saying what it has seen", "execution.js",
        "due: this.#nextDue(), seen }", "due: this.#nextDue() }",
        "a_sleep", "seen",
    ),
    Fault(
        "parks without a due time", "execution.js",
        "due: this.#nextDue(), seen }", "seen }",
        "a_sleep", "park-due",
    ),
    Fault(
        "parks without writing its waits", "leaving.js",
        "!call.isKept && call.attempt === 1", "false",
        "a_signal", "waits-when-parked",
    ),
    Fault(
        "does not read the history of a run", "session.js",
        "run.fence > 1 || run.follows !== undefined", "run.follows !== undefined",
        "a_replay", "closed-once positions replay",
    ),
    Fault(
        "takes the first part of a reply for all of it", "connection.js",
        "if (response.more) return;", "",
        "a_history_in_parts", "parts closed-once positions replay",
    ),
    Fault(
        "does not compare arguments", "replay.js",
        "record.args_hash !== argsHash;", "false;",
        "other_code", "divergence",
    ),
    Fault(
        "parks though a message has come", "leaving.js",
        "if (fate === 'busy') execution.host.look(execution); // a message",
        "if (false) execution.host.look(execution); // a message",
        "a_message_while_it_parks", "busy",
    ),
    Fault(
        "goes on with a run that it has lost", "journal.js",
        "if (answer.fate === 'lost') this.#hooks.lost();",
        "if (answer.fate === 'lost') this.#written({ ...answer, fate: 'done' }, then);",
        "a_takeover", "lost",
    ),
    Fault(
        "forgets commits that were not answered", "connection.js",
        "this.#queue.unshift(...this.#sent.values());", "",
        "a_broken_stream", "resend",
    ),
    Fault(
        "sends commits again in another order", "connection.js",
        "this.#queue.unshift(...this.#sent.values());",
        "this.#queue.unshift(...[...this.#sent.values()].reverse());",
        "a_broken_stream_of_many", "resend commit-numbers",
    ),
    Fault(
        "reconnects without its runs", "connection.js",
        "held: this.#hooks.held() }", "held: {} }",
        "a_broken_stream", "reconnect",
    ),
    Fault(
        "joins again under its old id", "session.js",
        "${randomBytes(6).toString('hex')}", "always",
        "a_lost_lease", "lease-lost commit-numbers",
    ),
    Fault(
        "has another fingerprint", "blake2b.js",
        "h[0] ^= 0x01010000 ^ DIGEST_BYTES;", "h[0] ^= 0x01010000 ^ 64;",
        "a_routed_step", "fingerprints",
    ),
    Fault(
        "writes results without a tag", "attempt.js",
        "payload: encode(result, `the result of step '${definition.name}'`)",
        "payload: Buffer.from(JSON.stringify(result))",
        "a_routed_step", "payloads",
    ),
    Fault(
        "leaves out positions", "replay.js",
        "this.#taken += 1;", "this.#taken += 2;",
        "steps_in_a_row", "positions",
    ),
    Fault(
        "gives two calls one identity", "identity.js",
        "return `${first}#${nth}`;", "return first;",
        "steps_in_a_row", "closed-once identities",
    ),
    Fault(
        "does not clear crashes", "journal.js",
        "if (this.#crashes > 0 && move === undefined &&", "if (false &&",
        "crashes", "crashes",
    ),
    Fault(
        "does not count attempts", "steps.js",
        "call.attempt += 1;", "",
        "retries", "retries",
    ),
    Fault(
        "does not say which signal it took", "waits.js",
        "payload: row.payload, message: row.seq }", "payload: row.payload }",
        "a_signal", "signals",
    ),
    Fault(
        "records a child that it does not start", "execution.js",
        "write({ records: [record], starts }", "write({ records: [record] }",
        "a_child", "children",
    ),
    Fault(
        "ignores cancels", "execution.js",
        "if (this.inbox.cancel === null ||", "if (true ||",
        "a_cancel", "cancel park",
    ),
    Fault(
        "ignores pauses", "inbox.js",
        "return this.heldBy.length > 0 && !this.isStopping;", "return false;",
        "a_pause", "pauses",
    ),
    Fault(
        "begins steps while it drains", "execution.js",
        "this.isDraining = true;", "",
        "a_sigterm", "drain",
    ),
    Fault(
        "ignores the limit of unanswered commits", "connection.js",
        "&& this.#sent.size < this.#maxCommits", "",
        "many_commits", "max-commits",
    ),
    Fault(
        "does not extend a cleanup by an outage", "execution.js",
        "this.#lateCleanup = lateCleanup(claimed, records);", "",
        "a_cleanup_after_an_outage", "cancel clock-records",
    ),
    Fault(
        "counts a late timeout from the last record", "clock.js",
        "this.#held.filter((call) => this.#isLate(call, bodyNow, now))", "[]",
        "a_timeout_after_an_outage", "park clock-records",
    ),
    Fault(
        "drops a problem that refuses a frame", "connection.js",
        "if (kind === 'problem') this.#onRefusedFrame(", "if (false) this.#onRefusedFrame(",
        "a_refused_frame", "refused",
    ),
    Fault(
        "does not repeat a frame that was refused for now", "connection.js",
        "if (problem.isRetryable) this.#onBroken(this.#stream, problem);\n    else ", "",
        "a_frame_refused_for_now", "problems ends",
    ),
    Fault(
        "takes the first part of some messages for all of them", "connection.js",
        "if (response.more) return;", "",
        "large_messages_in_parts", "parts",
    ),
    Fault(
        "keeps runs that were taken away", "session.js",
        "if (!run.isStopped && owned[run.uid] !== run.fence) run.drop();", ";",
        "a_forced_end", "news lost",
    ),
]  # fmt: skip

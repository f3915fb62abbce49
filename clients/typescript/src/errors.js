// Errors, and how they are stored: as JSON that every language can read (docs/protocol.md, "Errors").

const MAX_MESSAGE = 8 * 1024;
const MAX_TRACEBACK = 16 * 1024;
const MAX_CHAIN = 10;
/** Half a character, as JSON.stringify writes it; after an odd number of backslashes it is text that looks like one. */
export const HALF = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/;
const HALVES = new RegExp(HALF, 'g');

/** Raise this in a step that must not be tried again, whatever its retry policy says. */
export class Fatal extends Error {}

/** Raise this in a step that should be tried again, if its retry policy has attempts left. */
export class Retryable extends Error {
  /**
   * @param {string} [message]
   * @param {{after?: import('../index.js').Duration, cause?: unknown}} [options]
   */
  constructor(message, options = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.after = options.after;
  }
}

/** A call, a value or an option is wrong. */
export class BadInput extends Error {
  constructor(what, fact, advice) {
    super(`${what} ${fact}. ${advice}`);
  }
}

/** A value is larger than the limit, or cannot be stored without being changed. */
export class Unencodable extends Error {}

/** A stored value has a format that this version does not know. */
export class Unreadable extends Error {}

/** An attempt at a step, or a wait, took longer than its timeout. */
export class TimedOut extends Error {
  constructor(what, limit) {
    super(`${what} took longer than ${limit}. Catch TimedOut, or allow more time.`);
    this.what = what;
    this.limit = limit;
  }
}

/** The run was cancelled, or its deadline has passed. Clean up, then let this error propagate. */
export class Cancelled extends Error {
  constructor(reason) {
    super(`the run was cancelled (${reason})`);
    this.reason = reason;
  }
}

/** Another branch of the same `ctx.all` failed, so this branch was abandoned. */
export class BranchAbandoned extends Error {
  constructor() {
    super('another branch failed, so this branch was abandoned');
  }
}

/** A step failed; the step can be written in any language. */
export class StepFailed extends Error {
  constructor(type, message, { traceback = '', bases = [], notes = [], data, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.type = type;
    this.traceback = traceback;
    this.bases = bases;
    this.notes = notes;
    this.data = data;
  }

  /** Return whether the error had this type, or a type that derives from it. */
  isA(name) {
    return [this.type, ...this.bases].some((known) => known === name || known.endsWith(`.${name}`));
  }
}

/** An awaited run failed; `cause` is the error that it raised, if known. */
export class RunFailed extends Error {
  constructor(run, reason, error, cause) {
    super(`run ${run} failed (${reason})${error ? `: ${error}` : ''}`, cause === undefined ? undefined : { cause });
    this.run = run;
    this.reason = reason;
    this.error = error;
  }
}

/** An awaited run was cancelled or timed out. */
export class RunCancelled extends Error {
  constructor(run, state, reason) {
    super(`run ${run} has no result: it ${state === 'timed_out' ? 'has timed out' : 'was cancelled'}`);
    this.run = run;
    this.state = state;
    this.reason = reason;
  }
}

/** The server answered a request with a problem. */
export class Problem extends Error {
  constructor(problem) {
    super(problem.message || problem.code);
    this.code = problem.code;
    this.isRetryable = Boolean(problem.is_retryable);
    this.retryAfterMs = problem.retry_after_ms || 0;
  }
}

/** The server does not accept this worker. It is shown in one line: no line of code is at fault. */
export class Refused extends Error {
  constructor(message) {
    super(message);
    Object.defineProperty(this, 'name', { value: 'Refused', enumerable: false });
    this.stack = `Refused: ${message}`;
  }
}

/** The code does not match the history of a run. The run pauses until matching code is deployed. */
export class Divergence extends Error {
  constructor(message, step = null) {
    super(message);
    this.step = step;
  }
}

/** Errors that calls have raised in workflows: history says why, whether or not the code looks at them. */
const handed = new WeakSet();

/** Note that a call raises this error in a workflow, and return it. */
export function handedOver(error) {
  handed.add(error);
  return error;
}

/** Return whether a call has raised this error in a workflow, or one of its causes. */
export function wasHandedOver(error) {
  for (let each = error; each instanceof Error; each = each.cause) if (handed.has(each)) return true;
  return false;
}

const OURS = 'onward.errors.';
const QUALIFIED = new Map([
  [Fatal, `${OURS}Fatal`],
  [Retryable, `${OURS}Retryable`],
  [BadInput, `${OURS}BadInput`],
  [Unencodable, `${OURS}Unencodable`],
  [TimedOut, `${OURS}TimedOut`],
  [RunFailed, `${OURS}RunFailed`],
  [RunCancelled, `${OURS}RunCancelled`],
  [Divergence, 'onward.runtime.body.divergence.Divergence'],
]);

/** The name and the data under which the errors of Onward come back as themselves in every language. */
const REGISTERED = new Map([
  [TimedOut, ['onward.TimedOut', (e) => ({ what: e.what, limit: e.limit, advice: 'Allow more time' })]],
  [RunFailed, ['onward.RunFailed', (e) => ({ run: e.run, reason: e.reason, error: e.error, advice: '' })]],
  [RunCancelled, ['onward.RunCancelled', (e) => ({ run: e.run, state: e.state, reason: e.reason })]],
  [Divergence, ['onward.Divergence', (e) => ({ text: e.message, step: e.step, needs_result: false })]],
]);

const REVIVED = {
  'onward.TimedOut': (data) => new TimedOut(data.what, data.limit),
  'onward.RunFailed': (data, cause) => new RunFailed(data.run, data.reason, data.error, cause),
  'onward.RunCancelled': (data) => new RunCancelled(data.run, data.state, data.reason),
};

/**
 * Return the types of an error, the nearest first: what retry policies and other languages compare.
 * @returns {string[]}
 */
export function typesOf(error) {
  if (error instanceof StepFailed) return [error.type, ...error.bases];
  const names = [];
  let kind = error?.constructor;
  while (kind && kind !== Error && kind !== Object && kind.name) {
    names.push(QUALIFIED.get(kind) ?? kind.name);
    kind = Object.getPrototypeOf(kind);
  }
  if (error instanceof TimedOut) names.push('TimeoutError');
  return names.length > 0 ? names : ['Error'];
}

/** Return a value as text; code may throw anything, also what has no text. */
function textOf(value) {
  try {
    return String(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}

function clipped(text, limit) {
  const whole = textOf(text);
  return whole.length <= limit ? whole : `${whole.slice(0, limit / 2)} … ${whole.slice(-limit / 2)}`;
}

function failureOf(error, deep) {
  if (!(error instanceof Error)) {
    return { type: 'Error', message: clipped(error, MAX_MESSAGE) };
  }
  const [type, ...bases] = typesOf(error);
  const failure = { type, message: clipped(error.message, MAX_MESSAGE) };
  const traceback = error instanceof StepFailed ? error.traceback : framesOf(error);
  if (traceback) failure.traceback = clipped(traceback, MAX_TRACEBACK);
  if (Array.isArray(error.notes) && error.notes.length > 0) failure.notes = error.notes.map(textOf);
  if (bases.length > 0) failure.bases = bases;
  const registered = REGISTERED.get(error.constructor);
  if (registered !== undefined) {
    failure.name = registered[0];
    failure.data = registered[1](error);
  }
  if (deep > 1 && error.cause instanceof Error) failure.cause = failureOf(error.cause, deep - 1);
  if (deep > 1 && error instanceof AggregateError) {
    failure.members = error.errors.map((each) => failureOf(each, deep - 1));
  }
  return failure;
}

/** Return the frames of an error, each with a newline at its end: readers put the message after them. */
function framesOf(error) {
  const stack = String(error.stack ?? '');
  const start = stack.indexOf('\n    at ');
  return start < 0 ? '' : `${stack.slice(start + 1).trimEnd()}\n`;
}

/**
 * Return an error as fields of a log event: type, message, and frames, with those of its causes.
 * @returns {{error: string, message: string, stack: string}}
 */
export function errorFields(error) {
  const failure = failureOf(error, MAX_CHAIN);
  let stack = failure.traceback ?? '';
  for (let { cause } = failure; cause !== undefined; cause = cause.cause) {
    stack += `Caused by ${cause.type}: ${cause.message}\n${cause.traceback ?? ''}`;
  }
  return { error: failure.type, message: failure.message, stack };
}

/** Return an error as the JSON in which it is stored, without a tag. */
export function errorToJson(error) {
  return JSON.stringify(failureOf(error, MAX_CHAIN)).replace(HALVES, '$1?');
}

/** Return the error that a JSON object stands for, raised by whatever language. */
export function errorFromJson(failure) {
  const cause = failure.cause ? errorFromJson(failure.cause) : undefined;
  const revive = REVIVED[failure.name];
  if (revive && failure.data) return revive(failure.data, cause);
  const { traceback, bases, notes, data } = failure;
  return new StepFailed(failure.type, failure.message, { traceback, bases, notes, data, cause });
}

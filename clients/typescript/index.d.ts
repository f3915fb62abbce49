// A worker for Onward: steps and workflows in TypeScript or JavaScript.

/** Plain data, which is stored as JSON. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A number of seconds, or a string such as `'1h 30m'` (units: us, ms, s, m, h, d, w). */
export type Duration = number | string;

/** The type of an error, or the name of its type in any language. */
export type ErrorName = string | (new (...given: any[]) => Error);

export interface Retry {
  /** The maximum number of attempts, including the first; null means no limit. Default 3. */
  attempts?: number | null;
  /** How long to wait after the first attempt. Default `'1s'`. */
  delay?: Duration;
  /** The factor by which each wait grows. Default 2. */
  factor?: number;
  /** The longest wait. Default `'1m'`. */
  maxDelay?: Duration;
  /** The maximum random extension of a wait, as a fraction of its length. Default 0.1. */
  jitter?: number;
  /** The errors to retry; by default all of them. */
  only?: ErrorName | ErrorName[];
  /** The errors not to retry. */
  never?: ErrorName | ErrorName[];
  /** How long all attempts together may take. */
  within?: Duration;
}

export interface StepOptions {
  /** Run the step on a worker that serves this queue, instead of the worker that runs its workflow. */
  queue?: string;
  retry?: Retry;
  /** How long one attempt may take. Default `'10m'`. */
  timeout?: Duration;
}

export interface WorkflowOptions {
  /** The queue of its runs when they are started with `ctx.child`, instead of the queue of the parent. */
  queue?: string;
  /** The retry policy for steps that do not have their own. */
  retry?: Retry;
}

/** The second argument of a step, after its input. */
export interface StepContext {
  /** The id of the run. */
  readonly run: string;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** Aborted when the result is no longer needed, or when the attempt has taken too long. */
  readonly signal: AbortSignal;
  /** Throw if the step was aborted; see `signal`. */
  heartbeat(): void;
  /** Report the progress of the run; the last value wins. */
  progress(value: Json): void;
}

/** The second argument of a workflow, after its input. Every call is recorded, and replayed after a crash. */
export interface WorkflowContext {
  /** The id of the run. */
  readonly run: string;
  /** The time at which the workflow received the latest result, signal or timer; the same in every replay. */
  now(): Date;
  /** Run a step, and return its result. For a step on another worker, pass its name and its queue. */
  step<I, O>(step: Step<I, O>, input: I, options?: { queue?: string }): Promise<O>;
  step<I>(step: Step<I, any>, input?: I, options?: { queue?: string }): Promise<any>;
  step<O = any>(name: string, input: object, options: { queue: string }): Promise<O>;
  /** Sleep without occupying a slot of the worker. */
  sleep(length: Duration): Promise<void>;
  /** Wait for a signal, and return its value. Throws `TimedOut` if none arrives in time. */
  signal<T = any>(name: string, options?: { timeout?: Duration }): Promise<T>;
  /** Start another workflow, in any language, and return its result. */
  child<I, O>(workflow: Workflow<I, O>, input: I, options?: { queue?: string }): Promise<O>;
  child<O = any>(name: string, input?: object, options?: { queue?: string }): Promise<O>;
  /** Run branches concurrently, each with its own context. If one fails, the others are abandoned. */
  all<T extends readonly ((ctx: WorkflowContext) => unknown)[]>(
    branches: readonly [...T],
  ): Promise<{ [K in keyof T]: T[K] extends (ctx: WorkflowContext) => infer R ? Awaited<R> : never }>;
  /** Report the progress of the run; the last value wins. */
  progress(value: Json): void;
}

export interface Step<I = any, O = any> {
  readonly name: string;
  readonly fn: (input: I, ctx: StepContext) => O | Promise<O>;
}

export interface Workflow<I = any, O = any> {
  readonly name: string;
  readonly fn: (input: I, ctx: WorkflowContext) => O | Promise<O>;
}

/** Define a step: a function whose result is recorded once in the history of a run. */
export function step<I, O>(
  name: string,
  fn: (input: I, ctx: StepContext) => O | Promise<O>,
  options?: StepOptions,
): Step<I, Awaited<O>>;

/** Define a workflow: a function that survives crashes, because every call through its context is recorded. */
export function workflow<I, O>(
  name: string,
  fn: (input: I, ctx: WorkflowContext) => O | Promise<O>,
  options?: WorkflowOptions,
): Workflow<I, Awaited<O>>;

export interface WorkerOptions {
  steps?: Step[];
  workflows?: Workflow[];
  /** The queues whose runs the worker takes. Default `['default']`. */
  queues?: string[];
  tags?: string[];
  /** How many runs the worker executes at a time. Default 100. */
  slots?: number;
  /** The version of the code. A run that is pinned to a version is taken only by workers with that version. */
  version?: string;
  /** The API key; by default, the value of the environment variable ONWARD_KEY. */
  key?: string;
  /** The namespace, for a server without API keys. */
  namespace?: string;
  /** How long the worker may be silent before other workers take over its runs. Default `'15s'`. */
  lease?: Duration;
  /** How long to wait for running steps when the worker stops. Default `'10s'`. */
  drain?: Duration;
  /** Receives log events; by default, they are written to stderr. Payloads are never logged. */
  log?: (event: string, fields: { [key: string]: unknown }) => void;
}

/** Executes steps and workflows for an Onward server. */
export class Worker {
  /**
   * @param url `onward://host[:7170][,host2[:port2]][?ca=FILE][&cert=FILE]`; by default the variable ONWARD_URL.
   * `ca` is a PEM file with the server's certificate authority. `cert` is a PEM file with this client's certificate chain
   * and private key.
   */
  constructor(url: string | undefined, options?: WorkerOptions);
  /** Run the worker until `stop()`, SIGTERM or SIGINT. */
  run(options?: { handleSignals?: boolean; onReady?: () => void }): Promise<void>;
  /** Claim no more runs, wait for running steps, release the remaining runs, and leave. */
  stop(signal?: string): void;
}

/** Throw this in a step that must not be tried again. */
export class Fatal extends Error {}

/** Throw this in a step to have the step tried again; pass `after` to set the delay. */
export class Retryable extends Error {
  constructor(message?: string, options?: { after?: Duration; cause?: unknown });
}

/** A step failed; the step can be written in any language. */
export class StepFailed extends Error {
  readonly type: string;
  readonly bases: string[];
  readonly notes: string[];
  readonly traceback: string;
  /** Return whether the error had this type, or a type that derives from it. */
  isA(name: string): boolean;
}

/** An awaited run failed; `cause` is the error that it raised, if known. */
export class RunFailed extends Error {
  readonly run: string;
  readonly reason: string;
}

/** An awaited run was cancelled or timed out. */
export class RunCancelled extends Error {
  readonly run: string;
  readonly state: string;
  readonly reason: string;
}

/** An attempt at a step, or a wait, took longer than its timeout. */
export class TimedOut extends Error {}

/** The run was cancelled, or its deadline has passed. Clean up, then let this error propagate. */
export class Cancelled extends Error {
  readonly reason: string;
}

/** Another branch of the same `ctx.all` failed, so this branch was abandoned. */
export class BranchAbandoned extends Error {}

/** A call, a value or an option is wrong. */
export class BadInput extends Error {}

/** A value is larger than the limit, or cannot be stored without being changed. */
export class Unencodable extends Error {}

// A worker for Onward: steps and workflows in TypeScript or JavaScript.

/** Plain data, which is stored as JSON. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A number of seconds, or a text such as `'1h 30m'` (units: us, ms, s, m, h, d, w). */
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
  /** Run the step in a worker that serves this queue, not in the worker of its workflow. */
  queue?: string;
  retry?: Retry;
  /** How long one attempt may take. Default `'10m'`. */
  timeout?: Duration;
}

export interface WorkflowOptions {
  /** How often steps are tried that do not say so themselves. */
  retry?: Retry;
}

/** What a step is given beside its input. */
export interface StepContext {
  /** The id of the run. */
  readonly run: string;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** Aborted when the result is not needed any more, or the attempt took too long. */
  readonly signal: AbortSignal;
  /** Raise the reason if the step is to stop. */
  heartbeat(): void;
  /** Let others see how far the run is; the last value counts. */
  progress(value: Json): void;
}

/** What a workflow is given beside its input. Every call is recorded, and replayed after a crash. */
export interface WorkflowContext {
  /** The id of the run. */
  readonly run: string;
  /** The time of the last thing that the workflow was handed: the same in every replay. */
  now(): Date;
  /** Run a step, and return its result. A step of another worker is named, with its queue. */
  step<I, O>(step: Step<I, O>, input: I, options?: { queue?: string }): Promise<O>;
  step<I>(step: Step<I, any>, input?: I, options?: { queue?: string }): Promise<any>;
  step<O = any>(name: string, input: object, options: { queue: string }): Promise<O>;
  /** Sleep, without holding a slot of the worker. */
  sleep(length: Duration): Promise<void>;
  /** Wait for a signal, and return its value. Raises `TimedOut` when the timeout is over. */
  signal<T = any>(name: string, options?: { timeout?: Duration }): Promise<T>;
  /** Start another workflow, in any language, and return its result. */
  child<I, O>(workflow: Workflow<I, O>, input: I, options?: { queue?: string }): Promise<O>;
  child<O = any>(name: string, input?: object, options?: { queue?: string }): Promise<O>;
  /** Run branches side by side, each with its own context. If one fails, the others are abandoned. */
  all<T extends readonly ((ctx: WorkflowContext) => unknown)[]>(
    branches: readonly [...T],
  ): Promise<{ [K in keyof T]: T[K] extends (ctx: WorkflowContext) => infer R ? Awaited<R> : never }>;
  /** Let others see how far the run is; the last value counts. */
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
  /** The queues whose runs it takes. Default `['default']`. */
  queues?: string[];
  tags?: string[];
  /** How many runs it executes at a time. Default 100. */
  slots?: number;
  /** The version of the code; runs that name a version are taken by workers of that version only. */
  version?: string;
  /** The API key; by default the variable ONWARD_KEY. */
  key?: string;
  /** On a server without keys: the namespace. */
  namespace?: string;
  /** How long the worker may be silent before others take its runs. Default `'15s'`. */
  lease?: Duration;
  /** How long steps may go on when the worker stops. Default `'10s'`. */
  drain?: Duration;
  /** Receives log events; by default they are lines on stderr. Payloads are never logged. */
  log?: (event: string, fields: { [key: string]: unknown }) => void;
}

/** Executes steps and workflows for an Onward server. */
export class Worker {
  /** @param url `onward://host[:7170][,host2[:port2]][?ca=file]`; by default the variable ONWARD_URL. */
  constructor(url: string | undefined, options?: WorkerOptions);
  /** Work until `stop()`, SIGTERM or SIGINT. */
  run(options?: { handleSignals?: boolean; onReady?: () => void }): Promise<void>;
  /** Claim no more runs, let steps come to an end, give back the rest, and leave. */
  stop(signal?: string): void;
}

/** Raise this in a step that must not be tried again. */
export class Fatal extends Error {}

/** Raise this in a step that should be tried again, after the given time if there is one. */
export class Retryable extends Error {
  constructor(message?: string, options?: { after?: Duration; cause?: unknown });
}

/** A step failed, in whatever language it is written. */
export class StepFailed extends Error {
  readonly type: string;
  readonly bases: string[];
  readonly notes: string[];
  readonly traceback: string;
  /** Return whether the error was of this type, or of one that derives from it. */
  isA(name: string): boolean;
}

/** An awaited run failed; `cause` is the error that it raised, if that is known. */
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

/** An attempt of a step, or a wait, took longer than its timeout. */
export class TimedOut extends Error {}

/** The run is to stop. Clean up, then let this error propagate. */
export class Cancelled extends Error {
  readonly reason: string;
}

/** Another branch of the same `ctx.all` failed, so this one is not needed any more. */
export class BranchAbandoned extends Error {}

/** A call, a value or an option is wrong. */
export class BadInput extends Error {}

/** A value is larger than the limit, or cannot be stored without being changed. */
export class Unencodable extends Error {}

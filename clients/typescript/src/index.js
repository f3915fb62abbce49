export { Worker, step, workflow } from './worker.js';
export { BadInput, BranchAbandoned, Cancelled, Fatal, Retryable } from './errors.js';
export { RunCancelled, RunFailed, StepFailed, TimedOut, Unencodable } from './errors.js';

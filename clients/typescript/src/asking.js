// Makes the calls of a workflow: from what its code passes to what history keeps.

import { ChildCall, StepCall } from './calls.js';
import { TAG, encode, fingerprint } from './codec.js';
import { MINUTE } from './durations.js';
import { BadInput } from './errors.js';
import { checkName } from './identity.js';
import { STEPS, readLimits } from './retry.js';

const STEP_TIMEOUT = 10 * MINUTE;

/** Return the call of a step: of this worker, or with a queue of another. */
export function stepCall(execution, step, input, options) {
  const { program, host } = execution;
  const name = checkName(step?.name ?? step, 'the name of a step');
  const definition = typeof step === 'string' ? host.steps.get(step) : step;
  const queue = options.queue ?? definition?.queue;
  if (queue !== undefined) return routedCall(execution, name, input, queue, definition);
  if (definition === undefined) {
    throw new BadInput(`step '${name}'`, 'is not a step of this worker', 'Pass it to the worker, or pass its queue.');
  }
  const retry = definition.retry ?? program.retry ?? STEPS;
  const limits = { retry, timeout: definition.timeout ?? STEP_TIMEOUT };
  return new StepCall(definition, encodeArguments(input, `the input of step '${name}'`), fingerprint(input), limits);
}

function routedCall(execution, name, input, queue, definition) {
  const retry = definition?.retry ?? execution.program.retry ?? null;
  const timeout = definition?.timeout ?? null;
  const limits = retry === null && timeout === null ? undefined : JSON.stringify({ retry, timeout });
  const start = { ...newRun(execution, `step ${name}`, 'step', input, queue), retry: limits };
  return new ChildCall('step', name, start, execution.bodyNow);
}

/** Return the call of another workflow: on its own queue or, if it has none here, on that of its parent. */
export function childCall(execution, workflow, input, options) {
  const { claimed, host } = execution;
  const name = checkName(workflow?.name ?? workflow, 'the name of a workflow');
  const definition = typeof workflow === 'string' ? host.workflows.get(workflow) : workflow;
  const queue = options.queue ?? definition?.queue;
  // The tags of the parent say which workers of its queue are fit for it, and nothing of those of another queue.
  const tags = queue === undefined ? (claimed.tags ?? '') : '';
  const start = { ...newRun(execution, name, 'workflow', input, queue ?? claimed.queue), tags };
  return new ChildCall('child', name, start, execution.bodyNow);
}

function newRun(execution, name, kind, input, queue) {
  const { priority = 0 } = execution.claimed;
  checkName(queue, `the queue of ${name}`);
  return { name, kind, queue, priority, input: encodeArguments(input, `the input of ${name}`), args_hash: fingerprint(input) };
}

/** Return the arguments of a call as a payload: an object, keyed by parameter name. */
function encodeArguments(input, what) {
  const payload = encode(input, what);
  if (payload[TAG.length] !== 0x7b) {
    const given = input === null ? 'null' : Array.isArray(input) ? 'an array' : `of type ${typeof input}`;
    throw new BadInput(what, `is ${given}`, 'Pass an object that is keyed by parameter name.');
  }
  return payload;
}

/** Return the call to wait for: a step that older code has sent elsewhere stays there. */
export function elsewhere(call, record) {
  if (!(call instanceof StepCall) || record?.state !== 'open' || record.payload === undefined) return call;
  const there = new ChildCall('step', call.name, { args_hash: call.argsHash }, 0);
  there.promise = call.promise;
  there.resolve = call.resolve;
  there.reject = call.reject;
  return there;
}

/** Return the program of a routed step: a body that calls it, with the limits that its caller has set. */
export function stepProgram(definition, claimed) {
  const { retry, timeout } = readLimits(claimed.retry);
  const here = { ...definition, queue: undefined, retry: retry ?? definition.retry, timeout: timeout ?? definition.timeout };
  return { name: definition.name, fn: (input, ctx) => ctx.step(here, input), retry: undefined, code: definition.code };
}

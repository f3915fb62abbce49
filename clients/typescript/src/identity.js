// Identities: the name of a call within its run, the same in every replay; and ids that follow from them.

import { blake2b16 } from './blake2b.js';
import { BadInput } from './errors.js';

export const CANCEL_IDENTITY = '=cancel';

const MAX_NAME = 512;
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

/**
 * Return a name if a server takes it. One that is not valid text is no part of a frame: the server could not read the
 * frame, and would answer none of the commits in it.
 */
export function checkName(text, what) {
  const advice = `Use a string of 1 to ${MAX_NAME} bytes without control characters.`;
  if (typeof text !== 'string') throw new BadInput(what, `is of type ${typeof text}`, advice);
  if (text === '') throw new BadInput(what, 'is empty', advice);
  if (!text.isWellFormed()) throw new BadInput(what, 'contains a lone surrogate, which is half a character', advice);
  if (CONTROL.test(text)) throw new BadInput(what, 'contains a control character', advice);
  const size = Buffer.byteLength(text);
  if (size > MAX_NAME) throw new BadInput(what, `is ${size} bytes long`, advice);
  return text;
}

/** Return a text without any separator of identities; different texts stay different. */
export function escaped(text) {
  return text.replace(/[%:#=.@~]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
}

/** Return the branch in which a call was made. */
export function branchOf(identity) {
  const colon = identity.indexOf(':');
  return colon < 0 ? null : identity.slice(0, colon);
}

/** Hands out branches and identities, in the order in which a body asks for them. */
export class Naming {
  #calls = new Map();
  #branches = new Map();

  /** Return the path of a new branch. */
  branch(parent) {
    const nth = this.#branches.get(parent) ?? 0;
    this.#branches.set(parent, nth + 1);
    return parent === '' ? String(nth) : `${parent}.${nth}`;
  }

  /** Return the identity of the next call of a name in a branch. */
  call(branch, name) {
    const first = `${branch}:${escaped(name)}`;
    const nth = (this.#calls.get(first) ?? 0) + 1;
    this.#calls.set(first, nth);
    return `${first}#${nth}`;
  }
}

/** Return 128 bits of texts as hexadecimal digits; each text is preceded by its length. */
export function digest(...parts) {
  const pieces = parts.flatMap((part) => {
    const raw = Buffer.from(part);
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(raw.length));
    return [length, raw];
  });
  return blake2b16(Buffer.concat(pieces));
}

/** Return the UUID version 7 of an instant in microseconds, with the last 74 bits of 32 hexadecimal digits. */
export function uid7(instant, hex) {
  const random = BigInt(`0x${hex}`) & ((1n << 74n) - 1n);
  const milliseconds = BigInt(Math.floor(instant / 1000));
  const upper = (milliseconds << 80n) | (7n << 76n) | ((random >> 62n) << 64n);
  const value = upper | (2n << 62n) | (random & ((1n << 62n) - 1n));
  const text = value.toString(16).padStart(32, '0');
  return [text.slice(0, 8), text.slice(8, 12), text.slice(12, 16), text.slice(16, 20), text.slice(20)].join('-');
}

/** Return the uid of a run that a call starts: the same in every replay. */
export function childUid(parent, identity, asked) {
  return uid7(asked, digest(parent, identity));
}

import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { Worker } from '../src/index.js';
import { credentialsOf, readAccess, readUrl } from '../src/wire.js';

const SECRET = 'onw_0123456789abcdef';

/** Return the error of a call, which must not show the secret in any way. */
function refusalOf(call) {
  try {
    call();
  } catch (error) {
    assert.ok(!`${error.stack} ${JSON.stringify(error)}`.includes(SECRET), 'the error shows the key');
    return error.message;
  }
  return assert.fail('it was accepted');
}

test('a key loses the spaces and line breaks around it', () => {
  assert.equal(readAccess(`\t${SECRET}\r\n`).key, SECRET);
  assert.equal(readAccess(undefined).key, '');
});

test('a malformed key is refused and not shown', () => {
  for (const key of [`${SECRET}\nx`, `${SECRET} x`, `${SECRET}é`, `${SECRET}\0`]) {
    assert.match(refusalOf(() => new Worker('onward://localhost', { key })), /the API key is malformed/);
  }
});

test('a key in a URL is refused and not shown', () => {
  for (const url of [
    `onward://${SECRET}@host`,
    `onward://user:${SECRET}@host:7170`,
    `onward://host?key=${SECRET}`,
    `onward://host?${SECRET}`,
    `onward://host?${SECRET}=1`,
    `onward://host/${SECRET}`,
    `onward://host#${SECRET}`,
    `onward://host:${SECRET}`,
    `onward://host?x=${SECRET}`,
    `onward:${SECRET}@host`,
    `https://${SECRET}@host`,
  ]) {
    refusalOf(() => readUrl(url));
  }
  assert.match(refusalOf(() => readUrl(`onward://host?key=${SECRET}`)), /contains a key.*ONWARD_KEY/);
  assert.match(refusalOf(() => readUrl(`onward://${SECRET}@host`)), /contains .*a key.*ONWARD_KEY/);
  assert.match(refusalOf(() => readUrl('http://host')), /does not begin with 'onward:\/\/'/);
});

test('an unknown option of a URL is refused by name', () => {
  assert.match(refusalOf(() => readUrl('onward://host?ca=a.pem&x=1')), /the unknown option 'x'.*ca and cert/);
  assert.match(refusalOf(() => readUrl('onward://host?ca=')), /an empty option 'ca'/);
});

test('a URL has hosts, ports and files', () => {
  const local = readUrl('onward://localhost');
  assert.deepEqual([local.addresses, local.usesTls], [['localhost:7170'], false]);
  assert.deepEqual(readUrl('onward://[::1],127.0.0.1:8').addresses, ['[::1]:7170', '127.0.0.1:8']);
  assert.equal(readUrl('onward://a:1,b?ca=x.pem').addresses.join(), 'a:1,b:7170');
  assert.equal(readUrl('onward://example.com').usesTls, true);
  assert.equal(readUrl('onward://localhost,example.com/').usesTls, true);
  assert.equal(readUrl('onward://localhost?cert=me.pem').usesTls, true);
  const both = readUrl('onward://localhost?ca=a%20b.pem&cert=/c.pem');
  assert.deepEqual([both.usesTls, both.ca, both.cert], [true, 'a b.pem', '/c.pem']);
  for (const url of ['onward://', 'onward://host:x', 'onward://host:99999', 'onward://a,,b', '']) {
    assert.throws(() => readUrl(url), /onward:\/\//);
  }
});

test('a file for TLS that cannot be used is named', () => {
  const file = join(mkdtempSync(join(tmpdir(), 'onward-')), 'me.pem');
  const address = (name) => readUrl(`onward://host?${name}=${file}`);
  assert.throws(() => credentialsOf(address('ca'), 'host'), /ca file .*me\.pem cannot be read \(ENOENT\)/);
  writeFileSync(file, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
  assert.throws(() => credentialsOf(address('cert'), 'host'), /cert file .*me\.pem contains no private key/);
});

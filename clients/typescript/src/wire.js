// The services and messages of onward/v1/worker.proto, and how a server is reached.

import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { homedir } from 'node:os';
import { fileURLToPath } from 'node:url';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

import { BadInput } from './errors.js';

const ROOT = fileURLToPath(new URL('../proto', import.meta.url));
const PORT = 7170;
const MAX_RECEIVE = 64 * 1024 * 1024;
/** What a server takes of one message. */
const MAX_MESSAGE = 16 * 1024 * 1024;
/** What one commit or request may take of it. */
export const MAX_SEND = MAX_MESSAGE - 1024;
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[?::1\]?)$/;
const FILES = ['ca', 'cert'];
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/g;
const PRIVATE_KEY = /-----BEGIN ([A-Z ]*)PRIVATE KEY-----[^]*?-----END \1PRIVATE KEY-----/;
const PASS_KEY = 'Pass the key as the option `key` or in ONWARD_KEY.';

let service;

/** Return the constructor of clients of the service `Workers`. */
export function workersClient() {
  if (service === undefined) {
    const options = { keepCase: true, longs: Number, arrays: true, objects: true, oneofs: true, includeDirs: [ROOT] };
    const definition = protoLoader.loadSync('onward/v1/worker.proto', options);
    service = grpc.loadPackageDefinition(definition).onward.v1.Workers;
  }
  return service;
}

/**
 * Return the addresses in a URL, and the files for TLS, which is used unless all hosts are this machine and no file is
 * named. A key may stand in the wrong place of a URL, so errors quote only parts that cannot hold one.
 * @param {string} url  `onward://host[:7170][,host2[:port2]][?ca=FILE][&cert=FILE]`
 */
export function readUrl(url) {
  const found = /^onward:\/\/([^/?#]*)\/*([^?#]*)(?:\?([^#]*))?(#.*)?$/is.exec(String(url ?? '').trim());
  if (found === null) {
    throw new BadInput('the URL of the server', "does not begin with 'onward://'", `Write onward://host:${PORT}.`);
  }
  const [, hosts, path, query = '', fragment] = found;
  if (/[@#]/.test(`${hosts}${path}${query}`) || fragment !== undefined) {
    throw new BadInput('the URL onward://…', "contains a user name, a key, '@' or '#'", PASS_KEY);
  }
  const addresses = hosts.split(',').map((each) => withPort(each.trim()));
  if (!addresses.every(isValid)) {
    const fact = 'has no host, or a host or port that is not valid';
    throw new BadInput('the URL onward://…', fact, `Write onward://host:${PORT}.`);
  }
  if (path !== '') {
    const advice = 'Pass the namespace as the option `namespace`.';
    throw new BadInput(`the URL onward://${hosts}`, 'has a path after the host', advice);
  }
  const { ca, cert } = readOptions(query, hosts);
  const isLocal = addresses.every((each) => LOOPBACK.test(each.replace(/:\d+$/, '')));
  return { addresses, usesTls: !isLocal || ca !== undefined || cert !== undefined, ca, cert };
}

function withPort(host) {
  return /^(\[[^\]]*\]|[^:]*):\d+$/.test(host) ? host : `${host.replace(/:$/, '')}:${PORT}`;
}

function isValid(address) {
  const found = /^(?:\[[0-9a-f:.]+(?:%\w+)?\]|[^\s:[\]]+):(\d+)$/i.exec(address);
  return found !== null && Number(found[1]) < 65536;
}

function readOptions(query, hosts) {
  const options = {};
  for (const [name, value] of new URLSearchParams(query)) {
    const where = `the URL onward://${hosts}`;
    if (/key|token|password|^onw_/i.test(name)) throw new BadInput(where, 'contains a key', PASS_KEY);
    if (!FILES.includes(name)) {
      const shown = /^[a-z][\w-]{0,29}$/i.test(name) ? `the unknown option '${name}'` : 'an unknown option';
      throw new BadInput(where, `has ${shown}`, `The options are ${FILES.join(' and ')}.`);
    }
    if (value === '') throw new BadInput(where, `has an empty option '${name}'`, 'Pass the path of a PEM file.');
    options[name] = value.replace(/^~(?=\/|$)/, homedir());
  }
  return options;
}

/** Return the key and the namespace for the metadata of calls; an error does not quote the key. */
export function readAccess(key, namespace) {
  const stripped = String(key ?? '').trim();
  if (/[^\x21-\x7e]/.test(stripped)) {
    throw new BadInput('the API key', 'is malformed', 'Copy it again, without spaces or line breaks.');
  }
  return { key: stripped, namespace };
}

function readPem(option, file) {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new BadInput(`${option} file ${file}`, `cannot be read (${error.code})`, 'Use a readable PEM file.');
  }
}

/**
 * Return how both sides of a connection are recognised. The files are read each time, because certificates are renewed.
 * @throws {BadInput}  A file cannot be read, or is not what it should be.
 */
export function credentialsOf({ usesTls, ca, cert }, host) {
  if (!usesTls) return grpc.credentials.createInsecure();
  const authority = ca === undefined ? null : readPem('ca', ca);
  const own = cert === undefined ? '' : readPem('cert', cert).toString();
  const chain = own.match(CERTIFICATE)?.join('\n');
  const key = PRIVATE_KEY.exec(own)?.[0];
  if (cert !== undefined && (chain === undefined || key === undefined)) {
    const fact = `contains no ${chain === undefined ? 'certificate' : 'private key'}`;
    const advice = 'Put the certificate chain and its private key in one PEM file.';
    throw new BadInput(`cert file ${cert}`, fact, advice);
  }
  let credentials;
  try {
    const pair = key === undefined ? [] : [Buffer.from(key), Buffer.from(chain)];
    credentials = grpc.credentials.createSsl(authority, ...pair);
  } catch (error) {
    const files = [ca && `ca file ${ca}`, cert && `cert file ${cert}`].filter(Boolean).join(' or ');
    const advice = 'Pass PEM files that belong together; the private key must have no password.';
    throw new BadInput(files, `cannot be used (${error.code ?? error.message})`, advice);
  }
  return isIP(host) ? withoutServerName(credentials) : credentials;
}

/** Send no server name: TLS forbids IP addresses there, and Node warns. The certificate must still name the address. */
function withoutServerName(credentials) {
  const create = credentials._createSecureConnector.bind(credentials);
  credentials._createSecureConnector = (...given) => {
    const connector = create(...given);
    if (connector.connectionOptions?.host) delete connector.connectionOptions.servername;
    return connector;
  };
  return credentials;
}

/** Return a client of one address, and the metadata that each of its calls needs. */
export function connect(address, { key, namespace }, nth) {
  const target = address.addresses[nth % address.addresses.length];
  const credentials = credentialsOf(address, target.replace(/:\d+$/, '').replace(/^\[|\]$/g, ''));
  const client = new (workersClient())(target, credentials, {
    'grpc.max_receive_message_length': MAX_RECEIVE,
    'grpc.max_send_message_length': MAX_MESSAGE,
    // Channels to one address would share a connection otherwise, and a renewal would wait behind a full stream.
    'grpc.use_local_subchannel_pool': 1,
  });
  const metadata = new grpc.Metadata();
  if (key) metadata.set('authorization', `Bearer ${key}`);
  if (namespace) metadata.set('onward-namespace', namespace);
  return { client, metadata };
}

// The services and messages of onward/v1/worker.proto, and how a server is reached.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

import { BadInput } from './errors.js';

const ROOT = fileURLToPath(new URL('../proto', import.meta.url));
const PORT = 7170;
const MAX_MESSAGE = 16 * 1024 * 1024;
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[?::1\]?)$/;

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
 * Return the addresses in a URL, and whether the connection is encrypted: unless all hosts are this machine.
 * @param {string} url  `onward://host[:7170][,host2[:port2]][?ca=file]`
 */
export function readUrl(url) {
  const found = /^onward:\/\/([^/?@]+)\/?(?:\?(.*))?$/.exec(url ?? '');
  if (found === null) {
    const advice = "Write 'onward://host:7170'; pass the key as `key` or ONWARD_KEY.";
    throw new BadInput(`url ${JSON.stringify(url ?? '')}`, 'is not the address of a server', advice);
  }
  const hosts = found[1].split(',').map((each) => each.trim());
  const addresses = hosts.map((each) => (/:\d+$/.test(each) ? each : `${each}:${PORT}`));
  const isLocal = addresses.every((each) => LOOPBACK.test(each.replace(/:\d+$/, '')));
  return { addresses, isLocal, ca: new URLSearchParams(found[2] ?? '').get('ca') };
}

/** Return a client of one address, and the metadata that each of its calls needs. */
export function connect({ addresses, isLocal, ca }, { key, namespace }, nth) {
  const credentials =
    isLocal && !ca ? grpc.credentials.createInsecure() : grpc.credentials.createSsl(ca ? readFileSync(ca) : undefined);
  const client = new (workersClient())(addresses[nth % addresses.length], credentials, {
    'grpc.max_receive_message_length': MAX_MESSAGE,
    'grpc.max_send_message_length': MAX_MESSAGE,
    // Channels to one address would share a connection otherwise, and a renewal would wait behind a full stream.
    'grpc.use_local_subchannel_pool': 1,
  });
  const metadata = new grpc.Metadata();
  if (key) metadata.set('authorization', `Bearer ${key}`);
  if (namespace) metadata.set('onward-namespace', namespace);
  return { client, metadata };
}

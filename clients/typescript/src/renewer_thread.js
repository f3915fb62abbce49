// Renews the lease of a worker, in a thread of its own and on a connection of its own.

import { parentPort, workerData } from 'node:worker_threads';

import { connect } from './wire.js';

const STUCK_MS = 5 * 60_000;

const { address, access, worker, lease, joinedAt } = workerData;
const everyMs = lease / 3000;
let ticked = performance.now();
let tries = 0;
let connection = null;

parentPort.on('message', () => {
  ticked = performance.now();
});

async function renew() {
  connection ??= connect(address, access, tries);
  const { client, metadata } = connection;
  return new Promise((resolve, reject) => {
    const deadline = Date.now() + Math.max(1000, everyMs);
    const request = { worker, length: lease };
    client.Renew(request, metadata, { deadline }, (error, reply) => (error ? reject(error) : resolve(reply)));
  });
}

async function tick() {
  // A worker whose event loop stands still for minutes is stuck: its runs are better off elsewhere.
  if (performance.now() - ticked > STUCK_MS) {
    setTimeout(tick, everyMs);
    return;
  }
  try {
    const reply = await renew();
    parentPort.postMessage({ isKept: Boolean(reply.is_kept), isDraining: Boolean(reply.is_draining) });
    if (reply.is_kept) setTimeout(tick, everyMs);
  } catch {
    tries += 1;
    connection?.client.close();
    connection = null;
    setTimeout(tick, Math.min(250, everyMs / 8));
  }
}

setTimeout(tick, Math.max(0, joinedAt + everyMs - Date.now())); // a thread takes its time to begin

// suite: shared-plane, sandbox: long
import { readdirSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { secrets, validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import { SERVERS, SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import { enforceExamples, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import {
  entriesOfPolicies,
  server,
  text,
  type SecretObject,
  type WebhookConfigurationObject,
} from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

/** Setting of the replica. The default for slow clients is two minutes, too long for a test. */
const CONNECTION_TIMEOUT_SECONDS = 5;

/** The default limit. */
const MOST_CONNECTIONS = 1_500;

let cluster: Cluster;
let replica: Replica;
let ca: string;
let path: string;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    settings: { 'connection-timeout': `${CONNECTION_TIMEOUT_SECONDS}s` },
  }));
  await enforceExamples(cluster);
  const serving = await cluster.see<SecretObject>('our Secret', secrets, {
    namespace: SYSTEM_NAMESPACE,
    name: 'gatehouse-serving',
  });
  ca = text(serving, 'ca.crt');
  const live = await cluster.admin.get<WebhookConfigurationObject>(validatingWebhookConfigurations, {
    name: 'gatehouse',
  });
  path = `${entriesOfPolicies(live)[0]?.clientConfig.service?.path ?? ''}?timeout=5s`;
});

afterAll(() => cluster.stop());

interface Answer {
  readonly status: number;
  readonly body: string;
}

const HOST = 'gatehouse.gatehouse-system.svc';

function post(body: string | Buffer): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const call = httpsRequest(
      {
        host: '127.0.0.1',
        port: replica.port,
        servername: HOST,
        ca,
        method: 'POST',
        path,
        agent: false,
        headers: { 'content-type': 'application/json' },
      },
      (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (text += chunk));
        response.on('end', () => {
          call.destroy(); // a client that has the response need not send the rest of its request
          resolve({ status: response.statusCode ?? 0, body: text });
        });
      },
    );
    call.on('error', reject);
    call.end(body);
  });
}

/**
 * The text of a review for a Server. `spec` and the other fields are raw JSON, so that tests can send invalid or
 * unusual JSON.
 */
function review({
  uid = '"one"',
  spec = '{"datacenter":"fra1"}',
}: { readonly uid?: string; readonly spec?: string } = {}): string {
  const object = `{"apiVersion":"infra.example.com/v1","kind":"Server","metadata":{"name":"a","namespace":"shop"},"spec":${spec}}`;
  const resource =
    '"kind":{"group":"infra.example.com","version":"v1","kind":"Server"},"resource":{"group":"infra.example.com","version":"v1","resource":"servers"}';
  const request = `{${uid === '' ? '' : `"uid":${uid},`}${resource},"name":"a","namespace":"shop","operation":"CREATE","userInfo":{"username":"mallory"},"object":${object},"oldObject":null,"dryRun":false,"options":null}`;
  return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":${request}}`;
}

const verdictOf = ({ body }: Answer) =>
  (
    JSON.parse(body) as {
      readonly response: { readonly allowed: boolean; readonly status?: { readonly message: string } };
    }
  ).response;

async function heapBytes(): Promise<number> {
  const metrics = await replica.metrics();
  const read = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1]);
  return read('nodejs_heap_size_used_bytes') + read('nodejs_external_memory_bytes');
}

const healthyVerdict = async () => verdictOf(await post(review()));

/** Small reviews become garbage that the collector finds at once. Large ones make it look for old garbage, too. */
async function collectGarbage(): Promise<void> {
  const filler = JSON.stringify('x'.repeat(2 ** 20));
  for (let n = 0; n < 20; n++) await post(review({ spec: `{"datacenter":"fra1","filler":${filler}}` }));
}

test('keys named __proto__ and constructor are ordinary data, and do not bypass a check', async () => {
  const hidden =
    '{"__proto__":{"datacenter":"fra1"},"constructor":{"prototype":{"datacenter":"fra1"}},"datacenter":"atlantis"}';
  const denied = verdictOf(await post(review({ spec: hidden })));
  expect(denied.allowed).toBe(false);
  expect(denied.status?.message).toContain('atlantis');
  expect(verdictOf(await post(review({ spec: hidden.replace('atlantis', 'fra1') }))).allowed).toBe(true);
  expect(await healthyVerdict()).toMatchObject({ allowed: true });
});

test('a client that sends one byte a second is disconnected, and others are served meanwhile', async () => {
  const started = performance.now();
  const slow = connect({ host: '127.0.0.1', port: replica.port, servername: HOST, ca });
  let answer = '';
  slow.setEncoding('utf8');
  slow.on('data', (chunk: string) => (answer += chunk));
  const closed = new Promise((resolve) => slow.on('close', resolve));
  slow.on('error', () => undefined);
  await new Promise((resolve) => slow.once('secureConnect', resolve));
  slow.write('POST /validate/x HTTP/1.1\r\nhost: gatehouse\r\n');
  const dripping = setInterval(() => slow.writable && slow.write('x'), 1_000);
  while (performance.now() - started < 3_000) {
    expect(await healthyVerdict()).toMatchObject({ allowed: true });
    await sleep(200);
  }
  await closed;
  clearInterval(dripping);
  const took = (performance.now() - started) / 1_000;
  console.log(`disconnected after ${took.toFixed(1)} s: ${answer.split('\r\n', 1)[0] ?? ''}`);
  expect(answer).toMatch(/^HTTP\/1\.1 408 /);
  expect(took).toBeGreaterThan(CONNECTION_TIMEOUT_SECONDS - 1);
  expect(took).toBeLessThan(CONNECTION_TIMEOUT_SECONDS + 25); // Node checks once a second, and the machine may be busy
});

/** Open files of the replica's process. The pid is valid, because the shell has replaced itself with Node. */
const openFiles = () => readdirSync(`/proc/${replica.program.pid}/fd`).length;
const connections = async () =>
  Number(/^gatehouse_webhook_connections (\d+)$/m.exec(await replica.metrics())?.[1]);

test('of 10,000 idle connections, a replica holds at most the limit, and it answers the API server throughout', async () => {
  await healthyVerdict();
  await eventually('only the API server is connected', async () => (await connections()) < 10);
  const [filesBefore, bytesBefore] = [openFiles(), await heapBytes()];
  const held: Socket[] = [];
  let [mostConnections, mostFiles, admitted] = [0, 0, 0];
  const open = (index: number): Promise<unknown> => {
    // Every tenth client completes the TLS handshake and then stays silent; the others do not start it.
    const address = { host: '127.0.0.1', port: replica.port };
    const socket =
      index % 10 === 0
        ? connect({ ...address, rejectUnauthorized: false }) // the client sends nothing over it
        : connectTcp(address);
    held.push(socket.on('error', () => undefined).resume());
    return new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
  };
  for (let opened = 0; opened < 10_000; opened += 200) {
    await Promise.all(Array.from({ length: 200 }, (_, n) => open(opened + n)));
    if (opened % 1_000 !== 0) continue;
    await cluster.admin.create(SERVERS, server('shop', `meanwhile-${opened}`, 'fra1'));
    expect(await healthyVerdict()).toMatchObject({ allowed: true });
    admitted += 1;
    mostConnections = Math.max(mostConnections, await connections());
    mostFiles = Math.max(mostFiles, openFiles());
  }
  console.log(
    `${held.length} opened, at most ${mostConnections} held, ${mostFiles} files; ${admitted} writes between`,
  );
  expect(admitted).toBe(10);
  expect(mostConnections).toBeGreaterThan(MOST_CONNECTIONS / 2); // otherwise this test proves nothing
  expect(mostConnections).toBeLessThanOrEqual(MOST_CONNECTIONS);
  expect(mostFiles).toBeLessThanOrEqual(filesBefore + MOST_CONNECTIONS + 50);
  expect(await replica.metrics()).toMatch(/^gatehouse_webhook_connections_crowded_out_total [1-9]\d{3,}$/m);
  for (const socket of held) socket.destroy();
  await eventually(
    'files and memory are released',
    async () => {
      await collectGarbage();
      return openFiles() < filesBefore + 20 && (await heapBytes()) < bytesBefore + 32 * 2 ** 20;
    },
    { timeoutMs: 60_000, everyMs: 500 },
  );
  expect(replica.program.isRunning()).toBe(true);
});

/** Like the liveness probe: a new connection, and two seconds for the answer. Three failures in a row end a pod. */
const isAlive = async () => {
  for (const path of ['healthz', 'readyz']) {
    const probe = { headers: { connection: 'close' }, signal: AbortSignal.timeout(2_000) };
    if (!(await fetch(`http://127.0.0.1:${replica.operationsPort}/${path}`, probe)).ok) return false;
  }
  return true;
};

test('of 10,000 clients that hold the operations port with half a request, a replica keeps a few, and probes are answered', async () => {
  const [filesBefore, bytesBefore] = [openFiles(), await heapBytes()];
  const held: Socket[] = [];
  const open = () => {
    const socket = connectTcp({ host: '127.0.0.1', port: replica.operationsPort });
    held.push(socket.on('error', () => undefined).resume());
    socket.write('GET /readyz HTTP/1.1\r\nhost: gatehouse\r\nx-padding: ');
    return new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
  };
  for (let opened = 0; opened < 10_000; opened += 200) {
    await Promise.all(Array.from({ length: 200 }, open));
    if (opened % 1_000 !== 0) continue;
    await eventually('a probe is answered', isAlive, { timeoutMs: 4_000 });
    expect(openFiles()).toBeLessThan(filesBefore + 300);
  }
  await eventually(
    'the replica needs little memory for them',
    async () => {
      await collectGarbage();
      return (await heapBytes()) < bytesBefore + 32 * 2 ** 20;
    },
    { timeoutMs: 60_000, everyMs: 500 },
  );
  for (const socket of held) socket.destroy();
});

test('after 500 large and hostile requests, the process still runs and has released its memory', async () => {
  for (let n = 0; n < 20; n++) await healthyVerdict();
  const before = await heapBytes();
  const hostile = ['[['.repeat(50_000), review({ spec: '{"__proto__":null}' }), review({ uid: '7' })];
  const filler = JSON.stringify('x'.repeat(3 * 2 ** 20));
  const large = [
    review({ spec: `{"datacenter":"fra1","filler":${filler}}` }),
    Buffer.alloc(21 * 2 ** 20, 0x7b),
  ];
  const statuses = new Map<number, number>();
  for (let round = 0; round < 150; round++) {
    // Only some rounds send large bodies, because they are slow. A leak of even their text would be visible.
    const bodies = round % 6 === 0 ? [...hostile, ...large] : hostile;
    for (const { status } of await Promise.all(bodies.map((body) => post(body)))) {
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  }
  expect(Object.fromEntries(statuses)).toEqual({ 200: 175, 400: 325 });
  const after = await eventually(
    'the memory is released',
    async () => {
      await collectGarbage();
      const now = await heapBytes();
      return now < before + 32 * 2 ** 20 ? now : undefined;
    },
    { timeoutMs: 60_000, everyMs: 200 },
  );
  console.log(`heap: ${mebibytes(before)} before, ${mebibytes(after)} after`);
  expect(replica.program.isRunning()).toBe(true);
});

const mebibytes = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MiB`;

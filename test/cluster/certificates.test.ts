/**
 * Servers and clients in pods, with mounted Secrets and bundles that the kubelet updates, through two rotations of the CA.
 * One of each reads its files once, the other at each handshake.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';

import { eventually } from '../support/processes.ts';
import { applyAndWait, startPodNode, SYSTEM } from '../support/node/installed.ts';
import { argumentPatch, withKustomization } from '../support/kustomization.ts';
import type { NodeCluster } from '../support/node/node.ts';
import { GATEHOUSE_IMAGE } from '../support/node/setup.ts';

const NAMESPACE = 'mesh';
const PORT = 8443;
/** Twice the time that the kubelet of this node needs to update a volume. */
const PROPAGATION = '40s';

const SERVER = `
const { readFileSync } = require('node:fs');
const read = () => ({ cert: readFileSync('/tls/tls.crt'), key: readFileSync('/tls/tls.key') });
const server = require('node:tls').createServer(read(), (socket) => { socket.on('error', () => {}); socket.end('hello'); });
if (process.env.READS === 'always') setInterval(() => server.setSecureContext(read()), 1_000);
server.listen(${PORT});
`;

/** Prints its figures each second: handshakes and failures, and the serial numbers that each server has presented. */
const CLIENT = `
const { readFileSync } = require('node:fs');
const tls = require('node:tls');
const read = () => readFileSync('/trust/ca.crt');
const first = read();
const totals = {};
const ask = (server) => new Promise((resolve) => {
  const total = (totals[server] ??= { right: 0, failed: 0, serials: [], errors: [] });
  const host = process.env[server.toUpperCase() + '_SERVICE_HOST'];
  const ca = process.env.READS === 'always' ? read() : first;
  const socket = tls.connect({ host, port: ${PORT}, ca, servername: server + '.${NAMESPACE}.svc' });
  socket.setTimeout(5_000, () => socket.destroy(new Error('no answer')));
  socket.on('secureConnect', () => {
    total.right += 1;
    const { serialNumber } = socket.getPeerCertificate();
    if (!total.serials.includes(serialNumber)) total.serials.push(serialNumber);
  });
  socket.on('error', (error) => { total.failed += 1; if (total.errors.length < 5) total.errors.push(error.message); });
  socket.on('close', resolve);
  socket.resume();
});
(async () => {
  for (;;) {
    await Promise.all(['once', 'always'].map(ask));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
})();
setInterval(() => console.log(JSON.stringify(totals)), 1_000);
`;

interface Total {
  readonly right: number;
  readonly failed: number;
  readonly serials: readonly string[];
  readonly errors: readonly string[];
}

let node: NodeCluster;

beforeAll(async () => {
  node = await startPodNode();
  const patch = argumentPatch(`--ca-propagation-wait=${PROPAGATION}`, 'gatehouse-controllers');
  await withKustomization(
    'overlays/default',
    { components: ['distribute-bundles'], patches: [patch] },
    async (folder) => await applyAndWait(node, '-k', folder),
  );
  await node.apply([
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE, labels: { trusts: 'gatehouse' } } },
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: {
        name: 'company-trust',
        namespace: SYSTEM,
        annotations: { 'gatehouse.dev/distribute-to': 'trusts=gatehouse' },
      },
    },
    service('once'),
    service('always'),
  ]);
  await node.apply([server('once'), server('always')]);
  await podsReady('server');
  await node.apply([client('once'), client('always')]); // after the Services, whose addresses are in its environment
  await podsReady('client');
});
afterAll(() => node.stop());

const serving = (name: string): string => `${name}-tls`;

const service = (name: string): object => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: {
    name,
    namespace: NAMESPACE,
    annotations: { 'gatehouse.dev/serving-cert-secret-name': serving(name) },
  },
  spec: { selector: { server: name }, ports: [{ port: PORT }] },
});

type Role = 'server' | 'client';

const pod = (role: Role, name: string, script: string, volume: object): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: `${role}-${name}`, namespace: NAMESPACE, labels: { role, [role]: name } },
  spec: {
    terminationGracePeriodSeconds: 0,
    containers: [
      {
        name: 'node',
        image: GATEHOUSE_IMAGE,
        command: ['/nodejs/bin/node', '-e', script],
        env: [{ name: 'READS', value: name }],
        volumeMounts: [{ name: 'files', mountPath: role === 'server' ? '/tls' : '/trust' }],
      },
    ],
    volumes: [{ name: 'files', ...volume }],
  },
});

const server = (name: string): object =>
  pod('server', name, SERVER, { secret: { secretName: serving(name) } });

const client = (name: string): object =>
  pod('client', name, CLIENT, { configMap: { name: 'company-trust' } });

const podsReady = async (role: Role): Promise<void> => {
  const ready = ['--for=condition=Ready', '--timeout=60s'];
  await node.kubectl('-n', NAMESPACE, 'wait', 'pod', '-l', `role=${role}`, ...ready);
};

async function seenBy(name: string): Promise<Readonly<Record<string, Total>>> {
  const lines = await node.kubectl('-n', NAMESPACE, 'logs', `client-${name}`, '--tail=1');
  return JSON.parse(lines) as Readonly<Record<string, Total>>; // printed by CLIENT
}

async function rotate(reason: string, count: number): Promise<void> {
  const secret = ['secret', 'gatehouse-authority'];
  await node.inSystem('annotate', '--overwrite', ...secret, `gatehouse.dev/rotate=${reason}`);
  await eventually(
    'both clients see the new certificate of the server that reloads',
    async () => {
      for (const name of ['once', 'always'])
        if ((await seenBy(name)).always?.serials.length !== count) return false;
      return true;
    },
    { timeoutMs: 240_000, everyMs: 1_000 },
  );
}

it('two rotations fail no handshake', async () => {
  await rotate('first', 2);
  await rotate('second', 3);
  const failures: string[] = [];
  for (const reads of ['once', 'always'])
    for (const [of, { right, serials, errors }] of Object.entries(await seenBy(reads))) {
      failures.push(...errors);
      if (right < 100) failures.push(`only ${right} handshakes of a client that reads ${reads}`);
      const expected = of === 'once' ? 1 : 3;
      if (serials.length !== expected) failures.push(`${serials.length} certificates of the server ${of}`);
    }
  expect(failures).toEqual([]);
}, 600_000);

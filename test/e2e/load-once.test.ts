// suite: shared-plane, sandbox: no (its programs are slow to start, and the API server plays no part), nightly
/**
 * T9, T10: servers that load their certificate once, and clients that load their bundle once, live through two rotations of
 * the CA. Each rotation adds servers and clients that started after it; all handshake with all.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { configMaps, secrets } from '../../src/kube/well-known.ts';
import { SECOND } from '../../src/pki/durations.ts';
import { parseAuthority } from '../../src/pki/authority/secret.ts';
import { askForCertificate, AUTHORITY, createNamespace, type Cluster } from '../support/cluster.ts';
import { startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { startLoad } from '../support/load.ts';
import { isNightly } from '../support/nightly.ts';
import { text, type SecretObject } from '../support/objects.ts';
import { eventually, freePort } from '../support/processes.ts';
import { askForRotation } from '../support/rotation-scene.ts';
import { startTlsClients, type TlsClient } from '../support/tls-clients.ts';
import {
  loopbackOf,
  nodeServer,
  programServer,
  type KeyPair,
  type TlsEndpoint,
} from '../support/tls-endpoints.ts';
import { issuerId, leafOf, rootIds } from '../support/trust-history.ts';
import { hasOpenssl, opensslTrusts } from '../support/trust-verdicts.ts';

const ROTATIONS = 2;
const HOST = 'db.shop.svc';
/** Connections per second. `REQUESTS` over most of them make at least 200 requests per second in the nightly form. */
const RATE = isNightly ? 120 : 60;
const REQUESTS = 5;
/** More concurrent connections would only queue. */
const LANES = 16;
/** The minimum duration, besides the rotations. */
const SOAK_MS = isNightly ? 60_000 : 0;
/** How often a client has its turn, for one turn of a client that starts a process for each connection. */
const TURNS: Readonly<Record<string, number>> = { node: 6, python: 6, java: 6 };

/** What started after the rotation with this number. */
interface Vintage extends KeyPair {
  readonly number: number;
  readonly bundle: string;
  readonly servers: readonly TlsEndpoint[];
  readonly clients: readonly TlsClient[];
}

interface Pair {
  readonly client: TlsClient;
  readonly server: TlsEndpoint;
  /** Numbers of their vintages. */
  readonly of: readonly [client: number, server: number];
  connections: number;
}

let cluster: Cluster;
let replica: Replica;
let serverPort: number;
const vintages: Vintage[] = [];
const pairs: Pair[] = [];
/** Each pair as often as it has a turn in one round. */
let round: readonly Pair[] = [];

beforeAll(async () => {
  serverPort = await freePort();
  ({ cluster, replica } = await startGatehouse({ settings: { 'ca-propagation-wait': '1s' } }));
  await createNamespace(cluster, 'shop');
  await askForCertificate(cluster, 'shop', 'db');
  await cluster.admin.create(configMaps, {
    metadata: { namespace: 'shop', name: 'trust', annotations: { 'gatehouse.dev/inject-cabundle': 'true' } },
  });
});

afterAll(async () => {
  await Promise.all(
    vintages.flatMap(({ servers, clients }) => [...servers, ...clients].map(({ stop }) => stop())),
  );
  await replica.program.stop(30_000);
  await cluster.stop();
});

async function authority() {
  const secret = await cluster.admin.get<SecretObject>(secrets, AUTHORITY);
  return parseAuthority(secret?.data ?? {});
}

/** The certificate and the bundle of the CA that signs now. */
async function issued(): Promise<KeyPair & { readonly bundle: string }> {
  const signer = (await authority()).generations.find(({ state }) => state === 'active')?.id ?? '';
  const secret = await cluster.see<SecretObject>(
    'the certificate of the new CA',
    secrets,
    { namespace: 'shop', name: 'db-tls' },
    (object) => issuerId(leafOf(text(object, 'tls.crt'))) === signer,
  );
  const trust = { namespace: 'shop', name: 'trust' };
  const isNew = ({ data }: SecretObject) => rootIds(data?.['ca.crt'] ?? '')[0] === signer;
  const { data } = await cluster.see<SecretObject>('the bundle', configMaps, trust, isNew);
  return { chain: text(secret, 'tls.crt'), key: text(secret, 'tls.key'), bundle: data?.['ca.crt'] ?? '' };
}

async function startVintage(): Promise<void> {
  const number = vintages.length;
  const pair = await issued();
  const { folder } = cluster.plane;
  const addressOf = (server: number) => `198.18.${200 + number}.${server}`;
  const programs = (['openssl', 'nginx', 'python', 'java'] as const).map((program, index) =>
    programServer(program, addressOf(index + 2), serverPort, pair, folder),
  );
  const servers = [
    await nodeServer('node', addressOf(1), serverPort, pair),
    ...(await Promise.all(programs)).filter((one) => one !== undefined),
  ];
  const vintage = { number, ...pair, servers, clients: await startTlsClients(pair.bundle, HOST, folder) };
  vintages.push(vintage);
  for (const other of vintages) {
    pairs.push(...pairsOf(vintage, other));
    if (other !== vintage) pairs.push(...pairsOf(other, vintage));
  }
  round = mixed(pairs.flatMap((one) => Array.from({ length: TURNS[one.client.name] ?? 1 }, () => one)));
}

const pairsOf = ({ clients, number }: Vintage, { servers, number: of }: Vintage): readonly Pair[] =>
  clients.flatMap((client) =>
    servers.map((server): Pair => ({ client, server, of: [number, of], connections: 0 })),
  );

/** Neighbours are far apart: clients that start a process take turns with others. */
const mixed = <T>(list: readonly T[]): readonly T[] =>
  list
    .map((one, index) => ({ one, at: (index * 0.618_034) % 1 }))
    .sort((a, b) => a.at - b.at)
    .map(({ one }) => one);

const describePair = ({ client, server, of }: Pair): string =>
  `${client.name} with the bundle of CA ${of[0]}, ${server.pod} with a certificate of CA ${of[1]}`;

async function exchange(n: number): Promise<void> {
  const pair = round[n % round.length];
  if (pair === undefined) throw new Error('there is no pair');
  pair.connections++;
  try {
    await pair.client.exchange(loopbackOf(pair.server.address), serverPort, REQUESTS);
  } catch (cause) {
    throw new Error(`${describePair(pair)}: ${String(cause)}`, { cause });
  }
}

const activeId = async () => (await authority()).generations.find(({ state }) => state === 'active')?.id;

async function rotate(reason: string): Promise<void> {
  const before = await activeId();
  await askForRotation(cluster, reason);
  await eventually(`${reason}: the new CA signs`, async () => (await activeId()) !== before);
}

test(
  'T9, T10: servers and clients that never reload trust each other through two rotations',
  async () => {
    await startVintage();
    const load = startLoad({ perSecond: RATE, lanes: LANES, request: exchange });
    for (let rotation = 1; rotation <= ROTATIONS; rotation++) {
      await sleep(SOAK_MS / (ROTATIONS + 1));
      await rotate(`load-once-${rotation}`);
      await startVintage();
    }
    await sleep(SOAK_MS / (ROTATIONS + 1));
    await eventually('every pair made a handshake', () => pairs.every(({ connections }) => connections > 0), {
      timeoutMs: 180_000, // every client that starts a process for each connection is slow on a busy machine
    });
    const { failures } = await load.stop();
    expect([...new Set(failures.map(({ message }) => message))].slice(0, 20)).toEqual([]);
    expect(new Set(vintages.map(({ chain }) => issuerId(leafOf(chain)))).size).toBe(ROTATIONS + 1);
  },
  SOAK_MS + 360_000,
);

test('T9: they trust each other until the certificate expires, and its root stays that long', async () => {
  const { generations } = await authority();
  for (const { chain } of vintages) {
    const { validToDate } = leafOf(chain);
    const signer = generations.find(({ id }) => id === issuerId(leafOf(chain)));
    expect(Number(signer?.trustedUntil)).toBeGreaterThanOrEqual(Number(validToDate));
    if (!hasOpenssl) continue;
    for (const { bundle } of vintages) {
      const verdictAt = (ms: number) =>
        opensslTrusts({ chain }, bundle, HOST, new Date(validToDate.getTime() + ms));
      expect([verdictAt(-SECOND), verdictAt(SECOND)]).toEqual([true, false]);
    }
  }
});

test('without its bridges, a new certificate is refused by each client with an old bundle', async () => {
  const [oldest, newest] = [vintages[0], vintages.at(-1)];
  if (oldest === undefined || newest === undefined) throw new Error('nothing was started');
  const [leaf = ''] = newest.chain.split(/(?<=END CERTIFICATE-----\n)/);
  const server = await nodeServer('bare', '198.18.210.1', serverPort, { chain: leaf, key: newest.key });
  const verdicts = (clients: readonly TlsClient[]) =>
    Promise.all(
      clients.map(async ({ name, exchange: connect }) => {
        const isTrusted = await connect(loopbackOf(server.address), serverPort, 1).then(
          () => true,
          () => false,
        );
        return [name, isTrusted];
      }),
    );
  expect(await verdicts(oldest.clients)).toEqual(oldest.clients.map(({ name }) => [name, false]));
  expect(await verdicts(newest.clients)).toEqual(newest.clients.map(({ name }) => [name, true]));
  await server.stop();
});

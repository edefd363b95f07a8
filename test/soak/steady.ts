/** Measures the resources of a replica under long load: heap, file descriptors, timers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { randomUUID } from 'node:crypto';

import { UNIQUE_CLAIMS } from '../../src/runtime/resources.ts';
import {
  ADMISSION_POLICIES,
  askForCertificate,
  createNamespace,
  startClusterFor,
  type Cluster,
} from '../support/cluster.ts';
import { seeInForce } from '../support/gatehouse-cluster.ts';
import { startReplica } from '../support/gatehouse.ts';
import { startLoad, type Load } from '../support/load.ts';
import { freePort } from '../support/processes.ts';
import { readHoldings, withHoldings, type Holdings } from './preload.ts';
import { createKinds, gadget, GROUP, kindOf, policyOf, times } from './scene.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import {
  mutatingWebhookConfigurations,
  secrets,
  services,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import type { Resource } from '../../src/kube/object.ts';
import type { WebhookConfigurationObject } from '../support/objects.ts';
import { createSeeded } from '../support/seeded.ts';
import { createTransport, type Transport } from '../support/transport.ts';

export interface SteadyOptions {
  readonly minutes: number;
  readonly reviewsPerSecond: number;
  readonly changesPerSecond: number;
}

export interface Sample extends Holdings {
  readonly minute: number;
  readonly claims: number;
}

export type Steady = Awaited<ReturnType<typeof measureSteady>>;

const KINDS = 10;
const FIXED = 50;
const NAMESPACE = 'shop';
const SAMPLES = 20;
/** The maximum number of concurrent requests. More would only grow a queue in the client when the replica is slow. */
const LANES = 128;

export async function measureSteady(options: SteadyOptions) {
  const port = await freePort();
  const cluster = await startClusterFor(port);
  try {
    await prepare(cluster);
    const holdingsPort = await freePort(); // as late as possible: processes that start earlier also take ports
    const replica = await startReplica(cluster.plane, { name: 'one', port, ...withHoldings(holdingsPort) });
    try {
      await replica.whenReady();
      for (let index = 0; index < KINDS; index += 1) await seeInForce(cluster, `policy-${index}`);
      const reviewer = await createReviewer(cluster, port);
      const change = createChanger(cluster);
      const { reviewsPerSecond, changesPerSecond } = options;
      const reviews = startLoad({ perSecond: reviewsPerSecond, lanes: LANES, request: reviewer.send });
      const changes = startLoad({ perSecond: changesPerSecond, lanes: LANES, request: change });
      const samples = await sample(options.minutes, [changes, reviews], async () => ({
        ...(await readHoldings(holdingsPort)),
        claims: await countClaims(cluster),
      }));
      const result = {
        samples,
        changes: await changes.stop(),
        reviews: await reviews.stop(),
        answered: reviewer.answered(),
      };
      await reviewer.close();
      return result;
    } finally {
      await replica.program.stop(15_000);
    }
  } finally {
    await cluster.stop();
  }
}

async function prepare(cluster: Cluster): Promise<void> {
  await createKinds(cluster, KINDS);
  await createNamespace(cluster, NAMESPACE);
  await times(KINDS * FIXED, (at) => {
    const [index, n] = [at % KINDS, Math.floor(at / KINDS)];
    const spec = { partner: `fixed-${n}`, serial: `fixed-${index}-${n}`, size: 5, tier: 'standard' };
    return cluster.admin.create(kindOf(index), gadget(index, NAMESPACE, `fixed-${n}`, spec));
  });
  await times(KINDS, (index) =>
    cluster.admin.create(ADMISSION_POLICIES, policyOf(`policy-${index}`, index, KINDS)),
  );
}

/** Takes samples while no request is in flight, because the memory of a running request is not growth. */
async function sample(
  minutes: number,
  loads: readonly [Load, Load],
  look: () => Promise<Omit<Sample, 'minute'>>,
): Promise<readonly Sample[]> {
  const started = performance.now();
  const everyMs = (minutes * 60_000) / SAMPLES;
  const samples: Sample[] = [];
  for (let index = 1; index <= SAMPLES; index += 1) {
    await sleep(Math.max(0, started + index * everyMs - performance.now()));
    const held = await loads[0].between(() => loads[1].between(look));
    samples.push({ minute: (performance.now() - started) / 60_000, ...held });
  }
  return samples;
}

async function countClaims({ admin }: Cluster): Promise<number> {
  return (await admin.listAll(UNIQUE_CLAIMS, { metadataOnly: true })).items.length;
}

const SERVICE_EVERY = 10;

type Change = (cluster: Cluster, life: number) => Promise<unknown>;

/** Three consecutive changes create, change and delete an object, so the number of objects is bounded. */
function createChanger(cluster: Cluster): (n: number) => Promise<void> {
  const under = new Map<number, Promise<unknown>>();
  return async (n) => {
    const [life, stage] = [Math.floor(n / 3), n % 3];
    const step = (life % SERVICE_EVERY === 0 ? SERVICE_STEPS : GADGET_STEPS)[stage];
    const mine = (under.get(life) ?? Promise.resolve()).then(() => step?.(cluster, life));
    under.set(life, mine);
    try {
      await mine;
    } finally {
      if (stage === 2) under.delete(life);
    }
  };
}

const inNamespace = (name: string) => ({ namespace: NAMESPACE, name });
const lifeOf = (life: number) => inNamespace(`life-${life}`);

const GADGET_STEPS: readonly Change[] = [
  ({ admin }, life) => {
    const spec = { partner: 'fixed-0', serial: `life-${life}`, size: 1 };
    return admin.create(kindOf(life % KINDS), gadget(life % KINDS, NAMESPACE, `life-${life}`, spec));
  },
  ({ admin }, life) => admin.patchMerge(kindOf(life % KINDS), lifeOf(life), { spec: { size: 2 } }),
  ({ admin }, life) => admin.delete(kindOf(life % KINDS), lifeOf(life)),
];

const SERVICE_STEPS: readonly Change[] = [
  (cluster, life) => askForCertificate(cluster, NAMESPACE, `web-${life}`),
  ({ see }, life) => see('its Secret', secrets, inNamespace(`web-${life}-tls`), undefined, 30_000),
  async ({ admin }, life) => {
    await admin.delete(services, inNamespace(`web-${life}`));
    // Replaces the garbage collector, which does not run in this test.
    await admin.delete(secrets, inNamespace(`web-${life}-tls`));
  },
];

/** The number of connections that kube-apiserver opens to a webhook at this rate. */
const CONNECTIONS = 32;

interface Review {
  readonly sort: string;
  readonly object: KubeObject;
  /** Undefined: the object is created. */
  readonly oldObject?: KubeObject;
  readonly allowed: boolean;
}

/** Sends reviews as the API server does, and checks the answers. */
async function createReviewer({ admin }: Cluster, port: number) {
  const read = (resource: Resource) => admin.get<WebhookConfigurationObject>(resource, { name: 'gatehouse' });
  const validate = entryOf(await read(validatingWebhookConfigurations));
  const mutate = entryOf(await read(mutatingWebhookConfigurations));
  const ca = Buffer.from(validate.ca, 'base64').toString();
  const transport = createTransport(`https://127.0.0.1:${port}`, ca, CONNECTIONS);
  const counts: Record<string, number> = {};
  const seeded = createSeeded(20_261_122);
  return {
    send: async (n: number) => {
      const index = n % KINDS;
      const isMutating = seeded.chance(0.3);
      const review = reviewOf(index, seeded.below(FIXED), seeded.next());
      const allowed = await post(transport, (isMutating ? mutate : validate).path, index, review);
      const expected = isMutating || review.allowed;
      if (allowed !== expected) throw new Error(`${review.sort}: ${expected ? 'refused' : 'allowed'}`);
      const sort = isMutating ? 'defaulted' : review.sort;
      counts[sort] = (counts[sort] ?? 0) + 1;
    },
    answered: () => counts,
    close: transport.stop,
  };
}

/** All policies of the scene have the same scope, so they share a webhook entry. */
function entryOf(object: WebhookConfigurationObject | undefined) {
  const entry = object?.webhooks?.find(
    ({ clientConfig }) => clientConfig.service?.path?.includes('fail-') === true,
  );
  const path = entry?.clientConfig.service?.path;
  const ca = entry?.clientConfig.caBundle;
  if (path === undefined || ca === undefined) throw new Error('no webhook covers the governed kinds');
  return { path, ca };
}

/** @param chance in [0, 1); selects the sort of review */
function reviewOf(index: number, n: number, chance: number): Review {
  const fields = { partner: `fixed-${n}`, serial: `fixed-${index}-${n}`, tier: 'standard' };
  const fixed = (spec: object) => gadget(index, NAMESPACE, `fixed-${n}`, { ...fields, ...spec });
  const change = (sort: string, allowed: boolean, spec: object): Review => ({
    sort,
    object: fixed(spec),
    oldObject: fixed({ size: 5 }),
    allowed,
  });
  const creation = (sort: string, allowed: boolean, spec: object): Review => ({
    sort,
    object: gadget(index, NAMESPACE, `new-${randomUUID()}`, { ...fields, ...spec }),
    allowed,
  });
  if (chance < 0.4) return change('changed', true, { size: 7 });
  if (chance < 0.7) return creation('created', true, { serial: randomUUID() });
  if (chance < 0.8) return change('too large', false, { size: 101 });
  if (chance < 0.85)
    return creation('no such partner', false, { partner: `none-${randomUUID()}`, serial: randomUUID() });
  if (chance < 0.9) return creation('serial of another', false, {});
  return change('changed, large', true, { size: 8, text: 'lorem ipsum '.repeat(2_000) });
}

async function post({ call }: Transport, path: string, index: number, review: Review): Promise<boolean> {
  const { status, text } = await call({
    method: 'POST',
    path: `${path}?timeout=10s`,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(toWire(index, review)),
  });
  if (status !== 200) throw new Error(`${review.sort}: ${status} ${text.slice(0, 300)}`);
  // The response is an AdmissionReview.
  return (JSON.parse(text) as { readonly response: { readonly allowed: boolean } }).response.allowed;
}

/** A dry run: the objects are never stored, so Gatehouse must not create claims for them. */
function toWire(index: number, { object, oldObject }: Review): object {
  const { version, resource, kind } = kindOf(index);
  const gvk = { group: GROUP, version, kind };
  const gvr = { group: GROUP, version, resource };
  const { metadata } = object;
  return {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: randomUUID(),
      kind: gvk,
      requestKind: gvk,
      resource: gvr,
      requestResource: gvr,
      name: metadata?.name,
      namespace: metadata?.namespace,
      operation: oldObject === undefined ? 'CREATE' : 'UPDATE',
      userInfo: { username: 'system:serviceaccount:ci:deployer', groups: ['system:authenticated'] },
      object,
      oldObject: oldObject ?? null,
      dryRun: true,
      options: null,
    },
  };
}

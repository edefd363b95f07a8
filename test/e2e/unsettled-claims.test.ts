// suite: shared-plane, sandbox: long
/**
 * Issue 16: UniqueClaims remain bounded, even if a tenant sends hostile requests. Another policy refuses the writes after Gatehouse has
 * claimed their values, so that the objects are never stored.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { services, validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import { UNIQUE_CLAIMS } from '../../src/runtime/resources.ts';
import { createNamespace, type Cluster } from '../support/cluster.ts';
import {
  endpointOf,
  refusal,
  seeInForce,
  startGatehouse,
  untilRefused,
  webhooksOf,
} from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { admissionPolicy, referencesRole, type Claim } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { post, reviewOf } from '../support/webhook-client.ts';

/** Long enough for 50 requests, short enough for a test to wait. */
const SETTLE_MS = 30_000;
const PER_OBJECT = 16;
const PER_USER = 512;

let cluster: Cluster;
let replica: Replica;
let tenant: KubeClient;
let neighbour: KubeClient;

const policy = (name: string, spec: object) =>
  admissionPolicy(name, { match: { apiGroups: [''], resources: ['services'] }, ...spec });

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    settings: { 'unique-settle': `${SETTLE_MS}ms` },
    prepare: (started) => started.apply(referencesRole('services', '', ['services'])),
  }));
  for (const name of ['shop', 'lab']) await createNamespace(cluster, name);
  const groups = ['system:masters'];
  tenant = cluster.impersonate({ user: 'tenant', groups });
  neighbour = cluster.impersonate({ user: 'neighbour', groups });
  const unique = [{ name: 'address', paths: ['spec.externalIPs[*]'] }];
  await cluster.apply(policy('addresses', { validate: { unique } }));
  // Another timeout, so another entry: the API server calls both at the same time.
  const rules = [{ expression: "'ok' in object.metadata.labels", message: 'not approved' }];
  await cluster.apply(policy('approval', { timeoutSeconds: 7, validate: { rules } }));
  await seeInForce(cluster, 'addresses');
  await seeInForce(cluster, 'approval');
  await untilRefused('a Service that is not approved', 'not approved', () =>
    create(tenant, 'probe', 0, { ok: false, dryRun: true }),
  );
  await untilRefused('too many addresses', 'holds more than 16 values', () =>
    create(tenant, 'probe', 0, { dryRun: true, length: PER_OBJECT + 1 }),
  );
});

afterAll(() => cluster.stop());

/** Creates a Service with addresses that only Services with the same `n` have. */
const create = (
  client: KubeClient,
  name: string,
  n: number,
  { ok = true, patient = true, namespace = 'shop', dryRun = false, length = PER_OBJECT } = {},
) =>
  client.create(
    services,
    {
      metadata: { namespace, name, labels: ok ? { ok: '' } : { bad: '' } },
      spec: {
        ports: [{ port: 80 }],
        externalIPs: Array.from({ length }, (_, address) => `10.9.${n}.${address + 1}`),
      },
    } as KubeObject,
    // An impatient client does not wait for the second in Retry-After.
    { dryRun, ...(patient ? {} : { timeoutMs: 900 }) },
  );

const claims = async () => (await cluster.admin.listAll<Claim>(UNIQUE_CLAIMS)).items;
const holders = async () => (await claims()).map(({ spec }) => spec.holder.name);
const metric = async (name: string) =>
  Number(new RegExp(`^${name}(?:\\{\\})? (\\d+)$`, 'm').exec(await replica.metrics())?.[1] ?? Number.NaN);

test('a tenant who repeats a failing POST claims at most 512 values, and all of them vanish', async () => {
  const failures: string[] = [];
  // Each attempt has another name and other values, as with generateName.
  const fail = (n: number, patient: boolean) =>
    create(tenant, `failing-${n}`, n, { ok: false, patient }).catch((error: unknown) =>
      failures.push(error instanceof Error ? error.message : ''),
    );
  for (let n = 1; n <= PER_USER / PER_OBJECT; n += 4)
    await Promise.all([n, n + 1, n + 2, n + 3].map((one) => fail(one, true)));
  expect(failures.some((message) => message.includes('not approved'))).toBe(true);
  await Promise.all(Array.from({ length: 18 }, (_, n) => fail(101 + n, false)));
  expect((await claims()).length).toBeLessThanOrEqual(PER_USER);

  const limited = await eventually('a refusal', () =>
    refusal(create(tenant, 'limited', 200, { patient: false })),
  );
  expect(limited.code).toBe(429);
  expect(await metric('gatehouse_unique_claims_refused_total')).toBeGreaterThan(0);
  expect(limited.retryAfterSeconds).toBe(1); // so that clients retry
  expect(limited.message).toContain('too many unique values that "tenant" claimed in namespace "shop"');

  await create(neighbour, 'neighbour', 201);
  await create(tenant, 'elsewhere', 202, { namespace: 'lab' });
  await create(tenant, 'small', 203, { length: 0 });

  const isLeft = async () => {
    const left = await holders();
    return left.length === 2 * PER_OBJECT && left.every((name) => ['neighbour', 'elsewhere'].includes(name));
  };
  await eventually('the claims without objects are gone', isLeft, { timeoutMs: 3 * SETTLE_MS });
  await eventually('the gauge', async () => (await metric('gatehouse_unsettled_unique_claims')) === 0);
  await create(tenant, 'after', 200);
});

test('a forged review for a missing namespace claims nothing', async () => {
  const webhooks = await webhooksOf(cluster, validatingWebhookConfigurations);
  const paths = webhooks.map(({ clientConfig }) => clientConfig.service?.path ?? '');
  const answers = await Promise.all(paths.map((path) => forge(path, 'nowhere')));
  expect(answers.some((answer) => answer.includes('namespace \\"nowhere\\" does not exist'))).toBe(true);
  expect(await holders()).not.toContain('forged');
  const real = await Promise.all(paths.map((path) => forge(path, 'shop')));
  expect(real.some((answer) => answer.includes('"allowed":true'))).toBe(true);
  await eventually('a claim of a forged review', async () => (await holders()).includes('forged'));
});

/** Sends a review as if it came from the API server. Returns the answer. */
async function forge(path: string, namespace: string): Promise<string> {
  const object = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace, name: 'forged', uid: 'forged', labels: { ok: '' } },
    spec: { externalIPs: ['10.10.0.1'] },
  };
  const core = { group: '', version: 'v1' };
  const review = reviewOf({
    uid: 'forged',
    name: 'forged',
    namespace,
    kind: { ...core, kind: 'Service' },
    resource: { ...core, resource: 'services' },
    object,
  });
  const { body } = await post(await endpointOf(cluster, replica), `${path}?timeout=5s`, review);
  return body;
}

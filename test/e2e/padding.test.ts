// suite: shared-plane, sandbox: long
/**
 * Issue 16: padding does not bypass a policy with `failurePolicy: Ignore`. The API server writes `<` as six bytes, so a
 * review is six times as large as its objects, and an update contains two of them.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { deployments } from '../../src/kube/well-known.ts';
import { createNamespace, type Cluster } from '../support/cluster.ts';
import { refusal, seeInForce, startGatehouse, untilRefused } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { admissionPolicy } from '../support/objects.ts';

/** 1.4 MiB. etcd refuses requests above 1.5 MiB. Only built-in kinds are stored without the escapes. */
const STORABLE = Math.floor(1.4 * 2 ** 20);

let cluster: Cluster;
let replica: Replica;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse());
  await createNamespace(cluster, 'shop');
  await cluster.apply(
    admissionPolicy('padding', {
      failurePolicy: 'Ignore',
      timeoutSeconds: 30,
      match: { apiGroups: ['apps'], resources: ['deployments'] },
      validate: {
        rules: [
          {
            name: 'clean',
            expression: 'object.metadata.labels.verdict == "good"',
            message: 'only good ones',
          },
        ],
      },
    }),
  );
  await seeInForce(cluster, 'padding');
  await untilRefused('padding', 'only good ones', () => create('probe', 'bad', [], { dryRun: true }));
});

afterAll(() => cluster.stop());

interface Deployment extends KubeObject {
  readonly spec: object;
}

const specOf = (args: readonly string[]) => ({
  replicas: 0,
  selector: { matchLabels: { app: 'a' } },
  template: {
    metadata: { labels: { app: 'a' } },
    spec: { containers: [{ name: 'main', image: 'example.com/app:1', args }] },
  },
});

const create = (name: string, verdict: string, args: readonly string[], options = {}) =>
  cluster.admin.create<Deployment>(
    deployments,
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { namespace: 'shop', name, labels: { verdict } },
      spec: specOf(args),
    },
    options,
  );
const patch = (name: string, change: object) =>
  cluster.admin.patchMerge(deployments, { namespace: 'shop', name }, change);
const verdictOf = async (name: string) =>
  (await cluster.admin.get<Deployment>(deployments, { namespace: 'shop', name }))?.metadata?.labels?.verdict;

test.each([
  ['lower', '<'.repeat(STORABLE)],
  ['both', '>&'.repeat(STORABLE / 2)],
  ['separators', '\u2028'.repeat(STORABLE / 3)],
])(
  'an object of 1.4 MiB full of escaped characters is judged, on create and on update: %s',
  async (name, text) => {
    expect((await refusal(create(name, 'bad', [text]))).message).toContain('only good ones');
    expect(await verdictOf(name)).toBeUndefined();
    await create(name, 'good', [text]);
    const worse = patch(name, { metadata: { labels: { verdict: 'bad' } } });
    expect((await refusal(worse)).message).toContain('only good ones');
    expect(await verdictOf(name)).toBe('good');
  },
);

test('a review that is larger than two stored objects can make it is refused, not ignored', async () => {
  await create('grown', 'good', ['<'.repeat(STORABLE)]);
  // Only etcd refuses such an object, after admission: the review has more than 6 × (1.4 + 2.4) MiB.
  const error = await refusal(patch('grown', { spec: specOf(['<'.repeat(2.4 * 2 ** 20)]) }));
  expect(error.code).toBe(403);
  expect(error.message).toContain(
    'Gatehouse cannot check this request: the review is larger than 20 MiB: make the object smaller',
  );
});

test('an object with hundreds of thousands of values is judged, and a review with too many is refused', async () => {
  const args = Array.from({ length: 600_000 }, () => '');
  expect((await refusal(create('values', 'bad', args))).message).toContain('only good ones');
  await create('values', 'good', args);
  const worse = patch('values', { metadata: { labels: { verdict: 'bad' } } });
  expect((await refusal(worse)).message).toContain('the review has more than a million values');
  expect(await verdictOf('values')).toBe('good');
});

test('the replica keeps serving', async () => {
  await create('small', 'good', []);
  expect((await replica.readyz()).ok).toBe(true);
});

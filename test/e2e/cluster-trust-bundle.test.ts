// suite: shared-plane, sandbox: long
/** The CA bundle as a ClusterTrustBundle, on API servers that serve this kind. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createDiscovery } from '../../src/kube/discovery.ts';
import type { Resource } from '../../src/kube/object.ts';
import { secrets } from '../../src/kube/well-known.ts';
import { SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { seeEvent, startInjecting } from '../support/injection-objects.ts';
import { eventually } from '../support/processes.ts';

interface TrustBundle extends KubeObject {
  readonly spec?: { readonly signerName?: string; readonly trustBundle?: string };
}

const ref = { name: 'gatehouse.dev:ca:bundle' };
let cluster: Cluster;
let replica: Replica;
let bundle: string;
let served: Resource | undefined;

beforeAll(async () => {
  ({ cluster, replica, bundle } = await startInjecting());
  const wanted = { group: 'certificates.k8s.io', resource: 'clustertrustbundles' };
  served = await createDiscovery(cluster.adminRest, systemClock).resolve(wanted);
});

afterAll(() => cluster.stop());

beforeEach((context) => {
  context.skip(served === undefined, 'this API server serves no ClusterTrustBundles');
});

const see = (what: string, accept: (text: string) => boolean, timeoutMs?: number): Promise<TrustBundle> => {
  if (served === undefined) throw new Error('the test is skipped');
  return cluster.see<TrustBundle>(
    what,
    served,
    ref,
    ({ spec }) => accept(spec?.trustBundle ?? ''),
    timeoutMs,
  );
};
const isBundle = (text: string) => text === bundle;

test('the bundle is published for the signer of Gatehouse', async () => {
  const { spec } = await see('the bundle', isBundle);
  expect(spec).toEqual({ signerName: 'gatehouse.dev/ca', trustBundle: bundle });
});

test('an edited bundle is restored, and a deleted one is created again', async () => {
  if (served === undefined) return;
  const { metadata } = await see('the bundle', isBundle);
  const trustBundle = `# edited\n${bundle}`;
  await cluster.admin.patchMerge(served, ref, { spec: { trustBundle } });
  await see('the restored bundle', isBundle);
  await cluster.admin.delete(served, ref);
  const { metadata: again } = await see('the new bundle', isBundle);
  expect(again?.uid).not.toBe(metadata?.uid);
});

test('nothing is written while the bundle does not change', async () => {
  const before = await see('the bundle', isBundle);
  // The leader counts the bundle a moment after it has written it.
  await eventually('the bundle is current', async () =>
    (await replica.metrics()).includes('cabundle_targets{kind="ClusterTrustBundle",state="current"} 1'),
  );
  expect((await see('the bundle', isBundle)).metadata?.resourceVersion).toBe(
    before.metadata?.resourceVersion,
  );
});

test('a rotation brings the new root before it signs', async () => {
  await cluster.admin.patchMerge(
    secrets,
    { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-authority' },
    { metadata: { annotations: { 'gatehouse.dev/rotate': 'test' } } },
  );
  const { spec } = await see('both roots', (text) => text !== bundle && text.includes(bundle.trim()));
  expect(spec?.trustBundle?.match(/BEGIN CERTIFICATE/g)).toHaveLength(2);
  const { message } = await seeEvent(cluster, SYSTEM_NAMESPACE, 'gatehouse-authority', 'RotationPublished');
  expect(message).not.toContain('ClusterTrustBundle');
});

// suite: shared-plane, sandbox: long
/** CA bundles in the namespaces that a label selector selects, and in a ClusterTrustBundle. */
import { rootCertificates } from 'node:tls';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createDiscovery } from '../../src/kube/discovery.ts';
import type { Resource } from '../../src/kube/object.ts';
import { configMaps, events, namespaces } from '../../src/kube/well-known.ts';
import { caBundle } from '../../src/pki/authority/authority.ts';
import { splitCertificates } from '../../src/pki/x509/pem.ts';
import { firstAuthority } from '../support/pki/fixtures.ts';
import { createNamespace, SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import type { EventObject } from '../support/objects.ts';
import { seeEvent, startInjecting, type Carrier } from '../support/injection-objects.ts';
import { eventually } from '../support/processes.ts';
import { askForRotation } from '../support/rotation-scene.ts';

let cluster: Cluster;
let bundle: string;
let company: string;
const NAME = 'company-trust';
const source = { namespace: SYSTEM_NAMESPACE, name: NAME };

beforeAll(async () => {
  ({ cluster, bundle } = await startInjecting());
  await cluster.applyFolder('components/distribute-bundles');
  company = caBundle(await firstAuthority(new Date()), new Date());
  for (const name of ['web-one', 'web-two', 'batch']) await createNamespace(cluster, name);
  await label('web-one', 'web');
  await label('web-two', 'web');
});

afterAll(() => cluster.stop());

const label = (name: string, team: string | null) =>
  cluster.admin.patchMerge(namespaces, { name }, { metadata: { labels: { team } } });
const copyIn = (namespace: string) => cluster.admin.get<Carrier>(configMaps, { namespace, name: NAME });
const seeCopy = (namespace: string, accept: (text: string) => boolean, timeoutMs = 40_000) =>
  cluster.see<Carrier>(
    `the copy in ${namespace}`,
    configMaps,
    { namespace, name: NAME },
    ({ data = {} }) => accept(data['ca.crt'] ?? ''),
    timeoutMs,
  );
const seeNone = (namespace: string) =>
  eventually(`no copy in ${namespace}`, async () => (await copyIn(namespace)) === undefined);

test('the bundle of the authority and of the company is written into the selected namespaces only', async () => {
  const annotations = { 'gatehouse.dev/distribute-to': 'team=web' };
  await cluster.admin.create<Carrier>(configMaps, {
    metadata: { ...source, annotations },
    data: { 'company.pem': `# our root\n${company}${company}` },
  });
  for (const namespace of ['web-one', 'web-two'])
    await seeCopy(namespace, (text) => text === bundle + company);
  expect(await copyIn('batch')).toBeUndefined();
});

test('a ConfigMap of another owner is neither overwritten nor deleted when the selector stops matching its namespace', async () => {
  const theirs = { metadata: { namespace: 'batch', name: NAME }, data: { 'ca.crt': 'theirs' } };
  await cluster.admin.create<Carrier>(configMaps, theirs);
  await label('batch', 'web');
  const { message } = await seeEvent(cluster, SYSTEM_NAMESPACE, NAME, 'ForeignConfigMap');
  expect(message).toContain('ConfigMap batch/company-trust belongs to another owner');
  await createNamespace(cluster, 'batch-two');
  await cluster.admin.create(configMaps, { metadata: { namespace: 'batch-two', name: NAME } });
  await label('batch-two', 'web');
  await eventually('an Event names both', async () => {
    const { items } = await cluster.admin.list<EventObject>(events, { namespace: SYSTEM_NAMESPACE });
    return items.some(({ message: text }) =>
      text.endsWith('rename it, or the bundle. The copies in batch are not written either.'),
    );
  });
  await label('batch-two', null);
  await label('batch', null);
  await label('web-two', 'batch');
  await seeNone('web-two');
  expect((await copyIn('batch'))?.data).toEqual(theirs.data);
});

test('a deleted copy is created again, and a namespace that is selected later gets its copy', async () => {
  await cluster.admin.delete(configMaps, { namespace: 'web-one', name: NAME });
  await seeCopy('web-one', (text) => text === bundle + company);
  await label('web-two', 'web');
  await seeCopy('web-two', (text) => text === bundle + company);
});

test('a broken source changes no copy, and a repaired one is distributed', async () => {
  const edit = (text: string) =>
    cluster.admin.patchMerge(configMaps, source, { data: { 'company.pem': text } });
  await edit(company.slice(0, 200));
  const { message } = await seeEvent(cluster, SYSTEM_NAMESPACE, NAME, 'InvalidDistribution');
  expect(message).toBe('company.pem is broken: line 1: the certificate is cut off: its END line is missing');
  expect((await copyIn('web-one'))?.data?.['ca.crt']).toBe(bundle + company);
  const other = caBundle(await firstAuthority(new Date()), new Date());
  await edit(other);
  await seeCopy('web-one', (text) => text === bundle + other);
});

test('public CAs can be added', async () => {
  const annotations = { 'gatehouse.dev/bundle-sources': 'authority,public' };
  await cluster.admin.patchMerge(configMaps, source, { metadata: { annotations } });
  const hasAll = (text: string) => text.startsWith(bundle) && text.length > 100_000;
  const { data } = await seeCopy('web-one', hasAll);
  const fingerprints = new Set(splitCertificates(data?.['ca.crt'] ?? '').map((one) => one.fingerprint256));
  const living = rootCertificates.flatMap(splitCertificates).filter((one) => one.validToDate > new Date());
  expect(living.filter((one) => !fingerprints.has(one.fingerprint256))).toEqual([]);
});

const rotate = () => askForRotation(cluster, 'test');

describe('a ClusterTrustBundle', () => {
  interface TrustBundle extends KubeObject {
    readonly spec?: { readonly signerName?: string; readonly trustBundle?: string };
  }
  const ref = { name: 'gatehouse.dev:ca:bundle' };
  let served: Resource | undefined;

  beforeAll(async () => {
    const wanted = { group: 'certificates.k8s.io', resource: 'clustertrustbundles' };
    served = await createDiscovery(cluster.adminRest, systemClock).resolve(wanted);
  });

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
    const { metadata, spec } = await see('the bundle', isBundle);
    expect(metadata?.labels).toEqual({ 'velero.io/exclude-from-backup': 'true' });
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

  test('gets the new root in a rotation before it signs', async () => {
    await rotate();
    const { spec } = await see('both roots', (text) => text !== bundle && text.includes(bundle.trim()));
    expect(spec?.trustBundle?.match(/BEGIN CERTIFICATE/g)).toHaveLength(2);
    const { message } = await seeEvent(cluster, SYSTEM_NAMESPACE, 'gatehouse-authority', 'RotationPublished');
    expect(message).not.toContain('ClusterTrustBundle');
  });
});

test('a rotation brings the new root to every copy', async () => {
  await rotate(); // the same rotation, if the API server serves ClusterTrustBundles
  const published = await cluster.see<Carrier>(
    'the new root',
    configMaps,
    { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-cabundle' },
    ({ data = {} }) => data['ca.crt'] !== bundle,
  );
  const both = published.data?.['ca.crt'] ?? '';
  for (const namespace of ['web-one', 'web-two']) await seeCopy(namespace, (text) => text.startsWith(both));
});

test('copies are deleted with their source', async () => {
  await cluster.admin.delete(configMaps, source);
  await seeNone('web-one');
  await seeNone('web-two');
  expect(await copyIn('batch')).toBeDefined();
});

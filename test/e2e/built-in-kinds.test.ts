// suite: shared-plane, sandbox: long
/** Policies for kinds of the core API group, whose name is the empty string. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeClient } from '../../src/kube/client.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps } from '../../src/kube/well-known.ts';
import { ADMISSION_POLICIES, createNamespace, RESTORE_WINDOWS, type Cluster } from '../support/cluster.ts';
import { seeInForce, startGatehouse, untilRefused } from '../support/gatehouse-cluster.ts';
import { admissionPolicy, type Conditioned, type ConfigMap } from '../support/objects.ts';

const RESTORER = { user: 'system:serviceaccount:velero:velero', groups: ['system:masters'] };

let cluster: Cluster;
let restorer: KubeClient;

beforeAll(async () => {
  ({ cluster } = await startGatehouse());
  await createNamespace(cluster, 'shop');
  await cluster.apply(
    policy('parents', {
      immutable: ['data.zone'],
      references: [{ name: 'parent', path: 'data.parent', target: { apiGroup: '', resource: 'configmaps' } }],
    }),
  );
  await seeInForce(cluster, 'parents');
  await untilRefused('a ConfigMap without its parent', 'data.parent', () =>
    cluster.admin.create(configMaps, configMap('probe', { parent: 'missing' }), { dryRun: true }),
  );
  restorer = cluster.impersonate(RESTORER);
});

afterAll(() => cluster.stop());

const configMap = (name: string, data: Readonly<Record<string, string>>): ConfigMap => ({
  metadata: { namespace: 'shop', name },
  data,
});

function policy(name: string, validate: object): KubeObject & { readonly spec: object } {
  return admissionPolicy(name, { match: { apiGroups: [''], resources: ['configmaps'] }, validate });
}

test('the policy keeps the empty string as the user wrote it', async () => {
  const stored = await cluster.admin.get<ReturnType<typeof policy>>(ADMISSION_POLICIES, { name: 'parents' });
  expect(stored?.spec).toMatchObject({
    match: { apiGroups: [''] },
    validate: { references: [{ target: { apiGroup: '', resource: 'configmaps' } }] },
  });
});

test('a ConfigMap that names another one can only be created after it', async () => {
  const child = configMap('child', { parent: 'mother' });
  await expect(cluster.admin.create(configMaps, child)).rejects.toMatchObject({
    causes: [{ field: 'data.parent', reason: 'FieldValueNotFound' }],
  });
  await cluster.admin.create(configMaps, configMap('mother', {}));
  await cluster.admin.create(configMaps, child);
});

test('an immutable field of a ConfigMap cannot be changed', async () => {
  const ref = { namespace: 'shop', name: 'fixed' };
  await cluster.admin.create(configMaps, configMap('fixed', { zone: 'a' }));
  await expect(cluster.admin.patchMerge(configMaps, ref, { data: { zone: 'b' } })).rejects.toMatchObject({
    causes: [{ field: 'data.zone', reason: 'FieldValueForbidden' }],
  });
  await cluster.admin.patchMerge(configMaps, ref, { data: { other: 'b' } });
});

test('the report of a restore names a missing target of the core group', async () => {
  const window: KubeObject & { readonly spec: object } = {
    apiVersion: 'gatehouse.dev/v1alpha1',
    kind: 'RestoreWindow',
    metadata: { name: 'drill' },
    spec: {
      principals: [{ user: RESTORER.user }],
      expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
    },
  };
  await cluster.admin.create(RESTORE_WINDOWS, window);
  await restorer.create(configMaps, configMap('early', { parent: 'late' }));
  await cluster.admin.patchMerge(RESTORE_WINDOWS, { name: 'drill' }, { spec: { close: true } });
  const { status } = await cluster.see<Window>(
    'the report',
    RESTORE_WINDOWS,
    { name: 'drill' },
    (object) => object.status?.phase === 'CompletedWithViolations',
    30_000,
  );
  expect(status?.violations?.items).toMatchObject([
    { object: { name: 'early' }, target: { group: '', resource: 'configmaps', name: 'late' } },
  ]);
});

interface Window extends Conditioned {
  readonly status?: NonNullable<Conditioned['status']> & {
    readonly phase?: string;
    readonly violations?: { readonly items: readonly object[] };
  };
}

test('a kind that two API groups serve is checked by the policies for both, whichever group the client uses', async () => {
  const about = (name: string, apiGroup: string, field: string) => ({
    ...policy(name, {}),
    spec: {
      match: { apiGroups: [apiGroup], resources: ['events'] },
      validate: {
        rules: [{ expression: `object.?${field}.orValue('') != '${name}'`, message: `not ${name}` }],
      },
    },
  });
  // Only the group differs, so both policies could share a webhook entry.
  await cluster.apply(about('old-events', '', 'message'));
  await cluster.apply(about('new-events', 'events.k8s.io', 'note'));
  const oldEvent = (message: string) =>
    cluster.admin.create(
      { group: '', version: 'v1', resource: 'events', namespaced: true, kind: 'Event' },
      {
        metadata: { namespace: 'shop', generateName: 'e-' },
        involvedObject: { kind: 'Pod', namespace: 'shop', name: 'a' },
        message,
      },
      { dryRun: true },
    );
  const newEvent = (note: string) =>
    cluster.admin.create(
      { group: 'events.k8s.io', version: 'v1', resource: 'events', namespaced: true, kind: 'Event' },
      {
        metadata: { namespace: 'shop', generateName: 'e-' },
        regarding: { kind: 'Pod', namespace: 'shop', name: 'a' },
        ...{ note, eventTime: '2026-11-21T12:00:00.000000Z', type: 'Normal', action: 'Test', reason: 'Test' },
        ...{ reportingController: 'test', reportingInstance: 'test' },
      },
      { dryRun: true },
    );
  for (const [name, create] of [
    ['old-events', oldEvent],
    ['new-events', newEvent],
    ['new-events', oldEvent],
    ['old-events', newEvent],
  ] as const)
    await untilRefused(`the text ${name}`, `not ${name}`, () => create(name));
  await expect(oldEvent('harmless')).resolves.toBeDefined();
});

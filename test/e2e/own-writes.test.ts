// suite: shared-plane, sandbox: no (its owners are not collected)
/**
 * What Gatehouse's controllers write to objects of users, under the shipped backstop and under policies that refuse every
 * update: nothing refuses the links after a restore, and every other refusal is reported with who refused.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, namespaces } from '../../src/kube/well-known.ts';
import { listIn } from '../../src/json/json.ts';
import { applyBackstop } from '../support/backstop.ts';
import { established, RESTORE_WINDOWS, type Cluster } from '../support/cluster.ts';
import { seeInForce, startGatehouse, untilRefused } from '../support/gatehouse-cluster.ts';
import { seeEvent } from '../support/injection-objects.ts';
import { admissionPolicy, condition, configMap, referencesRole, restoreWindow } from '../support/objects.ts';
import { ownersOf, recordOf, type SweptWindow } from '../support/owner-scene.ts';
import { eventually } from '../support/processes.ts';
import {
  application,
  applicationPolicy,
  APPLICATIONS,
  kindManifests,
  ownersPolicy,
  relinkRole,
  uidsPolicy,
  type Application,
} from '../support/restore-kinds.ts';
import { VELERO } from '../support/velero-client.ts';

/** Who refuses every update in the namespace. Only the webhook can evaluate a rule whose message has a line break. */
const REFUSERS = { api: 'no updates', webhook: 'no\nupdates' } as const;
const BY = { api: 'ValidatingAdmissionPolicy', webhook: 'admission webhook' } as const;
type Refuser = keyof typeof REFUSERS;

const { match } = applicationPolicy.spec;
const governed = { apiGroups: ['', ...match.apiGroups], resources: ['configmaps', ...match.resources] };
const frozen = (refuser: Refuser) =>
  admissionPolicy(`frozen-${refuser}`, {
    match: { ...governed, namespaceSelector: { matchLabels: { frozen: refuser } } },
    validate: { rules: [{ expression: "request.operation == 'CREATE'", message: REFUSERS[refuser] }] },
  });
const mapOwners = admissionPolicy('map-owners', {
  match: {
    apiGroups: [''],
    resources: ['configmaps'],
    namespaceSelector: { matchExpressions: [{ key: 'frozen', operator: 'Exists' }] },
  },
  owners: { preserve: true },
});

let cluster: Cluster;

beforeAll(async () => {
  ({ cluster } = await startGatehouse({
    settings: { 'compile-policies': 'true' },
    prepare: async (prepared) => {
      await prepared.applyFolder('components/compile-policies');
      await applyBackstop(prepared);
      const mapsRole = referencesRole('maps', '', ['configmaps'], ['patch']);
      await prepared.apply(...kindManifests, relinkRole, mapsRole, clusterAdmin('restorer', VELERO.user));
      await established(prepared, 'applications.restore.example.com');
    },
  }));
  const policies = [ownersPolicy, uidsPolicy, mapOwners];
  await cluster.apply(...policies);
  for (const { metadata } of policies) await seeInForce(cluster, metadata.name);
});
afterAll(() => cluster.stop());

describe.each(['api', 'webhook'] as const)('where the %s refuses every update', (refuser) => {
  const at = (name: string) => ({ namespace: refuser, name });
  let report: SweptWindow;
  let uid: string | undefined;

  beforeAll(async () => {
    const { admin } = cluster;
    await admin.create(namespaces, { metadata: { name: refuser, labels: { frozen: refuser } } });
    const owner = await admin.create<Application>(APPLICATIONS, application(refuser, 'owner', {}));
    const old = { name: 'owner', uid: owner.metadata?.uid ?? '' };
    const ownerReferences = [{ apiVersion: 'restore.example.com/v1', kind: APPLICATIONS.kind, ...old }];
    const peer = { namespace: refuser, ...old };
    const objects = [
      [APPLICATIONS, (metadata: object) => application(refuser, 'child', { peer }, metadata)],
      [configMaps, (metadata: object) => configMap('map', {}, { ...at('map'), ...metadata })],
    ] as const;
    const backups = await eventually('owners are recorded', async () => {
      const dryRun = true;
      const recorded = await Promise.all(
        objects.map(([kind, make]) => admin.create<KubeObject>(kind, make({ ownerReferences }), { dryRun })),
      );
      return recorded.every((one) => recordOf(one) !== undefined) ? recorded : undefined;
    });
    await admin.delete(APPLICATIONS, at('owner'));
    await cluster.apply(frozen(refuser));
    await seeInForce(cluster, `frozen-${refuser}`);
    const tool = cluster.impersonate(VELERO);
    await admin.create(RESTORE_WINDOWS, restoreWindow(refuser, { principals: [{ user: VELERO.user }] }));
    await cluster.see('the open window', RESTORE_WINDOWS, { name: refuser }, isIn('Open'));
    for (const [index, [kind, make]] of objects.entries()) {
      const annotations = backups[index]?.metadata?.annotations ?? {};
      await tool.create<KubeObject>(kind, make({ annotations }));
    }
    await untilRefused('an update', BY[refuser], () =>
      admin.patchMerge(configMaps, at('map'), { data: { a: 'b' } }, { dryRun: true }),
    );
    ({ uid } =
      (await tool.create<Application>(APPLICATIONS, application(refuser, 'owner', {}))).metadata ?? {});
    await admin.patchMerge(RESTORE_WINDOWS, { name: refuser }, { spec: { close: true } });
    report = await cluster.see<SweptWindow>(
      'the report',
      RESTORE_WINDOWS,
      { name: refuser },
      isIn('CompletedWithViolations'),
      30_000,
    );
  });

  test.each([
    ['an Application', APPLICATIONS, 'child'],
    ['a ConfigMap, which the backstop limits', configMaps, 'map'],
  ] as const)('the owner of %s is linked, and its field has no manager', async (_what, kind, name) => {
    const object = await cluster.see<KubeObject>(name, kind, at(name));
    expect(ownersOf(object)).toMatchObject([{ uid }]);
    expect(recordOf(object)).toContain(uid);
    expect(JSON.stringify(listIn(object, 'metadata', 'managedFields'))).not.toContain('f:ownerReferences');
  });

  test('the uid in a field is not written, and the report says who refused', () => {
    expect(report.status?.relink).toMatchObject({ linked: 2, failed: 1 });
    expect(report.status?.relink?.items).toMatchObject([
      { field: 'spec.peer.uid', message: expect.stringContaining('add an exception') as string },
    ]);
    expect(condition(report, 'Ready')).toMatchObject({ status: 'False', reason: 'LinkFailed' });
  });

  test('a bundle is not injected, and an Event gives the reason', async () => {
    const asks = { annotations: { 'gatehouse.dev/inject-cabundle': 'true' } };
    await cluster.admin.create(configMaps, configMap('trust', {}, { ...at('trust'), ...asks }));
    const { message } = await seeEvent(cluster, refuser, 'trust', 'InjectionRefused');
    expect(message).toContain('updates');
  });
});

const isIn =
  (phase: string) =>
  ({ status }: SweptWindow): boolean =>
    status?.phase === phase;

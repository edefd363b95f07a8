/** Faults that only a real Velero has shown. The ids are those of research/reports/real-velero.md. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { RestoreWindow } from '../../src/api/restore-window.ts';
import { messageOf } from '../../src/json/abort.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import type { Cluster } from '../support/cluster.ts';
import { seeInForce } from '../support/gatehouse-cluster.ts';
import { condition } from '../support/objects.ts';
import { ownersOf, recordOf } from '../support/owner-scene.ts';
import { eventually } from '../support/processes.ts';
import {
  application,
  APPLICATIONS,
  ownersPolicy,
  relinkRole,
  ZONES,
  type Application,
} from '../support/restore-kinds.ts';
import { enforceApplications, seeReportOf } from '../support/restore-scene.ts';
import {
  awaitingScene,
  createLinks,
  linkRef,
  linksBackup,
  linksRole,
  looseScene,
  loseLinks,
  olderScene,
  OWNED_KINDS,
  rulesPolicies,
  linksPolicies,
} from '../support/real-velero/faulty-scenes.ts';
import { backUp, restore, type RestoreResult } from '../support/real-velero/server.ts';
import { backupOf, createScene, loseScene } from '../support/real-velero/scenes.ts';
import { detectRestores, startStage, type Stage } from '../support/real-velero/stage.ts';

const SCENES = [awaitingScene(), looseScene(), olderScene()];

let stage: Stage;
let cluster: Cluster;
const results = new Map<string, RestoreResult>();
const reports = new Map<string, RestoreWindow>();

beforeAll(async () => {
  stage = await startStage();
  ({ cluster } = stage);
  await recordOwners();
  await createLinks(cluster);
  for (const scene of SCENES) await createScene(cluster, scene);
  await backUp(stage.velero, 'links', linksBackup);
  for (const scene of SCENES) await backUp(stage.velero, scene.name, backupOf(scene));
  await Promise.all([loseLinks(cluster), ...SCENES.map((scene) => loseScene(cluster, scene))]);

  await enforceApplications(cluster);
  await cluster.apply(...rulesPolicies);
  for (const { metadata } of rulesPolicies) await seeInForce(cluster, metadata.name);
  await detectRestores(cluster);
  for (const name of ['links', ...SCENES.map((scene) => scene.name)]) {
    const spec = SCENES.find((scene) => scene.name === name)?.restores[0];
    results.set(name, await restore(stage.velero, name, name, spec));
  }
  for (const name of results.keys()) reports.set(name, await seeReportOf(cluster, name));
});

afterAll(() => stage.stop());

/** Resolves when the API server asks Gatehouse about owners. */
async function recordOwners(): Promise<void> {
  const policies = [ownersPolicy, ...linksPolicies];
  await cluster.apply(relinkRole, linksRole, ...policies);
  for (const { metadata } of policies) await seeInForce(cluster, metadata.name);
  const owner = { apiVersion: 'v1', kind: 'Namespace', name: 'default', uid: 'some' };
  const probe = application('default', 'probe', {}, { ownerReferences: [owner] });
  await eventually('owners are recorded', async () =>
    recordOf(await cluster.admin.create<Application>(APPLICATIONS, probe, { dryRun: true })),
  );
}

const app = (namespace: string, name: string): Promise<Application> =>
  cluster.see<Application>(`${namespace}/${name}`, APPLICATIONS, { namespace, name });
const uidsOf = (object: KubeObject) => ownersOf(object).map(({ uid }) => uid);
const violationsOf = (name: string): readonly string[] =>
  (reports.get(name)?.status?.violations?.items ?? [])
    .filter(({ object }) => object.namespace === name)
    .map(({ object, reason }) => `${object.name} ${reason}`)
    .toSorted();

describe('V1: owners that are restored after their dependents', () => {
  const owned = OWNED_KINDS.map((kind) => [kind.kind, kind] as const);
  const stored = (kind: Resource): Promise<KubeObject> => cluster.see(kind.kind, kind, linkRef);

  test.each(owned)('the %s is restored, and its owner is known', async (_name, kind) => {
    expect(results.get('links')).toMatchObject({ phase: 'Completed', errors: [] });
    expect(recordOf(await stored(kind))).toContain('links-owner');
  });

  test('the report says so', () => {
    const report = reports.get('links') as unknown as Parameters<typeof condition>[0];
    expect(condition(report, 'OwnersRelinked')).toMatchObject({ status: 'True' });
  });

  test.each(owned)('the %s has its owner again', async (_name, kind) => {
    const owner = await cluster.admin.get(ZONES, { name: 'links-owner' });
    expect(uidsOf(await stored(kind))).toEqual([owner?.metadata?.uid]);
  });
});

describe('V2: a rule that depends on a target that is restored later', () => {
  test('the object is restored, and keeps the rule', async () => {
    expect((await app('awaits', 'a')).spec.zone).toBe('awaits-red');
    expect(violationsOf('awaits')).toEqual([]);
  });

  // The rule follows its reference, even for Velero's second write, which changes only managedFields.
  test('Velero restores managedFields without an error', () => {
    expect(results.get('awaits')).toMatchObject({ phase: 'Completed', errors: [] });
  });

  // An update is not refused for a reference that it does not change.
  test('an object whose target stays missing can be edited', async () => {
    const edit = { metadata: { labels: { edited: 'yes' } } };
    const edited = cluster.admin.patchMerge(APPLICATIONS, { namespace: 'loose', name: 'a-zone' }, edit, {
      dryRun: true,
    });
    expect(await edited.then(() => 'edited', messageOf)).toBe('edited');
  });
});

describe('V3: owners of objects that break a deferred check', () => {
  test('the objects are restored with their record, and reported', async () => {
    for (const name of ['a-zone', 'b-slug', 'z-slug'])
      expect(recordOf(await app('loose', name))).toContain('k-owner');
    expect([...new Set(violationsOf('loose'))]).toEqual([
      'a-zone TargetMissing',
      'b-slug CheckFailed',
      'z-slug CheckFailed',
    ]);
  });

  test.each(['a-zone', 'b-slug'])('%s, which is restored before its owner, has it again', async (name) => {
    const owner = await app('loose', 'k-owner');
    expect(uidsOf(await app('loose', name))).toEqual([owner.metadata?.uid]);
  });

  test('z-slug, which is restored after its owner, has it again', async () => {
    const owner = await app('loose', 'k-owner');
    expect(uidsOf(await app('loose', 'z-slug'))).toEqual([owner.metadata?.uid]);
  });

  // The sweep also removes the entries of managedFields with the uid of the backup.
  test('the managedFields of z-slug contain only the current uid', async () => {
    const { metadata } = await app('loose', 'z-slug');
    const fields = JSON.stringify((metadata as { readonly managedFields?: unknown }).managedFields);
    const named = [...fields.matchAll(/k:\{\\"uid\\":\\"([^\\"]+)/g)].map(([, uid]) => uid);
    expect(named.filter((uid) => uid !== metadata?.ownerReferences?.[0]?.uid)).toEqual([]);
  });
});

describe('V6: an older violation of an object that Velero only labels', () => {
  test('Velero could not change the object, and labelled it', async () => {
    expect(results.get('older')).toMatchObject({ phase: 'Completed', errors: [] });
    expect(results.get('older')?.warnings.join()).toContain('spec.slug');
    const { metadata, spec } = await app('older', 'a');
    expect(spec.slug).toBe('now');
    expect(metadata?.labels).toMatchObject({ 'velero.io/restore-name': 'older' });
  });

  // A report names only what its own restore wrote: the audit of the policy has this violation.
  test('the report does not list it', () => expect(violationsOf('older')).toEqual([]));
});

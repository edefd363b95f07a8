/** What a real Velero loses when it restores with the policies alone, and what with restore mode. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { readBackup } from '../../src/cli/restore/backup.ts';
import { modifiersOf } from '../../src/cli/restore/rehearse/modifiers.ts';
import { listIn, objectIn } from '../../src/json/json.ts';
import { groupResourceName } from '../../src/json/kube-object.ts';
import { configMaps, namespaces, services } from '../../src/kube/well-known.ts';
import { restoredObject } from '../../src/restore/backup/restored-object.ts';
import { application, APPLICATIONS } from '../support/restore-kinds.ts';
import { brokenIn, linesOf } from '../support/restore-oracle.ts';
import { seeReportOf } from '../support/restore-scene.ts';
import { predictionOf, rehearsed } from '../support/real-velero/rehearse.ts';
import { backUp, restore } from '../support/real-velero/server.ts';
import {
  loseScene,
  lostOf,
  namespacesOf,
  readScene,
  SCENES,
  type Scene,
} from '../support/real-velero/scenes.ts';
import {
  backUpScene,
  detectRestores,
  enforcePolicies,
  startStage,
  type Stage,
} from '../support/real-velero/stage.ts';

let stage: Stage;
const backups = new Map<string, Awaited<ReturnType<typeof backUpScene>>>();

beforeAll(async () => {
  stage = await startStage();
  await enforcePolicies(stage.cluster);
  await Promise.all(
    SCENES.map(async ([, scene]) => backups.set(scene.name, await backUpScene(stage, scene))),
  );
});

afterAll(() => stage.stop());

function backupNamed(name: string) {
  const backup = backups.get(name);
  if (backup === undefined) throw new Error(`there is no backup ${name}`);
  return backup;
}

const lost = async (scene: Scene): Promise<readonly string[]> =>
  lostOf(backupNamed(scene.name).before, await readScene(stage.cluster, scene), scene.restores[0] ?? {});

const loseAll = () => Promise.all(SCENES.map(([, scene]) => loseScene(stage.cluster, scene)));

describe('with the policies alone', () => {
  beforeAll(loseAll);

  test.each(SCENES)('%s: objects are lost', async (_scenario, scene) => {
    for (const [index, spec] of scene.restores.entries())
      await restore(stage.velero, `${scene.name}-alone-${index}`, scene.name, spec);
    expect(await lost(scene)).not.toEqual([]);
  });
});

describe('with restore mode', () => {
  beforeAll(async () => {
    await loseAll();
    await detectRestores(stage.cluster);
  });

  test.each(SCENES)('%s: nothing is lost, and rehearsal and report are right', async (_scenario, scene) => {
    const { cluster, velero } = stage;
    const { archive } = backupNamed(scene.name);
    for (const [index, spec] of scene.restores.entries()) {
      const { namespaceMapping = {} } = spec;
      const places = new Set(namespacesOf(scene).map((name) => namespaceMapping[name] ?? name));
      const predicted = await rehearsed(cluster, archive, spec);
      const name = `${scene.name}-${index}`;
      const { phase, errors, warnings } = await restore(velero, name, scene.name, spec);
      const { status } = await seeReportOf(cluster, name);
      const reported = linesOf(status?.violations?.items ?? [], places);
      const broken = await brokenIn(cluster.admin, places, namespaceMapping);
      const { refused = [] } = scene;
      expect(errors).toEqual([]);
      expect(phase).toBe('Completed');
      expect(reported).toEqual(broken);
      const denied = warnings.filter((warning) => warning.includes('denied the request'));
      expect(denied).toHaveLength(refused.length);
      expect(predicted).toEqual([...broken.map(predictionOf), ...refused].toSorted());
    }
    expect(await lost(scene)).toEqual([]);
  });

  test('resource modifiers: the objects are the predicted ones, and so are the problems', async () => {
    const { cluster, velero } = stage;
    const { admin } = cluster;
    const at = (name: string) => ({ namespace: 'modified', name });
    await admin.create(namespaces, { metadata: { name: 'modified' } });
    for (const name of ['gone', 'not-strategic', 'merged'])
      await admin.create(APPLICATIONS, application('modified', name, {}, { labels: { app: 'x' } }));
    await admin.create(services, SERVICE);
    const kinds = [groupResourceName(APPLICATIONS), 'services'];
    const archive = await backUp(velero, 'modified', {
      includedNamespaces: ['modified'],
      includedResources: kinds,
    });
    const { items } = await readBackup(archive);
    await admin.delete(services, at('web'));
    for (const name of ['gone', 'not-strategic', 'merged']) await admin.delete(APPLICATIONS, at(name));
    const configMap = { metadata: { namespace: 'velero', name: 'changes' }, data: { rules: MODIFIERS } };
    await admin.create(configMaps, configMap);

    const spec = { resourceModifier: { kind: 'ConfigMap', name: 'changes' } } as const;
    const predicted = await rehearsed(cluster, archive, spec);
    const { phase, errors } = await restore(velero, 'modified-0', 'modified', spec);
    const { status } = await seeReportOf(cluster, 'modified-0');
    const reported = linesOf(status?.violations?.items ?? [], new Set(['modified']));
    expect(phase).toBe('PartiallyFailed');
    expect(errors).toEqual([expect.stringContaining('no kind "Application" is registered')]);
    const failed = `NotModified ${groupResourceName(APPLICATIONS)} modified/not-strategic`;
    expect(predicted).toEqual([failed, ...reported.map(predictionOf)].toSorted());
    expect(reported).toHaveLength(1);

    const names = {
      backup: 'modified',
      restore: 'modified-0',
      namespaceMapping: {},
      modify: modifiersOf(configMap),
    };
    for (const item of items) {
      const kind = item.resource.resource === 'services' ? services : APPLICATIONS;
      const { metadata, spec: changed } = restoredObject(item, names);
      const { labels } = objectIn({ metadata }, 'metadata');
      const ports = listIn(changed, 'ports');
      const expected =
        kind === services
          ? { metadata: { labels }, spec: { ports } }
          : { metadata: { labels }, spec: changed };
      expect(await admin.get(kind, at(item.name))).toMatchObject(expected);
    }
  });
});

const SERVICE = {
  metadata: { namespace: 'modified', name: 'web', labels: { app: 'web' } },
  spec: {
    ports: [
      { name: 'http', port: 80 },
      { name: 'https', port: 443 },
    ],
  },
};

const MODIFIERS = `
version: v1
resourceModifierRules:
  - conditions: { groupResource: services, labelSelector: { matchLabels: { app: web } } }
    strategicPatches:
      - patchData: '{"spec": {"ports": [{"port": 443, "targetPort": 8443}]}}'
      - patchData: '{"metadata": {"labels": {"tier": "front"}}}'
  - conditions: { groupResource: 'applications.*.*.com', resourceNameRegex: ^gone$ }
    patches: [{ operation: add, path: /spec/zone, value: modified-gone }]
  - conditions: { groupResource: '{applications,zones}.restore.example.com', resourceNameRegex: strategic }
    strategicPatches: [{ patchData: '{"metadata": {"labels": {"a": "b"}}}' }]
  - conditions:
      groupResource: applications.restore.example.com
      namespaces: ['mod[a-k]fie?']
      matches: [{ path: /metadata/name, value: merged }, { path: /spec/zone, value: 'null' }]
    mergePatches: [{ patchData: 'metadata: { labels: { merged: "yes" } }' }]
  - conditions: { groupResource: applications.restore.example.com }
    patches:
      - { operation: add, path: /metadata/labels/tested, value: '"true"' }
      - { operation: test, path: /metadata/name, value: other }
`;

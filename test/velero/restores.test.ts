/** What a real Velero loses when it restores with the policies alone, and what with restore mode. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { brokenIn, linesOf } from '../support/restore-oracle.ts';
import { seeReportOf } from '../support/restore-scene.ts';
import { predictionOf, rehearsed } from '../support/real-velero/rehearse.ts';
import { restore } from '../support/real-velero/server.ts';
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
});

/** How many restores of generated backups `gatehouse restore rehearse` predicts exactly, with a real Velero. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { keyOf, objectKey, type KubeObject } from '../../src/json/kube-object.ts';
import { seeInForce } from '../support/gatehouse-cluster.ts';
import { isNightly } from '../support/nightly.ts';
import { ownersOf } from '../support/owner-scene.ts';
import { APPLICATIONS, ownersPolicy, relinkRole, slugPolicy } from '../support/restore-kinds.ts';
import { enforceApplications, seeReportOf } from '../support/restore-scene.ts';
import { generatedScene } from '../support/real-velero/generated-scenes.ts';
import { rehearsed } from '../support/real-velero/rehearse.ts';
import { restore } from '../support/real-velero/server.ts';
import {
  clearScene,
  loseScene,
  readScene,
  type Scene,
  type Snapshot,
} from '../support/real-velero/scenes.ts';
import { backUpScene, detectRestores, startStage, type Stage } from '../support/real-velero/stage.ts';
import { createSeeded } from '../support/seeded.ts';
import { backupObject } from '../support/velero-client.ts';
import { rulesPolicies } from '../support/real-velero/faulty-scenes.ts';

/** `GATEHOUSE_SEED` reproduces a run. */
const SEED = Number(process.env.GATEHOUSE_SEED ?? Date.now() % 2 ** 31);
const COUNT = Number(process.env.GATEHOUSE_GRAPHS ?? 50);
/** Reports of a batch are awaited together. */
const BATCH = 5;
const LONG_MS = 900_000;

const WHY = 'only with GATEHOUSE_NIGHTLY=1: the restores take ten minutes';
if (!isNightly) console.log(`generated backups are left out: ${WHY}`);

type Case = Awaited<ReturnType<typeof prepare>>;
type Restored = Awaited<ReturnType<typeof restored>>;

let stage: Stage;
let cases: readonly Case[] = [];
let exact = 0;
const totals = { true: 0, predicted: 0, false: 0, missed: 0 };

describe.skipIf(!isNightly)(`generated backups (${WHY})`, () => {
  beforeAll(async () => {
    console.log(`GATEHOUSE_SEED=${SEED}`);
    stage = await startStage();
    const { cluster } = stage;
    await cluster.apply(relinkRole, ownersPolicy);
    await seeInForce(cluster, ownersPolicy.metadata.name);
    const made: Case[] = [];
    for (let index = 0; index < COUNT; index += 1)
      made.push(await prepare(generatedScene(`g${index}`, createSeeded(SEED + index))));
    cases = made;
    const policies = [slugPolicy, ...rulesPolicies];
    await cluster.apply(...policies);
    await enforceApplications(cluster);
    for (const { metadata } of policies) await seeInForce(cluster, metadata.name);
    await detectRestores(cluster);
  }, LONG_MS);

  afterAll(() => stage.stop());

  test.each(Array.from({ length: Math.ceil(COUNT / BATCH) }, (_, batch) => batch * BATCH))(
    'backups from %i on: the rehearsal predicts nothing falsely',
    async (first) => {
      const batch: Restored[] = [];
      for (const one of cases.slice(first, first + BATCH)) batch.push(await restored(one));
      const wrong: string[] = [];
      for (const one of batch) wrong.push(...(await compare(one)));
      // Sweeps that check old violations again would delay the sweeps of the next batch.
      for (const { scene } of batch) await clearScene(stage.cluster, scene);
      expect(wrong, `GATEHOUSE_SEED=${SEED}`).toEqual([]);
    },
    LONG_MS,
  );

  test('the figures', () => {
    console.log(`exact predictions: ${exact} of ${COUNT}; findings: ${JSON.stringify(totals)}`);
    expect(totals.true, 'the generator breaks something').toBeGreaterThan(COUNT);
    expect(exact).toBeGreaterThan(0);
  });
});

async function prepare(scene: Scene) {
  const backup = await backUpScene(stage, scene);
  await loseScene(stage.cluster, scene);
  return { scene, ...backup };
}

async function restored(one: Case) {
  const { scene, archive } = one;
  const { cluster, velero } = stage;
  const spec = scene.restores[0] ?? {};
  const existing = await readScene(cluster, scene);
  const predicted = await rehearsed(cluster, archive, spec);
  await restore(velero, scene.name, scene.name, spec);
  return { ...one, existing, predicted };
}

/** @returns what the rehearsal predicted and did not happen */
async function compare(one: Restored): Promise<readonly string[]> {
  const { scene, predicted } = one;
  const truth = await truthOf(one);
  const missed = without(truth, predicted);
  const wrong = without(predicted, truth);
  if (missed.length + wrong.length === 0) exact += 1;
  else
    console.log(
      `${scene.name}: missed ${missed.join(', ') || 'nothing'}; wrong ${wrong.join(', ') || 'nothing'}`,
    );
  totals.true += truth.length;
  totals.predicted += predicted.length;
  totals.false += wrong.length;
  totals.missed += missed.length;
  return wrong;
}

/** The lines that the other list does not have, as often as they come. */
function without(some: readonly string[], others: readonly string[]): readonly string[] {
  const left = [...others];
  return some.filter((line) => {
    const at = left.indexOf(line);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}

/** What a rehearsal should have predicted: from the stored objects, and from the report. */
async function truthOf({ scene, before, existing }: Restored): Promise<readonly string[]> {
  const { cluster } = stage;
  const { namespaceMapping = {}, existingResourcePolicy } = scene.restores[0] ?? {};
  const { status } = await seeReportOf(cluster, scene.name);
  const { total = 0, items = [] } = status?.violations ?? {};
  expect(total, 'all are listed').toBe(items.length);
  const byKey = (objects: Snapshot) => new Map(objects.map((object) => [keyOf(object), object]));
  const [was, is] = [byKey(existing), byKey(await readScene(cluster, scene))];
  const found = before.flatMap((object) => {
    const { namespace, name } = object.metadata ?? {};
    const key = objectKey({ name, namespace: namespaceMapping[namespace ?? ''] ?? namespace });
    const line = (reason: string) =>
      `${reason} ${object.kind === APPLICATIONS.kind ? 'applications' : 'zones'}.${APPLICATIONS.group} ${key}`;
    const now = is.get(key);
    if (now === undefined) return [line('Refused')];
    if (was.has(key)) {
      // Velero labels what it could write.
      const isWritten =
        isSame(object, now) && now.metadata?.labels?.['velero.io/restore-name'] === scene.name;
      return existingResourcePolicy === 'update' && !isWritten ? [line('Refused')] : [];
    }
    return [
      ...(isIncomplete(now) ? [line('Incomplete')] : []),
      ...(ownersOf(object).length === ownersOf(now).length ? [] : [line('OwnerNotLinked')]),
    ];
  });
  const violations = items.map(
    ({ reason, object }) => `${reason} applications.${APPLICATIONS.group} ${objectKey(object)}`,
  );
  return [...found, ...violations].toSorted();
}

const isSame = (a: Snapshot[number], b: Snapshot[number]): boolean =>
  JSON.stringify(a.spec ?? {}) === JSON.stringify(b.spec ?? {});

/** Velero's second write removes its own entry. */
const isIncomplete = (object: KubeObject): boolean =>
  (backupObject(object).metadata.managedFields ?? []).some(
    (entry) => (entry as { readonly manager?: string }).manager === 'velero-server',
  );

/** How many restores of generated backups `gatehouse restore rehearse` predicts exactly, with a real Velero. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { groupResourceName, keyOf, objectKey } from '../../src/json/kube-object.ts';
import { seeInForce } from '../support/gatehouse-cluster.ts';
import { isNightly } from '../support/nightly.ts';
import { ownersOf } from '../support/owner-scene.ts';
import { APPLICATIONS, ownersPolicy, relinkRole, slugPolicy } from '../support/restore-kinds.ts';
import { enforceApplications, seeReportOf } from '../support/restore-scene.ts';
import { generatedScene } from '../support/real-velero/generated-scenes.ts';
import { clearBuiltIns, kindOf, RESTORED_KINDS } from '../support/real-velero/generated-kinds.ts';
import { rehearsal, type Predicted } from '../support/real-velero/rehearse.ts';
import { restore } from '../support/real-velero/server.ts';
import { clearScene, loseScene, readScene, type Scene } from '../support/real-velero/scenes.ts';
import { backUpScene, detectRestores, startStage, type Stage } from '../support/real-velero/stage.ts';
import { createSeeded } from '../support/seeded.ts';
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
const totals = { objects: 0, reports: 0, missed: 0, wrong: 0 };

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
    'backups from %i on: the rehearsal predicts each object, each warning and each error',
    async (first) => {
      const batch: Restored[] = [];
      for (const one of cases.slice(first, first + BATCH)) batch.push(await restored(one));
      const different: string[] = [];
      for (const one of batch) different.push(...(await compare(one)));
      // Sweeps that check old violations again would delay the sweeps of the next batch.
      for (const { scene } of batch) {
        await clearScene(stage.cluster, scene);
        await clearBuiltIns(stage.cluster, scene);
      }
      expect(different, `GATEHOUSE_SEED=${SEED}`).toEqual([]);
    },
    LONG_MS,
  );

  test('the figures', () => {
    console.log(`exact predictions: ${exact} of ${COUNT}; ${JSON.stringify(totals)}`);
    expect(totals.reports, 'the generator breaks something').toBeGreaterThan(COUNT);
    expect(exact).toBe(COUNT);
  });
});

async function prepare(scene: Scene) {
  const backup = await backUpScene(stage, scene);
  await loseScene(stage.cluster, scene);
  return { scene, ...backup };
}

async function restored(one: Case) {
  const { scene, archive } = one;
  const spec = scene.restores[0] ?? {};
  const predicted = await rehearsal(stage.cluster, archive, spec);
  return { ...one, predicted, real: await restore(stage.velero, scene.name, scene.name, spec) };
}

/** @returns what the rehearsal predicts and does not happen, and what happens and it does not predict */
async function compare(one: Restored): Promise<readonly string[]> {
  const { scene, predicted, real } = one;
  const truth = await truthOf(one);
  const lines = linesOf(predicted);
  const reports = matchReports(predicted.objects, real);
  const missed = [...without(truth, lines), ...reports.missed];
  const wrong = [...without(lines, truth), ...reports.wrong];
  if (missed.length + wrong.length === 0) exact += 1;
  totals.objects += truth.length;
  totals.reports += real.errors.length + real.warnings.length;
  totals.missed += missed.length;
  totals.wrong += wrong.length;
  return [...missed.map((line) => `missed: ${line}`), ...wrong.map((line) => `wrong: ${line}`)].map(
    (line) => `${scene.name} ${line}`,
  );
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

/** In Velero's words. */
const ACTIONS: Readonly<Record<string, string>> = {
  restored: 'created',
  incomplete: 'created',
  updated: 'updated',
  labelled: 'skipped',
  exists: 'skipped',
  omitted: 'skipped',
};
/** The report of Velero has them. */
const OF_WRITES = ['Refused', 'NotServed', 'Incomplete'];
/** Velero restores what else is selected, without a word. */
const OURS = 'NotInBackup';

/** Velero lists no Namespace that it finds. */
const isListed = ({ object, result }: Predicted): boolean =>
  !(object.startsWith('namespaces ') && result === 'exists');

const linesOf = ({ findings, objects }: Restored['predicted']): readonly string[] => [
  ...objects.filter(isListed).map(({ object, result }) => `${ACTIONS[result] ?? 'failed'} ${object}`),
  ...findings
    .filter(
      ({ severity, reason }) => severity === 'problem' && !OF_WRITES.includes(reason) && reason !== OURS,
    )
    .map(({ reason, object }) => `${reason} ${object}`),
];

/** What a rehearsal should have predicted: from Velero's list, from the stored objects, and from the report. */
async function truthOf({ scene, before, real }: Restored): Promise<readonly string[]> {
  const { cluster } = stage;
  const { status } = await seeReportOf(cluster, scene.name);
  const { total = 0, items = [] } = status?.violations ?? {};
  expect(total, 'all are listed').toBe(items.length);
  const written = Object.entries(real.items).flatMap(([kind, lines]) => {
    const resource = groupResourceName(kindOf({ kind: kind.split('/').at(-1) ?? '' }));
    return lines.map((line) => line.replace(/^(.*)\((.*)\)$/, `$2 ${resource} $1`));
  });
  const { namespaceMapping = {} } = scene.restores[0] ?? {};
  const owned = new Map((await readScene(cluster, scene)).map((one) => [keyOf(one), ownersOf(one).length]));
  const unlinked = before.flatMap((object) => {
    const { namespace, name } = object.metadata ?? {};
    const key = objectKey({ name, namespace: namespaceMapping[namespace ?? ''] ?? namespace });
    const line = `${groupResourceName(kindOf(object))} ${key}`;
    const isLost = written.includes(`created ${line}`) && ownersOf(object).length !== owned.get(key);
    return isLost ? [`OwnerNotLinked ${line}`] : [];
  });
  const violations = items.map(
    ({ reason, object }) => `${reason} applications.${APPLICATIONS.group} ${objectKey(object)}`,
  );
  return [...written, ...unlinked, ...violations];
}

/** Each predicted error and warning has one of Velero's: the same object with the same reason. */
function matchReports(objects: readonly Predicted[], { errors, warnings }: Restored['real']) {
  const left = { error: [...errors], warning: [...warnings] };
  const wrong = objects.flatMap((one) =>
    reportsOf(one).flatMap(({ level, isReported }) => {
      const at = left[level].findIndex(isReported);
      if (at >= 0) left[level].splice(at, 1);
      return at >= 0 ? [] : [`${level} ${one.result} ${one.object}: ${one.message}`];
    }),
  );
  const missed = Object.entries(left).flatMap(([level, lines]) => lines.map((line) => `${level} ${line}`));
  return { wrong, missed };
}

/** The API server adds how the versions of a Pod or a claim differ, with random spaces. */
const withoutDiff = (line: string): string => line.replace(/\n[^]*$/, '');

function reportsOf({ object, result, message }: Predicted) {
  const [resource = '', key = ''] = object.split(' ');
  const name = key.split('/').at(-1) ?? '';
  const kind = RESTORED_KINDS.find((one) => groupResourceName(one) === resource)?.kind ?? '';
  const reason = message.replace(/^a dry run is refused: [A-Z]+ \S+: \d+ \w+: /, ''); // the client adds the request
  const report = (level: 'error' | 'warning', isReported: (line: string) => boolean) => [
    { level, isReported },
  ];
  const already = new RegExp(`^could not restore, ${kind}(?::| ")${name}"? already exists`);
  switch (result) {
    case 'different':
      return report('warning', (line) => already.test(line));
    case 'kept':
      return report('warning', (line) => withoutDiff(line).endsWith(withoutDiff(reason)));
    case 'unlabelled':
      return [...report('warning', (line) => line.endsWith(reason)), ...report('error', () => true)];
    case 'incomplete':
      return report('error', (line) => line.endsWith(reason));
    case 'refused':
      return report(
        'error',
        // Velero does not name an existing object whose labels are refused.
        (line) =>
          [`error restoring ${resource}/${key}: `, 'admission webhook '].some((start) =>
            line.startsWith(start),
          ) && line.endsWith(reason),
      );
    default:
      return [];
  }
}

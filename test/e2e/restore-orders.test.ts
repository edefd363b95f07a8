// suite: shared-plane, sandbox: long, nightly
/**
 * A3 as a property: for any backup and any write order, only objects that violate a rule are lost, and the report is correct. A rehearsal of the
 * same backup predicts the outcome, object by object.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { groupResourceName, keyOf } from '../../src/json/kube-object.ts';
import type { Cluster } from '../support/cluster.ts';
import { testsSandbox } from '../support/control-plane.ts';
import { seeInForce, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { isNightly } from '../support/nightly.ts';
import { predict, refusedIn, restoredIn } from '../support/rehearsal.ts';
import { randomGraph, type Graph } from '../support/restore-graph.ts';
import { brokenIn, linesOf } from '../support/restore-oracle.ts';
import {
  enforceApplications,
  installKinds,
  seeReportOf,
  trustVelero,
  untilDetectorCounts,
} from '../support/restore-scene.ts';
import { APPLICATIONS, slugPolicy, ZONES, type Application } from '../support/restore-kinds.ts';
import { createSeeded } from '../support/seeded.ts';
import { createVelero, installVelero, type Velero } from '../support/velero.ts';

/** `GATEHOUSE_SEED` reproduces a failure. */
const SEED = Number(process.env.GATEHOUSE_SEED ?? Date.now() % 2 ** 31);
/** CI restores fewer than `npm run test:sandbox`, and `npm run test:nightly` restores 1,000 in the sandbox. */
const GRAPHS = Number(
  process.env.GATEHOUSE_GRAPHS ??
    (isNightly || (testsSandbox() && process.env.GATEHOUSE_LONG === '1') ? 50 : 10),
);
/**
 * Each restore waits for the same settle time, so several wait together. The violations of a batch fit into a report.
 */
const BATCH = testsSandbox() ? 10 : 5;

let cluster: Cluster;
let replica: Replica;
let velero: Velero;
let violations = 0;
let refused = 0;

beforeAll(async () => {
  console.log(`GATEHOUSE_SEED=${SEED}`);
  ({ cluster, replica } = await startGatehouse({
    prepare: async (fresh) => {
      await installKinds(fresh);
      await installVelero(fresh);
    },
  }));
  await enforceApplications(cluster);
  await cluster.apply(slugPolicy);
  await seeInForce(cluster, 'slugs');
  await trustVelero(cluster, { settle: '1s', idle: '1s' });
  velero = createVelero(cluster.plane, { seed: SEED, leadMs: 0 }); // earlier than Velero writes
  await untilDetectorCounts(cluster);
});

afterAll(async () => {
  await velero.stop();
  await replica.program.stop(15_000);
  await cluster.stop();
});

async function restore(index: number): Promise<{ readonly name: string; readonly graph: Graph }> {
  const name = `g${index}`;
  const seeded = createSeeded(SEED + index);
  const graph = randomGraph(name, seeded);
  const { errors } = await velero.restore({
    name,
    backup: graph.backup,
    spec: graph.spec,
    ...(seeded.chance(0.5) ? { order: seeded.shuffle } : {}),
  });
  const lost = errors.map((error) => /^error restoring [^/]+\/(\S+): /.exec(error)?.[1] ?? error).toSorted();
  expect(lost, `graph ${index} of GATEHOUSE_SEED=${SEED}`).toEqual(graph.refused);
  refused += lost.length;
  return { name, graph };
}

/** The objects with the label of this restore. */
async function stored(restored: string): Promise<readonly string[]> {
  const lists = await Promise.all(
    [APPLICATIONS, ZONES].map(async (kind) => {
      const { items } = await cluster.admin.listAll(kind, {
        labelSelector: `velero.io/restore-name=${restored}`,
      });
      return items.map((object) => `${groupResourceName(kind)} ${keyOf(object)}`);
    }),
  );
  return lists.flat().toSorted();
}

/** Cleans up, so that the next batch starts with an empty report. */
async function tidyUp(): Promise<void> {
  const { items } = await cluster.admin.listAll<Application>(APPLICATIONS);
  for (const { metadata } of items)
    await cluster.admin.delete(APPLICATIONS, {
      namespace: metadata?.namespace,
      name: metadata?.name ?? '',
    });
}

const batches = Array.from({ length: GRAPHS / BATCH }, (_, batch) => batch * BATCH);

test.each(batches)(
  'A3: graphs from %i on lose only what a rule refuses, and report and rehearsal match the stored objects',
  async (first) => {
    const restored = [];
    for (let index = first; index < first + BATCH; index++) restored.push(await restore(index));
    for (const { name, graph } of restored) {
      const { status } = await seeReportOf(cluster, name);
      const { total = 0, items = [] } = status?.violations ?? {};
      expect(total, 'all are listed').toBe(items.length);
      const expected = await brokenIn(cluster.admin, graph.namespaces, graph.spec.namespaceMapping);
      violations += expected.length;
      const what = `${name} of GATEHOUSE_SEED=${SEED}`;
      expect(linesOf(items, graph.namespaces), what).toEqual(expected);
      const predicted = await predict(graph);
      expect(linesOf(predicted.violations, graph.namespaces), `the rehearsal of ${what}`).toEqual(expected);
      expect(refusedIn(predicted), `the rehearsal of ${what}`).toEqual(graph.refused);
      expect(restoredIn(predicted), `the rehearsal of ${what}`).toEqual(await stored(name));
    }
    await tidyUp();
  },
  300_000,
);

test('the graphs have broken references and refused objects', () => {
  expect(violations).toBeGreaterThan(GRAPHS / 2);
  expect(refused).toBeGreaterThan(0);
});

/** Checks that the cluster has converged: repeats all checks after the last fault, until they pass or 30 s are over. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { KubeClient } from '../../src/kube/client.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { UNIQUE_CLAIMS } from '../../src/runtime/resources.ts';
import { ADMISSION_POLICIES } from '../support/cluster.ts';
import { isTrue, type Conditioned } from '../support/objects.ts';
import { MACHINES, RACKS, type Machine } from './kinds.ts';
import { untilHealthy } from './replicas.ts';
import type { Scene } from './scene.ts';
import { afterDefaults, differenceOf, nameOf, problemsOfStored, type StoredProblem } from './oracle.ts';
import type { Entry } from './traffic.ts';

export const CONVERGED_WITHIN_MS = 30_000;

export interface Convergence {
  readonly ms: number;
  readonly problems: readonly string[];
}

export async function converge(scene: Scene): Promise<Convergence> {
  const from = performance.now();
  for (;;) {
    const problems = await problemsOf(scene);
    const ms = performance.now() - from;
    if (problems.length === 0 || ms > CONVERGED_WITHIN_MS) return { ms, problems };
    await sleep(250);
  }
}

async function problemsOf(scene: Scene): Promise<readonly string[]> {
  const { admin } = scene.cluster;
  const looks: readonly Promise<readonly string[]>[] = [replicas(scene), policies(admin), claims(admin)];
  const settled = await Promise.allSettled(looks);
  return settled.flatMap((one) => (one.status === 'fulfilled' ? one.value : [String(one.reason)]));
}

async function replicas(scene: Scene): Promise<readonly string[]> {
  return await untilHealthy(scene.replicas, 0).then(
    () => [],
    () => ['not all replicas are ready, or not exactly one of them leads'],
  );
}

async function policies(admin: KubeClient): Promise<readonly string[]> {
  const { items } = await admin.listAll<Conditioned>(ADMISSION_POLICIES);
  const missing = ['machines', 'racks'].filter(
    (name) => !items.some(({ metadata }) => metadata?.name === name),
  );
  const bad = items.filter((one) => !isTrue('Ready')(one) || !isTrue('WebhooksInstalled')(one));
  return [
    ...missing.map((name) => `the policy ${name} is gone`),
    ...bad.map(({ metadata }) => `the policy ${metadata?.name ?? ''} is not ready`),
  ];
}

interface Claim extends KubeObject {
  readonly spec: {
    readonly values: readonly string[];
    readonly holder: { readonly namespace?: string; readonly name: string };
  };
}

async function claims(admin: KubeClient): Promise<readonly string[]> {
  const machines = (await admin.listAll<Machine>(MACHINES)).items;
  const held = (await admin.listAll<Claim>(UNIQUE_CLAIMS)).items.map(
    ({ spec: { values, holder } }) =>
      `${JSON.parse(values[0] ?? '""') as string} of ${holder.namespace ?? ''}/${holder.name}`,
  );
  const wanted = machines.flatMap(({ metadata, spec: { serial } }) =>
    serial === undefined ? [] : [`${serial} of ${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`],
  );
  const left = held.filter((one) => !wanted.includes(one));
  const missing = wanted.filter((one) => !held.includes(one));
  return [
    ...(left.length > 0 ? [`${left.length} claims are left over, such as ${left[0] ?? ''}`] : []),
    ...(missing.length > 0 ? [`${missing.length} claims are missing, such as ${missing[0] ?? ''}`] : []),
  ];
}

export async function checkStored({ cluster, tally, traffic, stamps }: Scene): Promise<number> {
  const { admin } = cluster;
  const before = new Map(traffic.stock.all().map((entry) => [entry, settledVersion(entry)]));
  const { items: machines } = await admin.listAll<Machine>(MACHINES);
  const { items } = await admin.listAll(RACKS);
  const racks = new Set(items.map(({ metadata }) => metadata?.name ?? ''));
  for (const problem of problemsOfStored(machines, racks, stamps.ever()))
    if (await stillHolds(admin, problem)) tally.wrongStored(problem.name, problem.why);
  const found = new Map(machines.map((one) => [nameOf(one), one]));
  for (const [entry, version] of before) {
    if (version === undefined || settledVersion(entry) !== version) continue; // the entry changed in the meantime
    const name = `${entry.namespace}/${entry.name}`;
    const why = contradiction(entry, found.get(name));
    if (why !== undefined) tally.wrongStored(name, why);
  }
  return machines.length;
}

const settledVersion = ({ isBusy, version }: Entry): number | undefined => (isBusy ? undefined : version);

export function contradiction({ spec }: Pick<Entry, 'spec'>, found: Machine | undefined): string | undefined {
  if (found === undefined) return spec === undefined ? undefined : 'it is gone';
  return spec === undefined ? 'it is there' : differenceOf(found.spec, afterDefaults(spec));
}

/** The load never creates a deleted Rack again: if it is missing, it is still missing when the Machine is read. */
async function stillHolds(admin: KubeClient, { name, rack }: StoredProblem): Promise<boolean> {
  if (rack === undefined) return true;
  if ((await admin.get(RACKS, { name: rack })) !== undefined) return false;
  const [namespace = '', own = ''] = name.split('/');
  return (await admin.get(MACHINES, { namespace, name: own })) !== undefined;
}

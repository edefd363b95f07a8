/** Reads the stored objects, and checks them against the rules and against the writes of the load. */
import type { KubeClient } from '../../src/kube/client.ts';
import { MACHINES, RACKS, type Machine } from './kinds.ts';
import { afterDefaults, differenceOf, nameOf, problemsOfStored, type StoredProblem } from './oracle.ts';
import type { Scene } from './scene.ts';
import type { Entry } from './stock.ts';

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

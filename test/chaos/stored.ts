/** Reads the stored objects, and checks them against the rules and against the writes of the load. */
import { type KubeList, resourcePath } from '../../src/kube/object.ts';
import { eventually } from '../support/processes.ts';
import type { Client } from './client.ts';
import { MACHINES, RACKS, type Machine } from './kinds.ts';
import { nameOf, problemsOfStored, type StoredProblem } from './oracle.ts';
import type { Scene } from './scene.ts';
import { contradiction, type Entry } from './stock.ts';

/** Returns the number of checked objects. Problems go into the tally. */
export async function checkStored({ client, tally, traffic, stamps }: Scene): Promise<number> {
  const before = new Map(traffic.stock.all().map((entry) => [entry, settledVersion(entry)]));
  const machines = await list(client, resourcePath(MACHINES));
  const racks = new Set(
    (await list(client, resourcePath(RACKS))).map(({ metadata }) => metadata?.name ?? ''),
  );
  for (const problem of problemsOfStored(machines, racks, stamps.ever()))
    if (await stillHolds(client, problem)) tally.wrongStored(problem.name, problem.why);
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

/** The load never creates a deleted Rack again: if it is missing, it is still missing when the Machine is read. */
async function stillHolds(client: Client, { name, rack }: StoredProblem): Promise<boolean> {
  if (rack === undefined) return true;
  if ((await client.ask('GET', resourcePath(RACKS, { name: rack }))).code !== 404) return false;
  const [namespace = '', own = ''] = name.split('/');
  return (await client.ask('GET', resourcePath(MACHINES, { namespace, name: own }))).code === 200;
}

async function list(client: Client, path: string): Promise<readonly Machine[]> {
  return await eventually(
    `a list of ${path}`,
    async () => {
      const { code, object } = await client.ask('GET', path);
      // The path is that of a collection.
      return code === 200 ? (object as unknown as KubeList<Machine>).items : undefined;
    },
    { timeoutMs: 30_000, everyMs: 100 },
  );
}

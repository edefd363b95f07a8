/** Reads again what is stored, and holds it against the rules and against what the load has written. */
import { type KubeList, resourcePath } from '../../src/kube/object.ts';
import { eventually } from '../support/processes.ts';
import type { Client } from './client.ts';
import { MACHINES, RACKS, type Machine } from './kinds.ts';
import { nameOf, problemsOfStored, type StoredProblem } from './oracle.ts';
import type { Scene } from './scene.ts';
import { contradiction, type Entry } from './stock.ts';

/** Gives how many objects were looked at. What is wrong with them goes into the tally. */
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
    if (version === undefined || settledVersion(entry) !== version) continue; // it changed meanwhile
    const name = `${entry.namespace}/${entry.name}`;
    const why = contradiction(entry, found.get(name));
    if (why !== undefined) tally.wrongStored(name, why);
  }
  return machines.length;
}

const settledVersion = ({ isBusy, version }: Entry): number | undefined => (isBusy ? undefined : version);

/** A Rack is never created a second time, so one that is missing before its Machine is read is missing for good. */
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
      return code === 200 ? (object as unknown as KubeList<Machine>).items : undefined; // what lies at the path of a collection
    },
    { timeoutMs: 30_000, everyMs: 100 },
  );
}

/** `gatehouse restore plan`: the steps of one restore into one cluster, as Markdown. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';

import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { GROUP } from '../../api/group.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { groupResourceName, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import type { BackedUp, RestoreChoices, TargetCluster } from '../../restore/runbook/facts.ts';
import { runbookOf } from '../../restore/runbook/runbook.ts';
import { ADMISSION_POLICIES, RESTORE_DETECTORS } from '../../runtime/resources.ts';
import type { UserCluster } from '../connect.ts';
import { readObjects } from '../review/input.ts';
import type { ClusterFlags } from '../terminal/options.ts';
import { WrongUsage } from './new-window.ts';

export interface PlanFlags extends ClusterFlags {
  readonly backupName?: string;
  readonly veleroNamespace: string;
  readonly includeNamespaces: readonly string[];
  readonly namespaceMappings: readonly string[];
  readonly existingResourcePolicy: RestoreChoices['existingResourcePolicy'];
}

/** Prints the runbook. */
export async function planRestore(cluster: UserCluster, path: string, flags: PlanFlags): Promise<0> {
  const items = readBackup(path);
  const target = await readTarget(cluster, items);
  const backup = flags.backupName ?? basename(path);
  process.stdout.write(runbookOf({ items, cluster: target, choices: { ...flags, backup } }));
  return 0;
}

/**
 * The objects of an unpacked backup of Velero: `resources/<resource>.<group>/{cluster,namespaces/<namespace>}/*.json`.
 *
 * @throws WrongUsage if it is something else
 */
export function readBackup(folder: string): readonly BackedUp[] {
  const resources = join(folder, 'resources');
  if (!existsSync(resources))
    throw new WrongUsage(`${folder} has no folder "resources": unpack the backup, and name its folder`);
  return readdirSync(resources).flatMap((name) => {
    // Further folders contain the same objects in the versions that the API server served.
    const places = ['cluster', 'namespaces'].map((place) => join(resources, name, place)).filter(existsSync);
    return readObjects(places, { recursive: true, standardInput: () => '' }).map(({ object }) => ({
      resource: resourceOf(name),
      object: object, // it has apiVersion and kind
    }));
  });
}

function resourceOf(name: string): GroupResource {
  const [resource = '', ...group] = name.split('.');
  return { group: group.join('.'), resource };
}

async function readTarget(
  { client, discovery, server, version }: UserCluster,
  items: readonly BackedUp[],
): Promise<TargetCluster> {
  const groups = new Set([GROUP, ...items.map(({ resource }) => resource.group)]);
  const served = new Set<string>();
  for (const group of groups)
    for (const resource of await discovery.servedIn(group)) served.add(groupResourceName(resource));
  const all = async <T extends KubeObject>(resource: typeof ADMISSION_POLICIES): Promise<readonly T[]> =>
    served.has(groupResourceName(resource)) ? (await client.listAll<T>(resource)).items : [];
  return {
    server,
    version: version.gitVersion,
    served,
    policies: await all<AdmissionPolicy>(ADMISSION_POLICIES),
    detectors: await all<RestoreDetector>(RESTORE_DETECTORS),
  };
}

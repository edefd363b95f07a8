/** `gatehouse restore plan`: the steps of one restore into one cluster, as Markdown. */
import { basename } from 'node:path';

import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { GROUP } from '../../api/group.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { groupResourceName, type KubeObject } from '../../json/kube-object.ts';
import { createSelection } from '../../restore/backup/selection.ts';
import type { BackedUp, RestoreChoices, TargetCluster } from '../../restore/runbook/facts.ts';
import { runbookOf } from '../../restore/runbook/runbook.ts';
import { ADMISSION_POLICIES, RESTORE_DETECTORS } from '../../runtime/resources.ts';
import type { UserCluster } from '../connect.ts';
import type { ClusterFlags } from '../terminal/options.ts';
import { print } from '../terminal/output.ts';
import { readBackup } from './backup/read-backup.ts';
import { parseMapping } from './rehearse/flags.ts';

export interface PlanFlags extends ClusterFlags {
  readonly backupName?: string;
  readonly veleroNamespace: string;
  readonly includeNamespaces: readonly string[];
  readonly namespaceMappings: readonly string[];
  readonly existingResourcePolicy: RestoreChoices['existingResourcePolicy'];
}

/** What the plan reads of the cluster. */
interface Target extends Pick<UserCluster, 'server' | 'version'> {
  readonly client: Pick<UserCluster['client'], 'listAll'>;
  readonly discovery: Pick<UserCluster['discovery'], 'servedIn'>;
}

/** Prints the runbook. @throws UnusableBackup */
export async function planRestore(cluster: Target, path: string, flags: PlanFlags): Promise<0> {
  const { items } = await readBackup(path);
  const { includeNamespaces } = flags;
  const skipped = createSelection({ includeNamespaces, includeClusterResources: true });
  const restored = items.filter((item) => skipped(item) === undefined);
  const target = await readTarget(cluster, restored);
  const backup = flags.backupName ?? basename(path, '.tar.gz');
  const namespaceMapping = parseMapping(flags.namespaceMappings);
  const choices = { ...flags, namespaceMapping, path, backup };
  await print(runbookOf({ items: restored, cluster: target, choices }));
  return 0;
}

async function readTarget(
  { client, discovery, server, version }: Target,
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

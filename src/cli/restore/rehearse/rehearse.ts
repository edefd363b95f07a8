/** `gatehouse restore rehearse`: what a restore of this backup would lose or break. */
import { basename } from 'node:path';

import { GROUP } from '../../../api/group.ts';
import { ownNamespace } from '../../../config/config.ts';
import { parseJson, textIn } from '../../../json/json.ts';
import { printable } from '../../../json/printable.ts';
import { withCluster, type UserCluster } from '../../connect.ts';
import type { PlacedObject } from '../../review/documents.ts';
import { hasColours, print } from '../../terminal/output.ts';
import { withProgress } from '../../terminal/progress.ts';
import { newestBackup, type FoundBackup } from '../backup/newest-backup.ts';
import { dryRun, readEverything, readPolicies, readTarget, type ClusterObjects } from './cluster.ts';
import { isProblem, type Finding } from './findings.ts';
import { checkSources, namesOf, type RehearseFlags } from './flags.ts';
import { readBackedUp, readGiven, toInput, type RehearsalInput } from './input.ts';
import { rehearseRestore } from './rehearsal.ts';
import { formatRehearsal, type Rehearsal } from './report.ts';
import { messageOf } from '../../../json/error-message.ts';
import { createEventRecorder } from '../../../kube/events.ts';
import { configMaps } from '../../../kube/well-known.ts';
import type { KubeObject } from '../../../json/kube-object.ts';
import {
  noteOf,
  parseData,
  rehearsalResult,
  REHEARSAL_CONFIGMAP,
  toData,
} from '../../../restore/rehearsal-result.ts';

/**
 * Prints the findings.
 *
 * @param path undefined with `--newest-in` or `--from-cluster`
 * @returns 1 if there is a problem
 * @throws UnusableInput, UnusableBackup, WrongUsage, and an Error when an API server does not respond
 */
export async function rehearse(path: string | undefined, flags: RehearseFlags): Promise<0 | 1> {
  checkSources(path, flags);
  const newest = flags.newestIn === undefined ? undefined : newestBackup(flags.newestIn);
  const file = newest?.path ?? path;
  const backup = file === undefined ? await connected(flags, readEverything) : await readBackedUp(file);
  const { findings, notes, ...rehearsal } = await rehearsalOf(backup, flags);
  for (const note of notes) console.error(`note: ${printable(note)}`);
  await print(formatRehearsal({ findings, notes, ...rehearsal }, flags.output, hasColours()));
  if (flags.record === true && newest !== undefined)
    await connected(flags, (cluster) => recordResult(cluster, ownNamespace(), newest, findings));
  return findings.some(isProblem) ? 1 : 0;
}

async function rehearsalOf(backup: ClusterObjects, flags: RehearseFlags): Promise<Rehearsal> {
  const { against, policiesFromCluster } = flags;
  if (against !== undefined)
    return await connected({ kubeconfig: against }, (cluster) => rehearsedAgainst(cluster, backup, flags));
  const given = readGiven(flags);
  if (policiesFromCluster !== true) return await replayed(toInput(backup, given, flags), flags);
  const { policies, definitions } = await connected(flags, readPolicies);
  const existing = [...definitions, ...given.existing];
  return await replayed(toInput(backup, { policies, existing }, { policies: [] }), flags);
}

const connected = <T>(flags: Parameters<typeof withCluster>[0], use: (cluster: UserCluster) => Promise<T>) =>
  withCluster(flags, 'restore rehearse', use, parseJson);

const replayed = (input: RehearsalInput, flags: RehearseFlags): Promise<Rehearsal> =>
  withProgress((line) =>
    rehearseRestore(input, flags, new Date(), (done, total, what) => {
      line.show({ what, done, total });
    }),
  );

/** Into the cluster as it is now: its kinds, objects and policies, and a dry run of each new object. */
async function rehearsedAgainst(
  cluster: UserCluster,
  backup: ClusterObjects,
  flags: RehearseFlags,
): Promise<Rehearsal> {
  const given = readGiven(flags);
  const target = await readTarget(cluster, backup.objects, given.policies);
  const isOwn = ({ object }: PlacedObject) => textIn(object, 'apiVersion').startsWith(`${GROUP}/`);
  const policies = flags.policies === undefined ? target.objects.filter(isOwn) : given.policies;
  const existing = [...given.existing, ...target.objects.filter((one) => !isOwn(one))];
  const input = toInput(backup, { policies, existing }, { policies: [] });
  const { major, minor } = cluster.version;
  const targetVersion = flags.targetVersion ?? (major === 0 ? undefined : `${major}.${minor}`);
  const rehearsal = await replayed(
    { ...input, notes: [...input.notes, ...target.notes] },
    targetVersion === undefined ? flags : { ...flags, targetVersion },
  );
  const namespaces = new Set(
    existing
      .filter(({ object }) => textIn(object, 'kind') === 'Namespace')
      .map(({ object }) => textIn(object, 'metadata', 'name')),
  );
  const refused = await dryRun(cluster, rehearsal.outcomes, (name) => namespaces.has(name), namesOf(flags));
  const findings = [...rehearsal.findings, ...refused];
  return {
    ...rehearsal,
    findings: [...findings.filter(isProblem), ...findings.filter((one) => !isProblem(one))],
  };
}

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

const COMPONENT = 'deploy/components/restore-rehearsal';

/**
 * Keeps the result in a ConfigMap of Gatehouse's namespace, and reports with an Event what is worse.
 * @throws Error if the ConfigMap does not exist, or has changed meanwhile
 */
async function recordResult(
  { client, now }: Pick<UserCluster, 'client' | 'now'>,
  namespace: string,
  { path, takenAt }: FoundBackup,
  findings: readonly Finding[],
): Promise<void> {
  const name = REHEARSAL_CONFIGMAP;
  const stored = await client.get<ConfigMap>(configMaps, { namespace, name });
  if (stored === undefined)
    throw new Error(`the ConfigMap ${namespace}/${name} does not exist: install ${COMPONENT}`);
  const before = parseData(stored.data);
  const problems = findings.filter(isProblem).map(({ reason, object }) => `${reason} ${object}`);
  const backup = basename(path, '.tar.gz');
  const result = rehearsalResult({ finishedAt: now(), backup, backupTakenAt: takenAt, problems }, before);
  await client.replace(configMaps, { ...stored, data: toData(result) });
  const note = noteOf(result, before);
  if (note === undefined) return;
  const { record, flush } = createEventRecorder({
    ...{ client, component: 'gatehouse', instance: 'gatehouse-restore-rehearsal' },
    log: {
      warn: ({ err }: { readonly err?: unknown }, message) => {
        console.error(`warning: ${message}: ${messageOf(err)}`);
      },
    },
  });
  const { uid } = stored.metadata ?? {};
  record({ ...note, regarding: { apiVersion: 'v1', kind: 'ConfigMap', namespace, name, uid } });
  await flush();
}

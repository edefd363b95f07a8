/** The flags of `gatehouse restore rehearse`, and the objects that they name. */
import type { Guard, Rights } from '../../../restore/guard.ts';
import { statSync } from 'node:fs';

import { stripped } from '../../../restore/backup/restored-object.ts';
import { OLDEST_MINOR } from '../../../kube/discovery.ts';
import type { SelectionOptions } from '../../../restore/backup/selection.ts';
import type { ClusterFlags, ReportFormat } from '../../terminal/options.ts';
import { WrongUsage } from '../new-window.ts';
import { EXCLUDE_FROM_BACKUP_LABEL, GROUP } from '../../../api/group.ts';
import { textIn } from '../../../json/json.ts';
import { groupResourceName, objectKey, splitApiVersion, guessPlural } from '../../../json/kube-object.ts';
import type { BackupItem } from '../../../restore/backup/backup.ts';
import { isDefinition, type Kinds } from '../../review/kinds.ts';
import { type PlacedObject, readInputs, UnusableInput } from '../../review/input.ts';
import { isOwn } from '../../review/policies.ts';
import type { BackedUpObject, ClusterObjects, DryRun } from './cluster.ts';
import type { Outcome } from './replay.ts';
import { isVeleroBackup, readBackup } from '../backup.ts';

export interface RehearseFlags extends ClusterFlags, InputFlags, Omit<SelectionOptions, 'selectors'> {
  readonly fromCluster?: boolean;
  readonly newestIn?: string;
  readonly policiesFromCluster?: boolean;
  readonly record?: boolean;
  readonly against?: string;
  readonly targetVersion?: string;
  readonly selector?: string;
  readonly orSelector?: string;
  readonly preserveNodeports?: boolean;
  readonly namespaceMappings: readonly string[];
  readonly existingResourcePolicy: 'none' | 'update';
  readonly veleroNamespace: string;
  readonly window: boolean;
  readonly output: ReportFormat;
}

export function checkSources(
  path: string | undefined,
  { fromCluster, newestIn, policies, policiesFromCluster, against, record }: RehearseFlags,
): void {
  const backups = [path !== undefined, newestIn !== undefined, fromCluster === true];
  if (backups.filter(Boolean).length !== 1)
    throw new WrongUsage('name a backup, or use --newest-in or --from-cluster: one of the three');
  if (policiesFromCluster === true && (policies !== undefined || against !== undefined))
    throw new WrongUsage('--policies-from-cluster: not together with -p or --against');
  if (record === true && newestIn === undefined) throw new WrongUsage('--record: only with --newest-in');
}

/** The minor version of Kubernetes 1.x; undefined: the newest. @throws WrongUsage */
export function minorOf(version: string | undefined): number | undefined {
  if (version === undefined) return undefined;
  const [, minor] = /^v?1\.(\d+)(?:[.+-].*)?$/.exec(version) ?? [];
  if (minor === undefined) throw new WrongUsage(`--target-version ${version}: write it as 1.36`);
  if (Number(minor) < OLDEST_MINOR)
    throw new WrongUsage(
      `--target-version ${version}: Gatehouse supports Kubernetes 1.${OLDEST_MINOR} and newer`,
    );
  return Number(minor);
}

interface InputFlags {
  readonly policies?: readonly string[];
  readonly crds?: readonly string[];
  readonly existing?: readonly string[];
  /** Files with a Restore and its ConfigMaps. */
  readonly restore?: readonly string[];
}

export type RehearsalInput = ReturnType<typeof toInput> & {
  /** Absent without a cluster to ask. */
  readonly rightsOf?: (guard: Guard) => Rights | undefined;
  readonly dryRun?: (outcomes: readonly Outcome[]) => Promise<DryRun>;
};

export async function readBackedUp(path: string): Promise<ClusterObjects> {
  if (statSync(path, { throwIfNoEntry: false }) === undefined)
    throw new UnusableInput(`${path}: no such file or folder`);
  const objects = isVeleroBackup(path) ? await objectsOfBackup(path) : readInputs([[path]], OPTIONS).flat();
  if (objects.length === 0)
    throw new UnusableInput(`${path}: contains no Kubernetes objects, so nothing was rehearsed`);
  return { objects, notes: [], unread: [] };
}

const OPTIONS = { recursive: true, standardInput: () => '' };

export function readGiven({ policies, crds, existing, restore }: InputFlags) {
  const [own, requested = [], ...others] = readInputs([policies, restore, crds, existing], OPTIONS);
  return { policies: policies && own, existing: others.flat(), restore: requested };
}

const DECIDING = ['AdmissionPolicy', 'ConversionPolicy', 'PolicyException', 'RestoreDetector'];

export function toInput(
  { objects, notes, unread }: ClusterObjects,
  { policies, existing, restore }: ReturnType<typeof readGiven>,
) {
  const backedUp = objects
    .filter(({ object }) => isOwn(object) && DECIDING.includes(textIn(object, 'kind')))
    .map(asCreated);
  return {
    // The CRDs of Gatehouse are part of every rehearsal.
    objects: objects.filter(
      (placed) =>
        !isOwn(placed.object) && !(isDefinition(placed) && textIn(placed.object, 'spec', 'group') === GROUP),
    ),
    own: policies ?? backedUp,
    /** Of the backup. Restorers may write PolicyExceptions. */
    refused: objects.filter(
      ({ object }) =>
        isOwn(object) &&
        textIn(object, 'kind') !== 'PolicyException' &&
        textIn(object, 'metadata', 'labels', EXCLUDE_FROM_BACKUP_LABEL) !== 'true',
    ),
    unread,
    existing,
    restore,
    notes: [
      ...notes,
      ...(policies === undefined && backedUp.length > 0
        ? ['no -p: using the policies and detectors of the backup']
        : []),
    ],
  };
}

async function objectsOfBackup(path: string): Promise<readonly BackedUpObject[]> {
  const { items } = await readBackup(path);
  return items.map(({ resource, namespace, name, object }) => ({
    object,
    resource,
    place: { file: `${path}: ${groupResourceName(resource)}/${objectKey({ namespace, name })}` },
  }));
}

export function itemOf(
  { object, resource: backedUp }: BackedUpObject,
  { typeOf }: Pick<Kinds, 'typeOf'>,
): BackupItem {
  const type = typeOf(object);
  const { group } = splitApiVersion(textIn(object, 'apiVersion'));
  const resource =
    typeof type === 'string' ? (backedUp?.resource ?? guessPlural(textIn(object, 'kind'))) : type.resource;
  const namespace = textIn(object, 'metadata', 'namespace');
  return {
    resource: { group, resource },
    namespace: namespace === '' ? undefined : namespace,
    name: textIn(object, 'metadata', 'name'),
    object,
  };
}

/** Velero creates objects without their status. */
const asCreated = (placed: PlacedObject): PlacedObject => ({
  ...placed,
  object: stripped(placed.object),
});

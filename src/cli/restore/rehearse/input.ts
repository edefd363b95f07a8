/** The flags of `gatehouse restore rehearse`, and the objects that they name. */
import type { Guard, Rights } from '../../../restore/guard.ts';
import { statSync } from 'node:fs';

import type { NormalSelector } from '../../../json/label-selector.ts';
import { type RestoreNames, stripped } from '../../../restore/backup/restored-object.ts';
import { OLDEST_MINOR } from '../../../kube/discovery.ts';
import type { SelectionOptions } from '../../../restore/backup/selection.ts';
import { parseLabelRequirements } from '../../../machinery/selectors/selectors.ts';
import { ApiFailure } from '../../../machinery/failure.ts';
import type { ClusterFlags, ReportFormat } from '../../terminal/options.ts';
import { WrongUsage } from '../new-window.ts';
import { EXCLUDE_FROM_BACKUP_LABEL, GROUP } from '../../../api/group.ts';
import { textIn } from '../../../json/json.ts';
import { groupResourceName, objectKey, splitApiVersion, guessPlural } from '../../../json/kube-object.ts';
import { type BackupItem, parseGroupResource } from '../../../restore/backup/backup.ts';
import { isDefinition, type Kinds } from '../../review/kinds.ts';
import { type PlacedObject, readInputs, UnusableInput } from '../../review/input.ts';
import { isOwn } from '../../review/policies.ts';
import type { BackedUpObject, ClusterObjects } from './cluster.ts';
import type { Finding } from './findings.ts';
import type { Outcome } from './replay.ts';
import { isVeleroBackup, readBackup } from '../backup.ts';

export interface RehearseFlags extends ClusterFlags, InputFlags, Omit<SelectionOptions, 'selector'> {
  readonly fromCluster?: boolean;
  readonly newestIn?: string;
  readonly policiesFromCluster?: boolean;
  readonly record?: boolean;
  readonly against?: string;
  readonly targetVersion?: string;
  readonly selector?: string;
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

export const namesOf = ({ namespaceMappings }: RehearseFlags): RestoreNames => ({
  backup: 'backup',
  restore: 'rehearsal',
  namespaceMapping: parseMapping(namespaceMappings),
});

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

function parseMapping(pairs: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [from = '', to = '', ...more] = pair.split(':');
      if (from === '' || to === '' || more.length > 0)
        throw new WrongUsage(`--namespace-mappings ${pair}: write it as from:to`);
      return [from, to];
    }),
  );
}

/** With the names of resources that Velero looks up in the target: plural, singular or short, with or without a group. */
export function selectionOf(flags: RehearseFlags, { registry }: Pick<Kinds, 'registry'>): SelectionOptions {
  const resolve = (name: string): string => {
    const { group, resource } = parseGroupResource(name.toLowerCase());
    const named = registry
      .all()
      .filter((type) => [type.resource, type.singular, ...type.shortNames].includes(resource));
    const found =
      named.find((type) => type.group === group) ?? named.find((type) => type.group.startsWith(group));
    return found === undefined ? name : groupResourceName(found);
  };
  const { includeResources = [], excludeResources = [] } = flags;
  return {
    ...flags,
    includeResources: includeResources.map(resolve),
    excludeResources: excludeResources.map(resolve),
    selector: selectorOf(flags.selector),
  };
}

const OPERATORS = { in: 'In', notin: 'NotIn', exists: 'Exists', '!': 'DoesNotExist' } as const;

function selectorOf(text: string | undefined): NormalSelector | undefined {
  if (text === undefined) return undefined;
  try {
    return {
      matchExpressions: parseLabelRequirements(text).map(({ key, operator, values }) => {
        if (operator === 'gt' || operator === 'lt')
          throw new WrongUsage(`--selector ${text}: < and > are not supported`);
        return { key, operator: OPERATORS[operator], values };
      }),
    };
  } catch (error) {
    if (error instanceof ApiFailure) throw new WrongUsage(`--selector ${text}: ${error.message}`);
    throw error;
  }
}

interface InputFlags {
  readonly policies?: readonly string[];
  readonly crds?: readonly string[];
  readonly existing?: readonly string[];
}

export type RehearsalInput = ReturnType<typeof toInput> & {
  /** Absent without a cluster to ask. */
  readonly rightsOf?: (guard: Guard) => Rights | undefined;
  readonly dryRun?: (outcomes: readonly Outcome[]) => Promise<readonly Finding[]>;
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

export function readGiven({ policies, crds, existing }: InputFlags) {
  const [own, ...others] = readInputs([policies, crds, existing], OPTIONS);
  return { policies: policies && own, existing: others.flat() };
}

const DECIDING = ['AdmissionPolicy', 'ConversionPolicy', 'PolicyException', 'RestoreDetector'];

export function toInput(
  { objects, notes, unread }: ClusterObjects,
  { policies, existing }: ReturnType<typeof readGiven>,
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
export const asCreated = (placed: PlacedObject): PlacedObject => ({
  ...placed,
  object: stripped(placed.object),
});

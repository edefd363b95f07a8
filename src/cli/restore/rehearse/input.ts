/** Reads what a rehearsal needs: a backup or manifests, policies, CRDs, and objects of the target cluster. */
import { statSync } from 'node:fs';

import { GROUP } from '../../../api/group.ts';
import { textIn, type JsonObject } from '../../../json/json.ts';
import { groupResourceName, splitApiVersion } from '../../../json/kube-object.ts';
import type { BackupItem } from '../../../restore/backup/backup.ts';
import { stripped } from '../../../restore/backup/restored-object.ts';
import { guessPlural } from '../../review/built-in-kinds.ts';
import type { PlacedObject } from '../../review/documents.ts';
import { readInputs, UnusableInput } from '../../review/input.ts';
import type { Kinds } from '../../review/kinds.ts';
import { isOwn } from '../../review/read-own.ts';
import type { BackedUpObject, ClusterObjects } from './cluster.ts';
import { isVeleroBackup, readBackup } from '../backup/read-backup.ts';

export interface InputFlags {
  readonly policies?: readonly string[];
  readonly crds?: readonly string[];
  readonly existing?: readonly string[];
}

export interface RehearsalInput {
  /** The objects of the backup in any order, without those that configure Gatehouse. */
  readonly objects: readonly BackedUpObject[];
  /** AdmissionPolicies, ConversionPolicies, PolicyExceptions and RestoreDetectors. */
  readonly own: readonly PlacedObject[];
  /** The CRDs and objects of the target. */
  readonly existing: readonly PlacedObject[];
  readonly notes: readonly string[];
}

/** @param path an archive or a folder of Velero, or manifests. @throws UnusableInput, UnusableBackup */
export async function readBackedUp(path: string): Promise<ClusterObjects> {
  if (statSync(path, { throwIfNoEntry: false }) === undefined)
    throw new UnusableInput(`${path}: no such file or folder`);
  const objects = isVeleroBackup(path) ? await objectsOfBackup(path) : readInputs([[path]], OPTIONS).flat();
  return { objects, notes: [] };
}

const OPTIONS = { recursive: true, standardInput: () => '' };

export interface Given {
  readonly policies: readonly PlacedObject[];
  readonly existing: readonly PlacedObject[];
}

/** The files that the flags name. @throws UnusableInput */
export function readGiven({ policies, crds, existing }: InputFlags): Given {
  const [own = [], ...others] = readInputs([policies, crds, existing], OPTIONS);
  return { policies: own, existing: others.flat() };
}

/** The kinds of Gatehouse that decide about a restore. */
const DECIDING = ['AdmissionPolicy', 'ConversionPolicy', 'PolicyException', 'RestoreDetector'];

/** @param flags without `policies`, those of the backup count */
export function toInput(
  { objects, notes }: ClusterObjects,
  { policies, existing }: Given,
  flags: Pick<InputFlags, 'policies'>,
): RehearsalInput {
  const backedUp = objects
    .filter(({ object }) => isOwn(object) && DECIDING.includes(textIn(object, 'kind')))
    .map((placed) => ({ ...placed, object: stripped(placed.object) }));
  const isGiven = flags.policies !== undefined;
  return {
    // The CRDs of Gatehouse are part of every rehearsal.
    objects: objects.filter(
      (placed) =>
        !isOwn(placed.object) && !(isDefinition(placed) && textIn(placed.object, 'spec', 'group') === GROUP),
    ),
    own: isGiven ? policies : backedUp,
    existing,
    notes: [
      ...notes,
      ...(isGiven || backedUp.length === 0
        ? []
        : ['no -p: the policies and detectors of the backup are used']),
    ],
  };
}

async function objectsOfBackup(path: string): Promise<readonly BackedUpObject[]> {
  const { items } = await readBackup(path);
  return items.map(({ resource, namespace, name, object }) => ({
    ...{ object, resource },
    place: {
      file: `${path}: ${groupResourceName(resource)}/${namespace === undefined ? '' : `${namespace}/`}${name}`,
    },
  }));
}

/** The object with the plural of its kind. */
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

export const isDefinition = ({ object }: { readonly object: JsonObject }): boolean =>
  textIn(object, 'kind') === 'CustomResourceDefinition' &&
  textIn(object, 'apiVersion').startsWith('apiextensions.k8s.io/');

/** A CRD as Velero creates it: without the status that the backup contains. */
export const definitionOf = (placed: PlacedObject): PlacedObject => ({
  ...placed,
  object: stripped(placed.object),
});

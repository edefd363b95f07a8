/** Reads what a rehearsal needs: a backup or manifests, policies, CRDs, and objects of the target cluster. */
import { statSync } from 'node:fs';

import { textIn, type JsonObject } from '../../../json/json.ts';
import { groupResourceName, splitApiVersion } from '../../../json/kube-object.ts';
import type { BackupItem } from '../../../restore/backup/backup.ts';
import { stripped } from '../../../restore/backup/restored-object.ts';
import { guessPlural } from '../../review/built-in-kinds.ts';
import type { PlacedObject } from '../../review/documents.ts';
import { readInputs, UnusableInput } from '../../review/input.ts';
import type { Kinds } from '../../review/kinds.ts';
import { isOwn } from '../../review/read-own.ts';
import { isVeleroBackup, readBackup } from '../backup/read-backup.ts';

export interface InputFlags {
  readonly policies?: readonly string[];
  readonly crds?: readonly string[];
  readonly existing?: readonly string[];
}

export interface RehearsalInput {
  /** The objects of the backup in any order, without those that configure Gatehouse. */
  readonly objects: readonly PlacedObject[];
  /** AdmissionPolicies, RestoreDetectors and PolicyExceptions. */
  readonly own: readonly PlacedObject[];
  /** The CRDs and objects of the target. */
  readonly existing: readonly PlacedObject[];
  readonly notes: readonly string[];
}

/**
 * @param path an archive or a folder of Velero, or manifests
 * @throws UnusableInput, UnusableBackup
 */
export async function readRehearsal(path: string, flags: InputFlags): Promise<RehearsalInput> {
  if (statSync(path, { throwIfNoEntry: false }) === undefined)
    throw new UnusableInput(`${path}: no such file or folder`);
  const options = { recursive: true, standardInput: () => '' };
  const all = isVeleroBackup(path) ? await objectsOfBackup(path) : readInputs([[path]], options).flat();
  const [policies = [], crds = [], existing = []] = readInputs(
    [flags.policies, flags.crds, flags.existing],
    options,
  );
  const backedUp = all.filter(({ object }) => isOwn(object));
  const isGiven = flags.policies !== undefined;
  const kinds = ['AdmissionPolicy', 'RestoreDetector', 'PolicyException'];
  const used = backedUp
    .filter(({ object }) => kinds.includes(textIn(object, 'kind')))
    .map((placed) => ({ ...placed, object: stripped(placed.object) }));
  return {
    objects: all.filter(({ object }) => !isOwn(object)),
    own: isGiven ? policies : used,
    existing: [...crds, ...existing],
    notes: isGiven || used.length === 0 ? [] : ['no -p: the policies and detectors of the backup are used'],
  };
}

async function objectsOfBackup(path: string): Promise<readonly PlacedObject[]> {
  const { items } = await readBackup(path);
  return items.map(({ resource, namespace, name, object }) => ({
    object,
    place: {
      file: `${path}: ${groupResourceName(resource)}/${namespace === undefined ? '' : `${namespace}/`}${name}`,
    },
  }));
}

/** The object with the plural of its kind. */
export function itemOf({ object }: PlacedObject, { typeOf }: Pick<Kinds, 'typeOf'>): BackupItem {
  const type = typeOf(object);
  const { group } = splitApiVersion(textIn(object, 'apiVersion'));
  const resource = typeof type === 'string' ? guessPlural(textIn(object, 'kind')) : type.resource;
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

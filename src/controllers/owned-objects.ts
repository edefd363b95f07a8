/** The objects that a controller applies: their marks, whose they are, and whether they are as they should be. */
import { createHash } from 'node:crypto';
import { copyJson } from '../admission/handlers/draft.ts';
import { isEqual, isJsonArray, isJsonObject, stringifyJson } from '../json/json.ts';
import {
  groupResourceName,
  keyOf,
  splitApiVersion,
  type KubeObject,
  type OwnerReference,
} from '../json/kube-object.ts';
import type { CompiledController } from './compile-controller.ts';

export const CONTROLLER_LABEL = 'gatehouse.dev/controller';
/** The object that it was applied for. By name and not by uid: a restored owner has a new uid. */
export const OWNER_LABEL = 'gatehouse.dev/owner';

/**
 * `<fingerprint>.<proof>`: of what was applied last, which reveals a field that is not applied any more, and of the uids of the
 * object and its owner. The API server chooses the uid, so only a second write can add the proof.
 */
export const APPLIED = 'gatehouse.dev/applied';

export interface Owner {
  readonly object: KubeObject;
  readonly mark: string;
}

/** A label value has at most 63 characters, and names of objects have up to 253. */
const MARK_LENGTH = 40;

export function ownerMark({ watched }: Pick<CompiledController, 'watched'>, key: string): string {
  const text = `${groupResourceName(watched)} ${key}`;
  return createHash('sha256').update(text).digest('hex').slice(0, MARK_LENGTH);
}

/** The garbage collector requires it: cluster-scoped, or in the same namespace. */
export const canOwn = ({ metadata: owner }: KubeObject, { metadata: owned }: KubeObject): boolean =>
  owner?.namespace === undefined || owner.namespace === owned?.namespace;

export function desiredObject(
  given: object,
  { object: owner, mark }: Owner,
  { name }: Pick<CompiledController, 'name'>,
): KubeObject {
  const object: KubeObject = copyJson(given);
  const { labels, ownerReferences = [] } = object.metadata ?? {};
  const others = ownerReferences.filter(({ uid }) => uid !== owner.metadata?.uid);
  const owners = canOwn(owner, object) ? [...others, referenceTo(owner)] : others;
  const own = without(object.metadata ?? {}, [...NOT_APPLIED, 'ownerReferences']);
  const metadata = {
    ...own,
    labels: { ...labels, [CONTROLLER_LABEL]: name, [OWNER_LABEL]: mark },
    ...(owners.length === 0 ? {} : { ownerReferences: owners }),
  };
  // An object that was read before has this annotation, which must not be part of the new fingerprint.
  const annotations = without(metadata.annotations ?? {}, [APPLIED]);
  const applied = fingerprint({ ...object, metadata: { ...metadata, annotations } });
  return { ...object, metadata: { ...metadata, annotations: { ...annotations, [APPLIED]: applied } } };
}

/** The desired object for this stored object only: the API server refuses it for another uid. */
export function withProof(desired: KubeObject, { object: owner }: Owner, stored: KubeObject): KubeObject {
  const metadata = { ...desired.metadata, uid: stored.metadata?.uid ?? '' };
  const applied = `${appliedOf(desired) ?? ''}.${proofOf(owner, { metadata })}`;
  return {
    ...desired,
    metadata: { ...metadata, annotations: { ...metadata.annotations, [APPLIED]: applied } },
  };
}

const proofOf = (owner: KubeObject, object: KubeObject): string =>
  fingerprint(owner.metadata?.uid ?? '', object.metadata?.uid ?? '', keyOf(object));

function referenceTo({ apiVersion = '', kind = '', metadata = {} }: KubeObject): OwnerReference {
  const { name = '', uid = '' } = metadata;
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

export function belongsTo(
  found: KubeObject,
  { object: owner, mark }: Owner,
  { name }: Pick<CompiledController, 'name'>,
): 'ours' | 'free' | { readonly other: string } {
  const { labels = {}, ownerReferences = [] } = found.metadata ?? {};
  const reference = ownerReferences.find((one) => one.controller === true);
  if (reference !== undefined && !(isSame(reference, owner) && canOwn(owner, found)))
    return { other: `${reference.kind} ${reference.name}` };
  const controller = labels[CONTROLLER_LABEL];
  if (controller === name && labels[OWNER_LABEL] === mark) return 'ours';
  // A user removed or changed the labels.
  const isLinked = reference !== undefined && reference.uid === owner.metadata?.uid;
  if (isLinked && (controller === undefined || controller === name)) return 'ours';
  return controller === undefined ? 'free' : { other: `another object of the controller ${controller}` };
}

/** By name: the reference may be older than a restore of the owner. */
const isSame = ({ apiVersion, kind, name }: OwnerReference, owner: KubeObject): boolean =>
  kind === owner.kind && name === owner.metadata?.name && groupOf(apiVersion) === groupOf(owner.apiVersion);

const groupOf = (apiVersion = ''): string => splitApiVersion(apiVersion).group;

/**
 * Whether the controller applied this very object for this very owner: only then may it delete it. Copies and restored objects
 * have the marks of their original, but other uids. The owner reference is required because Kubernetes can restrict who sets it.
 */
export function isProven(object: KubeObject, { object: owner }: Pick<Owner, 'object'>): boolean {
  const [, proof] = appliedOf(object)?.split('.') ?? [];
  return proof === proofOf(owner, object) && (!canOwn(owner, object) || isOwned(object, owner));
}

/** The garbage collector deletes it with its owner. */
export const isOwned = ({ metadata }: KubeObject, owner: KubeObject): boolean =>
  metadata?.ownerReferences?.some(({ uid }) => uid === owner.metadata?.uid) === true;

export const appliedOf = ({ metadata }: KubeObject): string | undefined => metadata?.annotations?.[APPLIED];

/** Whether `found` has every value of `desired`. The API server adds fields, also to the items of lists. */
export function contains(found: unknown, desired: unknown): boolean {
  if (isJsonObject(desired))
    return (
      isJsonObject(found) &&
      Object.entries(desired).every(
        ([key, value]) => Object.hasOwn(found, key) && contains(found[key], value),
      )
    );
  if (isJsonArray(desired))
    return (
      isJsonArray(found) &&
      found.length === desired.length &&
      desired.every((item, index) => contains(found[index], item))
    );
  return isEqual(found, desired);
}

export const fingerprint = (...parts: readonly unknown[]): string =>
  createHash('sha256').update(stringifyJson(parts)).digest('base64url');

const BOOKKEEPING = ['resourceVersion', 'generation', 'managedFields'];
/** Fields of an object that the author read and applies again. */
const NOT_APPLIED = [...BOOKKEEPING, 'uid', 'creationTimestamp', 'selfLink'];

/** What a user or another controller may have changed: everything but the status and the bookkeeping. */
export function contentOf(object: KubeObject): object {
  const metadata = without(object.metadata ?? {}, BOOKKEEPING);
  return { ...without(object, ['status']), metadata };
}

const without = <T extends object>(object: T, keys: readonly string[]): Partial<T> =>
  Object.fromEntries(Object.entries(object).filter(([key]) => !keys.includes(key))) as Partial<T>; // fewer keys

export const nameOf = (object: KubeObject): string => `${object.kind ?? 'object'} ${keyOf(object)}`;

/** The owner references of an object in an annotation: backup tools drop the references and keep annotations. */
import { isJsonObject, jsonIn, pick } from '../json/json.ts';
import { type OwnerReference, splitApiVersion } from '../json/kube-object.ts';
import { GROUP } from './group.ts';

export const OWNER_RECORD_ANNOTATION = `${GROUP}/owner-references`;

export interface OwnerRecord {
  /** The name of the object; ends in `*` if only the prefix was known (`generateName`). */
  readonly self: string;
  readonly refs: readonly OwnerReference[];
}

/** In characters. The annotations of an object may have 256 KiB in total, and users need most of that. */
const MAX_RECORD_LENGTH = 32_768;

/** The fields of a reference, in their order in the annotation: equal records have equal text. */
const FIELDS = ['apiVersion', 'kind', 'name', 'uid', 'controller', 'blockOwnerDeletion'] as const;

export function encodeOwnerRecord({ self, refs }: OwnerRecord): string | undefined {
  const text = JSON.stringify({ v: 1, self, refs }, ['v', 'self', 'refs', ...FIELDS]);
  return text.length <= MAX_RECORD_LENGTH ? text : undefined;
}

/** Undefined if the text is not a record: users also write annotations, so every part is checked. */
export function parseOwnerRecord(text: unknown): OwnerRecord | undefined {
  if (typeof text !== 'string' || text.length > MAX_RECORD_LENGTH) return undefined;
  const value = jsonIn(text);
  if (!isJsonObject(value) || value.v !== 1 || typeof value.self !== 'string' || !Array.isArray(value.refs))
    return undefined;
  // Two may be controllers: one that is not linked yet, and one that has adopted the object in the meantime.
  const refs = toOwnerReferences(value.refs) ?? [];
  return refs.length > 0 ? { self: value.self, refs } : undefined;
}

/** A copy with another name doesn't inherit the owners. */
export function isRecordOf({ self }: OwnerRecord, name: string): boolean {
  return self.endsWith('*') ? name.startsWith(self.slice(0, -1)) : self === name;
}

/** The recorded references that are missing. Ignores uid and version: an owner is found again by its name. */
export function missingOwners(
  recorded: readonly OwnerReference[],
  present: readonly OwnerReference[],
): readonly OwnerReference[] {
  const held = new Set(present.map(ownerKey));
  return recorded.filter((ref) => !held.has(ownerKey(ref)));
}

/** The same text for an owner in every version of its kind. */
export function ownerKey({ apiVersion, kind, name }: Omit<OwnerReference, 'uid'>): string {
  return [splitApiVersion(apiVersion).group, kind, name].join('\u0000');
}

/** The references without other fields; undefined if one of them is invalid. */
export function toOwnerReferences(value: unknown): readonly OwnerReference[] | undefined {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) && value.every(isReference)
    ? value.map((ref) => pick(ref, ...FIELDS))
    : undefined;
}

function isReference(value: unknown): value is OwnerReference {
  if (!isJsonObject(value)) return false;
  const { apiVersion, kind, name, uid, controller, blockOwnerDeletion } = value;
  return [apiVersion, kind, name, uid].every(isNameText) && [controller, blockOwnerDeletion].every(isFlag);
}

const MAX_NAME_LENGTH = 512;

const isNameText = (value: unknown): boolean =>
  typeof value === 'string' && value !== '' && value.length <= MAX_NAME_LENGTH;

const isFlag = (value: unknown): boolean => value === undefined || typeof value === 'boolean';

/** The owner references of an object as its annotation keeps them: backup tools strip the references, and keep annotations. */
import { GROUP } from './group.ts';
import type { OwnerReference } from '../json/kube-object.ts';

export const OWNER_RECORD_ANNOTATION = `${GROUP}/owner-references`;

export interface OwnerRecord {
  /** The name of the object; ends in `*` where only the beginning was known (`generateName`). */
  readonly self: string;
  readonly refs: readonly OwnerReference[];
}

/** In characters. All annotations of an object together may have 256 KiB, and most of that is the user's. */
const LONGEST_RECORD = 32_768;

/** The annotation; undefined when there are too many owners to keep. The same record always gives the same text. */
export function encodeOwnerRecord({ self, refs }: OwnerRecord): string | undefined {
  const text = JSON.stringify({ v: 1, self, refs: refs.map(plain) });
  return text.length <= LONGEST_RECORD ? text : undefined;
}

/** Undefined when the text is no record: users write annotations too, so nothing in it is taken for granted. */
export function parseOwnerRecord(text: unknown): OwnerRecord | undefined {
  if (typeof text !== 'string' || text.length > LONGEST_RECORD) return undefined;
  const value = parsed(text);
  if (!isRecord(value) || value.v !== 1 || typeof value.self !== 'string' || !Array.isArray(value.refs))
    return undefined;
  const refs = value.refs.map(toReference).filter((ref) => ref !== undefined);
  // Two may be controllers: one that waits to be linked, and one that has adopted the object meanwhile.
  return refs.length === value.refs.length && refs.length > 0 ? { self: value.self, refs } : undefined;
}

/** Whether the record was made for an object of this name: a copy under another name is not owned by anybody. */
export function isRecordOf({ self }: OwnerRecord, name: string): boolean {
  return self.endsWith('*') ? name.startsWith(self.slice(0, -1)) : self === name;
}

/** The references that are recorded and lacking, whatever the uid and the version: an owner is found again by its name. */
export function lackingOwners(
  recorded: readonly OwnerReference[],
  present: readonly OwnerReference[],
): readonly OwnerReference[] {
  const there = new Set(present.map(ownerKey));
  return recorded.filter((ref) => !there.has(ownerKey(ref)));
}

/** One text for each owner, whichever version of its kind is named. */
export function ownerKey({ apiVersion, kind, name }: Omit<OwnerReference, 'uid'>): string {
  return [groupOf(apiVersion), kind, name].join('\u0000');
}

/** Empty for the core group. */
export function groupOf(apiVersion: string): string {
  const slash = apiVersion.indexOf('/');
  return slash === -1 ? '' : apiVersion.slice(0, slash);
}

/** The references in the form of the API, each field in its place; undefined where one of them is none. */
export function toOwnerReferences(value: unknown): readonly OwnerReference[] | undefined {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) return undefined;
  const refs = value.map(toReference).filter((ref) => ref !== undefined);
  return refs.length === value.length ? refs : undefined;
}

function toReference(value: unknown): OwnerReference | undefined {
  if (!isRecord(value)) return undefined;
  const { apiVersion, kind, name, uid, controller, blockOwnerDeletion } = value;
  if (!isText(apiVersion) || !isText(kind) || !isText(name) || !isText(uid)) return undefined;
  if (!isFlag(controller) || !isFlag(blockOwnerDeletion)) return undefined;
  return plain({
    apiVersion,
    kind,
    name,
    uid,
    ...(controller === undefined ? {} : { controller }),
    ...(blockOwnerDeletion === undefined ? {} : { blockOwnerDeletion }),
  });
}

/** No other fields, and always in this order. */
function plain({
  apiVersion,
  kind,
  name,
  uid,
  controller,
  blockOwnerDeletion,
}: OwnerReference): OwnerReference {
  return {
    apiVersion,
    kind,
    name,
    uid,
    ...(controller === undefined ? {} : { controller }),
    ...(blockOwnerDeletion === undefined ? {} : { blockOwnerDeletion }),
  };
}

/** As long as the longest name in Kubernetes, and a little. */
const LONGEST_TEXT = 512;

const isText = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= LONGEST_TEXT;

const isFlag = (value: unknown): value is boolean | undefined =>
  value === undefined || typeof value === 'boolean';

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

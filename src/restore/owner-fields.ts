/** Field ownership of owner references after a restore: the backup contains that of owners that no longer exist. */
import { isJsonObject, objectIn, type JsonObject, type JsonValue } from '../json/json.ts';
import type { KubeObject } from '../json/kube-object.ts';
import type { LinkOperation } from './owner-links.ts';

/** The field manager with which Gatehouse links owners. */
export const OWNERS_MANAGER = 'gatehouse-owners';

/**
 * A JSON patch that removes from managedFields the owners that the object no longer has, and Gatehouse itself as the
 * manager of those that it has linked. Otherwise the next server-side apply of the real manager would conflict with
 * Gatehouse, and could never remove an owner again. Undefined if there is nothing to remove.
 */
export function disownPatch({ metadata = {} }: KubeObject): readonly LinkOperation[] | undefined {
  const { uid, resourceVersion, ownerReferences = [], managedFields }: ManagedMeta = metadata;
  if (ownerReferences.length === 0 || managedFields === undefined) return undefined;
  const present = new Set(ownerReferences.map((owner) => owner.uid));
  const cleaned = managedFields.flatMap((entry) => cleanEntry(entry, present) ?? []);
  const isSame =
    cleaned.length === managedFields.length && cleaned.every((one, n) => one === managedFields[n]);
  // An empty list would reset the ownership of all fields.
  if (isSame || cleaned.length === 0) return undefined;
  return [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
    { op: 'add', path: '/metadata/managedFields', value: cleaned },
  ];
}

interface ManagedMeta extends NonNullable<KubeObject['metadata']> {
  readonly managedFields?: readonly JsonObject[];
}

/** The same entry if nothing changes; undefined if nothing is left of it. */
function cleanEntry(entry: JsonObject, present: ReadonlySet<string>): JsonObject | undefined {
  const fields = objectIn(entry, 'fieldsV1');
  const metadata = objectIn(fields, 'f:metadata');
  const { 'f:ownerReferences': owners, ...otherMetadata } = metadata;
  if (!isJsonObject(owners)) return entry;
  const kept = entry.manager === OWNERS_MANAGER ? {} : keptOwners(owners, present);
  if (Object.keys(kept).length === Object.keys(owners).length) return entry;
  const hasOwners = Object.keys(kept).some((key) => key !== '.');
  const nextMetadata = hasOwners ? { ...metadata, 'f:ownerReferences': kept } : otherMetadata;
  const next: Record<string, JsonValue> = { ...fields, 'f:metadata': nextMetadata };
  if (Object.keys(nextMetadata).every((key) => key === '.')) Reflect.deleteProperty(next, 'f:metadata');
  return Object.keys(next).length === 0 ? undefined : { ...entry, fieldsV1: next };
}

function keptOwners(owners: JsonObject, present: ReadonlySet<string>): JsonObject {
  return Object.fromEntries(
    Object.entries(owners).filter(([key]) => {
      const uid = uidOf(key);
      return uid === undefined || present.has(uid);
    }),
  );
}

/** `k:{"uid":"…"}` → the uid; undefined for any other element. */
const uidOf = (element: string): string | undefined => /^k:\{"uid":"([^"\\]*)"\}$/.exec(element)?.[1];

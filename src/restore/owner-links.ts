/** Plans which recorded owners of a restored object to link again. */
import type { GroupResource, KubeObject, OwnerReference } from '../json/kube-object.ts';
import { pointerPart, type JsonPatchOperation } from '../json/json-patch.ts';
import { mayRelinkOwner } from '../api/owner-kinds.ts';
import {
  encodeOwnerRecord,
  isRecordOf,
  missingOwners,
  OWNER_RECORD_ANNOTATION,
  parseOwnerRecord,
} from '../api/owner-record.ts';
import type { RelinkItem } from '../api/restore-findings.ts';
import { isJsonObject, listIn, objectIn, type JsonObject, type JsonValue } from '../json/json.ts';

export type OwnerState =
  | {
      readonly kind: 'found';
      readonly uid: string;
      readonly apiVersion: string;
      readonly isTerminating: boolean;
      /** Younger than the dependent, and not of a restore: it may be a different object with the same name. */
      readonly isDoubtful: boolean;
    }
  | { readonly kind: 'missing' }
  | { readonly kind: 'unknown'; readonly message: string };

export interface LinkLimits {
  /** References that Gatehouse wrote and that turned out to be wrong. They do not count as owners. */
  readonly stale: ReadonlySet<string>;
  readonly mayBlock: boolean;
}

export const NO_LIMITS: LinkLimits = { stale: new Set(), mayBlock: true };

export interface OwnerLinkResult {
  readonly ref: OwnerReference;
  readonly result: RelinkItem['result'];
  readonly message?: string;
}

export type LinkPlan = ReturnType<typeof planLinks>;

export function lostOwners(
  object: KubeObject,
  { stale }: Pick<LinkLimits, 'stale'> = NO_LIMITS,
): readonly OwnerReference[] {
  const record = parseOwnerRecord(object.metadata?.annotations?.[OWNER_RECORD_ANNOTATION]);
  // A copy under another name has the record of the original.
  if (record === undefined || !isRecordOf(record, object.metadata?.name ?? '')) return [];
  return missingOwners(record.refs, presentOwners(object, stale));
}

export function planLinks(
  resource: GroupResource,
  object: KubeObject,
  stateOf: (ref: OwnerReference) => OwnerState,
  limits: LinkLimits = NO_LIMITS,
) {
  const present = presentOwners(object, limits.stale);
  const owners = [...present];
  const waiting: OwnerReference[] = [];
  const verdicts = lostOwners(object, limits).map((ref): OwnerLinkResult => {
    const verdict = judgeOwner(resource, ref, stateOf(ref), owners);
    if ('linked' in verdict) {
      const linked = limits.mayBlock ? verdict.linked : withoutBlocking(verdict.linked);
      if (!owners.some(({ uid }) => uid === linked.uid)) owners.push(linked);
      return { ref, result: 'Linked' };
    }
    // An owner that lost to another controller is dropped; every other owner may become linkable.
    if (verdict.result !== 'AlreadyControlled') waiting.push(ref);
    return { ref, ...verdict };
  });
  const { name: self = '' } = object.metadata ?? {};
  const refs = [...owners, ...waiting];
  const record = refs.length === 0 ? undefined : encodeOwnerRecord({ self, refs });
  const settled = verdicts.some(({ result }) => result === 'Linked' || result === 'AlreadyControlled');
  const isStale = present.length < (object.metadata?.ownerReferences ?? []).length;
  return { verdicts, ownerReferences: owners, record, changes: settled || isStale };
}

const withoutBlocking = (ref: OwnerReference): OwnerReference =>
  ref.blockOwnerDeletion === true ? { ...ref, blockOwnerDeletion: false } : ref;

function presentOwners({ metadata }: KubeObject, stale: ReadonlySet<string>): readonly OwnerReference[] {
  return (metadata?.ownerReferences ?? []).filter(({ uid }) => !stale.has(uid));
}

type Verdict = Omit<OwnerLinkResult, 'ref'> | { readonly linked: OwnerReference };

function judgeOwner(
  resource: GroupResource,
  ref: OwnerReference,
  state: OwnerState,
  owners: readonly OwnerReference[],
): Verdict {
  const owner = `${ref.kind} "${ref.name}"`;
  if (!mayRelinkOwner(resource, ref)) {
    const message = `${owner} finds such objects by their labels, and deletes those that it does not expect`;
    return { result: 'NotAllowed', message };
  }
  switch (state.kind) {
    case 'unknown':
      return { result: 'Failed', message: state.message };
    case 'missing': {
      const message = `${owner} not found; restore it as well, and the next sweep links it`;
      return { result: 'OwnerMissing', message };
    }
    case 'found':
      break;
  }
  if (state.isTerminating) {
    const message = `${owner} is being deleted, and would take the object along`;
    return { result: 'OwnerTerminating', message };
  }
  if (state.isDoubtful && state.uid !== ref.uid) {
    const message = `${owner} is younger than the object and no restore has made it; set metadata.ownerReferences if it is the owner`;
    return { result: 'OwnerAmbiguous', message };
  }
  const linked = { ...ref, apiVersion: state.apiVersion, uid: state.uid };
  const other = owners.find(({ controller }) => controller === true);
  if (ref.controller !== true || other === undefined || other.uid === linked.uid) return { linked };
  return { result: 'AlreadyControlled', message: `${other.kind} "${other.name}" controls the object now` };
}

/** For a patch that fails if the object has changed since it was read. */
export const unchanged = ({ metadata = {} }: KubeObject): readonly JsonPatchOperation[] => [
  { op: 'test', path: '/metadata/uid', value: metadata.uid },
  { op: 'test', path: '/metadata/resourceVersion', value: metadata.resourceVersion },
];

export function linkPatch(
  object: KubeObject,
  { ownerReferences, record }: Pick<LinkPlan, 'ownerReferences' | 'record'>,
): readonly JsonPatchOperation[] {
  const { annotations, ownerReferences: before } = object.metadata ?? {};
  const change = (path: string, present: unknown, value: unknown): readonly JsonPatchOperation[] => {
    if (value !== undefined) return [{ op: 'add', path, value }];
    return present === undefined ? [] : [{ op: 'remove', path }];
  };
  return [
    ...unchanged(object),
    ...change('/metadata/ownerReferences', before, ownerReferences.length > 0 ? ownerReferences : undefined),
    ...change(
      `/metadata/annotations${pointerPart(OWNER_RECORD_ANNOTATION)}`,
      annotations?.[OWNER_RECORD_ANNOTATION],
      record,
    ),
  ];
}

export const OWNERS_MANAGER = 'gatehouse-owners';

/**
 * Removes two kinds of owners from managedFields: those that the object has lost, and those that Gatehouse linked.
 * Otherwise, the next apply of the real manager would conflict. Undefined: nothing to do.
 */
export function disownPatch(object: KubeObject): readonly JsonPatchOperation[] | undefined {
  const { ownerReferences = [] } = object.metadata ?? {};
  const managedFields = listIn(object, 'metadata', 'managedFields').filter(isJsonObject);
  if (ownerReferences.length === 0) return undefined;
  const present = new Set(ownerReferences.map((owner) => owner.uid));
  const cleaned = managedFields.flatMap((entry) => cleanEntry(entry, present) ?? []);
  const isSame =
    cleaned.length === managedFields.length && cleaned.every((one, n) => one === managedFields[n]);
  // An empty list would reset the ownership of all fields.
  if (isSame || cleaned.length === 0) return undefined;
  return [...unchanged(object), { op: 'add', path: '/metadata/managedFields', value: cleaned }];
}

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

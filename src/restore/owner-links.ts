/** Which recorded owners of a restored object are linked again: judged from the object and from its owners as they are now. */
import type { GroupResource, KubeObject, OwnerReference } from '../json/kube-object.ts';
import { mayOwnAgain } from '../api/owner-kinds.ts';
import {
  encodeOwnerRecord,
  isRecordOf,
  lackingOwners,
  OWNER_RECORD_ANNOTATION,
  parseOwnerRecord,
} from '../api/owner-record.ts';
import type { RelinkItem } from '../api/restore-findings.ts';

/** The object that has the name of a recorded owner now. */
export type OwnerState =
  | {
      readonly kind: 'found';
      readonly uid: string;
      readonly apiVersion: string;
      readonly isTerminating: boolean;
      /** Created after the object, and not by a restore: it may be another object of the same name. */
      readonly isDoubtful: boolean;
    }
  | { readonly kind: 'missing' }
  /** It could not be read, or changes too often; the message is a sentence for people. */
  | { readonly kind: 'unknown'; readonly message: string };

/** What earlier writes have shown. */
export interface LinkLimits {
  /** Uids of references that we have written ourselves and that have turned out to be wrong: they do not count. */
  readonly stale: ReadonlySet<string>;
  /** Whether the API server lets us say that an owner may not go before the object. */
  readonly mayBlock: boolean;
}

export const NO_LIMITS: LinkLimits = { stale: new Set(), mayBlock: true };

/** The result for one recorded owner. */
export interface OwnerLinkResult {
  readonly ref: OwnerReference;
  readonly result: RelinkItem['result'];
  readonly message?: string;
}

export interface LinkPlan {
  /** One for each recorded owner that is not referred to. */
  readonly verdicts: readonly OwnerLinkResult[];
  /** All references of the object afterwards. */
  readonly ownerReferences: readonly OwnerReference[];
  /** The annotation afterwards; undefined: none. */
  readonly record: string | undefined;
  /** Whether the object is to be written for it. */
  readonly changes: boolean;
}

/** The recorded owners that the object does not refer to. */
export function lostOwners(
  object: KubeObject,
  { stale }: Pick<LinkLimits, 'stale'> = NO_LIMITS,
): readonly OwnerReference[] {
  const record = parseOwnerRecord(object.metadata?.annotations?.[OWNER_RECORD_ANNOTATION]);
  // A copy under another name brings a record that was not made for it.
  if (record === undefined || !isRecordOf(record, object.metadata?.name ?? '')) return [];
  return lackingOwners(record.refs, standing(object, stale));
}

/** @param stateOf of each of {@link lostOwners} */
export function planLinks(
  resource: GroupResource,
  object: KubeObject,
  stateOf: (ref: OwnerReference) => OwnerState,
  limits: LinkLimits = NO_LIMITS,
): LinkPlan {
  const present = standing(object, limits.stale);
  const owners = [...present];
  const waiting: OwnerReference[] = [];
  const verdicts = lostOwners(object, limits).map((ref): OwnerLinkResult => {
    const verdict = judge(resource, ref, stateOf(ref), owners);
    if ('linked' in verdict) {
      const linked = limits.mayBlock ? verdict.linked : withoutBlocking(verdict.linked);
      if (!owners.some(({ uid }) => uid === linked.uid)) owners.push(linked);
      return { ref, result: 'Linked' };
    }
    // Another controller stays in control; every other owner may become linkable.
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

function standing({ metadata }: KubeObject, stale: ReadonlySet<string>): readonly OwnerReference[] {
  return (metadata?.ownerReferences ?? []).filter(({ uid }) => !stale.has(uid));
}

type Verdict = Omit<OwnerLinkResult, 'ref'> | { readonly linked: OwnerReference };

function judge(
  resource: GroupResource,
  ref: OwnerReference,
  state: OwnerState,
  owners: readonly OwnerReference[],
): Verdict {
  const owner = `${ref.kind} "${ref.name}"`;
  if (!mayOwnAgain(resource, ref)) {
    const message = `${owner} finds such objects by their labels, and deletes those that it does not expect`;
    return { result: 'NotAllowed', message };
  }
  switch (state.kind) {
    case 'unknown':
      return { result: 'Failed', message: state.message };
    case 'missing':
      return {
        result: 'OwnerMissing',
        message: `there is no ${owner}; restore it too, and the next sweep links it`,
      };
    case 'found':
      break;
  }
  if (state.isTerminating)
    return {
      result: 'OwnerTerminating',
      message: `${owner} is being deleted, and would take the object along`,
    };
  if (state.isDoubtful && state.uid !== ref.uid) {
    const message = `${owner} is younger than the object and no restore has made it; set metadata.ownerReferences if it is the owner`;
    return { result: 'OwnerAmbiguous', message };
  }
  const linked = { ...ref, apiVersion: state.apiVersion, uid: state.uid };
  const other = owners.find(({ controller }) => controller === true);
  if (ref.controller !== true || other === undefined || other.uid === linked.uid) return { linked };
  return { result: 'AlreadyControlled', message: `${other.kind} "${other.name}" controls the object by now` };
}

/** An operation of a JSON patch (RFC 6902). */
export type LinkOperation =
  | { readonly op: 'test' | 'add'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

/** The plan as a JSON patch that fails unless the object is still the one that was judged. */
export function linkPatch(
  { metadata = {} }: KubeObject,
  { ownerReferences, record }: Pick<LinkPlan, 'ownerReferences' | 'record'>,
): readonly LinkOperation[] {
  const { uid, resourceVersion, annotations, ownerReferences: before } = metadata;
  const key = `/metadata/annotations/${OWNER_RECORD_ANNOTATION.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  const owners: readonly LinkOperation[] =
    ownerReferences.length > 0
      ? [{ op: 'add', path: '/metadata/ownerReferences', value: ownerReferences }]
      : before === undefined
        ? []
        : [{ op: 'remove', path: '/metadata/ownerReferences' }];
  const note: readonly LinkOperation[] =
    record !== undefined
      ? [{ op: 'add', path: key, value: record }]
      : annotations?.[OWNER_RECORD_ANNOTATION] === undefined
        ? []
        : [{ op: 'remove', path: key }];
  return [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
    ...owners,
    ...note,
  ];
}

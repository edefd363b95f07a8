import type { KubeObject, ObjectMeta, ObjectRef, OwnerReference } from '../../json/kube-object.ts';
import type { Requester } from '../../api/principals.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import type { AdmissionRequest, Operation } from '../review/request.ts';

/** The only access to the cluster in this folder. A cached object may allow; only a live read may deny. */
export interface World {
  /** From the store: fast, and possibly out of date. */
  readonly find: (ref: ObjectRef) => KubeObject | undefined;
  /** Live, from the API server; undefined only when there certainly is none. Throws when it cannot tell. */
  readonly confirm: (ref: ObjectRef, signal: AbortSignal) => Promise<KubeObject | undefined>;
  /**
   * The same, and all of the object instead of its metadata.
   * @param versions of the API whose fields are meant; absent or `*`: any
   */
  readonly read: (
    ref: ObjectRef,
    signal: AbortSignal,
    versions?: readonly string[],
  ) => Promise<KubeObject | undefined>;
  /**
   * From the stores: whether this user may be one who restores, so that it is worth while to ask. Absent: nobody is. A window that is
   * not known yet is no reason.
   */
  readonly mayRestore?: (user: Requester) => boolean;
  /** What lets this user restore there, as far as the stores know; they may be behind. Absent: they know of nothing. */
  readonly knownRestore?: (request: RestoreQuery) => RestoreEvidence | undefined;
  /** What lets this user restore there; undefined when there certainly is nothing. Throws when it cannot tell. */
  readonly restoreEvidence: (
    request: RestoreQuery,
    signal: AbortSignal,
  ) => Promise<RestoreEvidence | undefined>;
  /** Absent where objects are only looked at (audits, reviews of files): unique values are not checked then. */
  readonly claims?: Claims;
  /** From the stores: what governed objects are known to name and to hold. Absent as `claims` is. */
  readonly governed?: GovernedIndex;
  /** Absent as `claims` is: owners are recorded then, and not looked for. */
  readonly owners?: Owners;
}

export interface Owners {
  /**
   * Live: who has the name of that owner now, in any version of its group that is served; undefined only when there certainly is
   * nobody. Throws when it cannot tell.
   *
   * @param namespace of the object that it owns; undefined for cluster-scoped ones, which nothing in a namespace can own
   */
  readonly read: (
    owner: Pick<OwnerReference, 'apiVersion' | 'kind' | 'name'>,
    namespace: string | undefined,
    signal: AbortSignal,
  ) => Promise<LiveOwner | undefined>;
  /** Whether this user is Gatehouse itself. */
  readonly isOurs: (username: string) => boolean;
}

export interface LiveOwner {
  readonly uid: string;
  readonly creationTimestamp: string | undefined;
  readonly deletionTimestamp: string | undefined;
  readonly labels: ObjectMeta['labels'] | undefined;
  /** The version of the reference if it is served, or the preferred one: the garbage collector has to find it. */
  readonly apiVersion: string;
}

export type RestoreQuery = Pick<AdmissionRequest, 'userInfo' | 'resource' | 'namespace'>;

/** An open RestoreWindow, or a restore that a detector sees and for which there is no window yet. */
export interface RestoreEvidence {
  readonly window: string;
  /** Which requests may be deferred. */
  readonly operations: readonly Operation[];
  /** Checks that it does not defer though their policies would. */
  readonly enforced: readonly ('references' | 'unique')[];
}

/** The UniqueClaims in the API server. Everything throws when the API server does not say. */
export interface Claims {
  /** Live. */
  readonly read: (name: string, signal: AbortSignal) => Promise<UniqueClaim | undefined>;
  /** `taken`: there is one of that name, and it stays as it is. */
  readonly create: (claim: UniqueClaim, signal: AbortSignal) => Promise<UniqueClaim | 'taken'>;
  /** `changed`: it is no longer the one that was read, and stays as it is. */
  readonly replace: (claim: UniqueClaim, signal: AbortSignal) => Promise<UniqueClaim | 'changed'>;
  /** `changed` as with `replace`, also when it has gone. */
  readonly remove: (claim: UniqueClaim, signal: AbortSignal) => Promise<'removed' | 'changed'>;
  /** How long after it was let in a write may still be stored, in milliseconds. */
  readonly settleMs: number;
}

/** What stores know, which may be out of date. */
export interface GovernedIndex {
  /**
   * The objects that seem to name this target by a reference of these policies that restricts its deletion; undefined: not all are
   * known yet.
   */
  readonly referrers: (
    target: ObjectRef,
    policies: readonly CompiledPolicy[],
  ) => readonly ObjectRef[] | undefined;
  /** The objects that seem to hold the key of this claim; undefined: not all are known yet, but soon. */
  readonly holders: (claim: string, policy: CompiledPolicy) => readonly ObjectRef[] | undefined;
}

/** What a request is judged with. */
export interface AdmissionContext {
  readonly world: World;
  /** Ends live reads when the time to answer is over; what they have not said by then is a retry. */
  readonly signal: AbortSignal;
  /** In milliseconds since 1970, by the clock of the API server. */
  readonly now: number;
}

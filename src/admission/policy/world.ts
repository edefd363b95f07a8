import type { KubeObject, ObjectMeta, ObjectRef, OwnerReference } from '../../json/kube-object.ts';
import type { Requester } from '../../api/principals.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import type { CompiledPolicy, Grants } from './compiled-policy.ts';
import type { Prove } from './references/deletion-record.ts';
import type { CelDecision, CelQuestion } from '../../cel/library/authorizer.ts';
import type { AdmissionRequest, Operation, UserInfo } from '../review/request.ts';

/** Objects of the cluster. A cached object may allow; only a live read may deny. */
export interface ObjectReads {
  /** Reads the store: fast, but possibly stale. */
  readonly find: (ref: ObjectRef) => KubeObject | undefined;
  /** Live; undefined: certainly absent. @throws without a definite answer; OutOfReachError if a retry is useless */
  readonly confirm: (ref: ObjectRef, signal: AbortSignal) => Promise<KubeObject | undefined>;
  /** Live, the whole object. @param versions whose fields the caller reads; absent or `*`: any */
  readonly read: (
    ref: ObjectRef,
    signal: AbortSignal,
    versions?: readonly string[],
  ) => Promise<KubeObject | undefined>;
}

export interface AuditWorld extends ObjectReads {
  readonly claims: Pick<Claims, 'read'>;
  readonly governed: Pick<GovernedIndex, 'holders'>;
}

export interface RequestWorld extends AuditWorld {
  readonly claims: Claims;
  readonly governed: GovernedIndex;
  /** From the stores; if false, a live lookup is unnecessary. */
  readonly mayRestore: (user: Requester) => boolean;
  /** What lets this user restore at this place, from the stores, which may be stale. */
  readonly knownRestore: (request: RestoreQuery) => RestoreEvidence | undefined;
  /** What lets this user restore at this place. @throws if a live read fails */
  readonly restoreEvidence: (
    request: RestoreQuery,
    signal: AbortSignal,
  ) => Promise<RestoreEvidence | undefined>;
  /** Live, of one namespace or of all. Absent: the stores are complete. @throws without an answer */
  readonly readGrants?: (namespace: string | undefined, signal: AbortSignal) => Promise<Grants>;
  /** The answers of the API server's authorizer. Absent in a review of files. */
  readonly access?: AccessAnswers;
  /** Absent in a review of files, which does not guarantee references. */
  readonly intents?: Intents;
  /** Signs the records of deletions. Absent in a review of files, which does not store them. */
  readonly prove?: Prove;
  /** Absent in a review of files: owners are then recorded but not looked up. */
  readonly owners?: Owners;
}

export interface AccessAnswers {
  readonly known: (user: UserInfo, question: CelQuestion) => CelDecision | undefined;
  /** @throws if the API server gives no answer */
  readonly ask: (user: UserInfo, question: CelQuestion, signal: AbortSignal) => Promise<CelDecision>;
}

export interface Owners {
  /**
   * Live, in any served version of its group; undefined: certainly absent. @throws without a definite answer
   * @param namespace of the dependent; undefined for cluster-scoped ones, which a namespaced object cannot own
   */
  readonly read: (
    owner: Pick<OwnerReference, 'apiVersion' | 'kind' | 'name'>,
    namespace: string | undefined,
    signal: AbortSignal,
  ) => Promise<LiveOwner | undefined>;
  readonly isOurs: (username: string) => boolean;
}

export interface LiveOwner {
  readonly uid: string;
  readonly creationTimestamp: string | undefined;
  readonly deletionTimestamp: string | undefined;
  readonly labels: ObjectMeta['labels'] | undefined;
  /** Served: the garbage collector has to find it. */
  readonly apiVersion: string;
}

export type RestoreQuery = Pick<
  AdmissionRequest,
  'userInfo' | 'resource' | 'namespace' | 'operation' | 'dryRun'
>;

/** What lets a user restore at a place. Windows may overlap. */
export interface RestoreEvidence {
  /** Never empty. */
  readonly windows: readonly RestoringWindow[];
}

/** An open RestoreWindow, or a restore that a detector sees before its window exists. */
export interface RestoringWindow {
  readonly window: string;
  readonly operations: readonly Operation[];
  /** Checks that the window enforces even if the policies would defer them. */
  readonly enforced: readonly ('references' | 'unique')[];
  /** Whether lost owners are linked, without waiting for an approval. */
  readonly links: boolean;
  /** Otherwise it defers only what a sweep checks again and what concerns no other namespace. */
  readonly clusterWide: boolean;
}

/** The UniqueClaims in the API server. Every function throws if the API server does not answer. */
export interface ClaimStore {
  readonly read: (name: string, signal: AbortSignal) => Promise<UniqueClaim | undefined>;
  /** `taken`: a claim with that name exists. */
  readonly create: (claim: UniqueClaim, signal: AbortSignal) => Promise<UniqueClaim | 'taken'>;
  /** `changed`: the stored claim is not the version that the caller read. */
  readonly replace: (claim: UniqueClaim, signal: AbortSignal) => Promise<UniqueClaim | 'changed'>;
  /** `changed` even if the claim does not exist anymore. */
  readonly remove: (claim: UniqueClaim, signal: AbortSignal) => Promise<'removed' | 'changed'>;
  /** How long after admission the API server may still store a write, in milliseconds. */
  readonly settleMs: number;
}

export interface Claims extends ClaimStore {
  /** Counts the claims of a user as unsettled, before they are written. */
  readonly reserve: <Key extends KeyOfClaim>(keys: readonly Key[], username: string) => Reservation<Key>;
  /** Whether the namespace exists; `false` is the result of a live read. Throws like the others. */
  readonly hasNamespace: (name: string, signal: AbortSignal) => Promise<boolean>;
}

type KeyOfClaim = Readonly<{ policy: Pick<CompiledPolicy, 'name'>; claim: string; self: ObjectRef }>;

export interface Reservation<Key> {
  /** The keys for which the user has too many unsettled claims. If there are any, no key is reserved. */
  readonly refused: readonly Key[];
  /** Reports the names of the claims that may have been written. Only these still count. */
  readonly written: (claims: readonly string[]) => void;
}

/** For references with `guarantee: Serializable`. Functions that read throw like in {@link ClaimStore}. */
export interface Intents {
  readonly list: (label: string, signal: AbortSignal) => Promise<readonly UniqueClaim[]>;
  /** Those governed objects, listed live, that the stores do not hold in the same version. */
  readonly unseen: (policy: CompiledPolicy, signal: AbortSignal) => Promise<readonly ObjectRef[]>;
  /** Resolves after some milliseconds, in which the API server may store a pending write. */
  readonly pause: (signal: AbortSignal) => Promise<void>;
  /** Counts a write under held intents. Absent or undefined: it needs a separate intent. */
  readonly hold?: (targets: readonly HeldTarget[]) => Holding | undefined;
}

export type HeldTarget = Readonly<{
  target: ObjectRef;
  policy: Pick<CompiledPolicy, 'name'>;
  reference: Readonly<{ name: string }>;
}>;

export interface Holding {
  readonly name: string;
  /** Resolves when the intents are stored. @throws if the API server does not answer */
  readonly stored: () => Promise<void>;
  /** Whether no deletion of the target was pending after its intent was stored. Since then, deletions wait. */
  readonly isClear: (target: ObjectRef) => boolean;
  /** Reports what reads have shown after the intents were stored. With an obstacle, no other write uses the intent. */
  readonly report: (target: ObjectRef, isClear: boolean) => void;
  /** @param admitted an intent that says when the write is over; undefined: the write is refused */
  readonly end: (admitted: UniqueClaim | undefined) => void;
}

/** From the stores, which may be stale. */
export interface GovernedIndex {
  /** The objects that seem to reference this target; undefined until the stores are synced. */
  readonly referrers: (
    target: ObjectRef,
    policies: readonly CompiledPolicy[],
  ) => readonly ObjectRef[] | undefined;
  /** The objects that seem to hold the key of this claim; undefined until the stores are synced. */
  readonly holders: (claim: string, policy: CompiledPolicy) => readonly ObjectRef[] | undefined;
}

/** Lets the reviews of a process share its CPU. */
export interface Turns {
  /**
   * Before expressions are evaluated. Undefined: continue immediately; otherwise wait for this review's turn.
   * @param hasRead whether the review has waited for something else since its last turn
   */
  readonly next: (hasRead?: boolean) => Promise<void> | undefined;
  /** Called after expressions were evaluated, with their CEL cost. */
  readonly charge: (cost: number) => void;
}

export interface AuditContext {
  /** Absent: the check never waits. */
  readonly turns?: Turns | undefined;
  readonly world: AuditWorld;
  /** Aborts live reads when the time to answer is over. A check that still waits for a read ends in a retry. */
  readonly signal: AbortSignal;
  /** In milliseconds since 1970, by the clock of the API server. */
  readonly now: number;
  /** PolicyExceptions from a live read. Absent: use the stores. */
  readonly grants?: Grants;
}

export interface AdmissionContext extends AuditContext {
  readonly world: RequestWorld;
}

/** Gatehouse does not read the object, and a retry gets the same result. The message is a clause for users. */
export class OutOfReachError extends Error {
  override readonly name = 'OutOfReachError';
}

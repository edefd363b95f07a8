/** The cluster as one controller sees it. */
import type { MetricWrite } from '../api/own-metric.ts';
import type { ReadKind } from '../admission/handlers/compile-handler.ts';
import type { NormalSelector } from '../json/label-selector.ts';
import type { GroupResource, KubeObject } from '../json/kube-object.ts';
import type { HandlerLog } from '../admission/handlers/handler.ts';
import type { VersionedKind } from './compile-controller.ts';

export interface ServedKind extends VersionedKind {
  readonly kind: string;
  readonly namespaced: boolean;
}

export interface UnreadableKind extends GroupResource {
  readonly kind: string;
  readonly problem: string;
}

export interface Place {
  readonly namespace?: string | undefined;
  readonly name: string;
}

export interface Query {
  /** Undefined: all namespaces. */
  readonly namespace: string | undefined;
  readonly selector: NormalSelector;
  /** Values of `indexes`; all must match. */
  readonly index: readonly (readonly [name: string, value: string])[];
}

export interface Owned {
  readonly kind: ServedKind;
  readonly object: KubeObject;
}

/** `create`: fails if another owns a field. `prove`: adds the uid to what was just created. */
export type ApplyMode = 'create' | 'prove' | 'change';

/** The pass decided on an old version of the object. */
export class OutdatedError extends Error {
  override readonly name = 'OutdatedError';
}

/** Reads see the writes of this controller, at any time. Objects are frozen. */
export interface ControllerWorld {
  readonly now: () => Date;
  /** The kinds of `watch` and `owns`, in this order. @throws Error if one is not served or not readable */
  readonly served: () => Promise<readonly ServedKind[]>;
  /** Why kinds in `owns` are not among them, although they are served. Their objects are not pruned. */
  readonly unreadable: readonly UnreadableKind[];
  /** Undefined: the object does not exist, confirmed by a live read. Cluster-scoped kinds ignore the namespace. */
  readonly get: (kind: ReadKind, place: Place, signal: AbortSignal) => Promise<KubeObject | undefined>;
  readonly list: (kind: ReadKind, query: Query, signal: AbortSignal) => Promise<readonly KubeObject[]>;
  readonly owned: (mark: string) => Promise<readonly Owned[]>;
  /** By live reads, so that nothing is missing. */
  readonly ownedLive: (mark: string, signal: AbortSignal) => Promise<readonly Owned[]>;
  /** Returns the stored object with its managedFields. */
  readonly apply: (
    kind: ServedKind,
    object: KubeObject,
    how: ApplyMode,
    signal: AbortSignal,
  ) => Promise<KubeObject>;
  /** By a live read. @throws Error for which `isPassing` is true, if the object has changed, apart from its status */
  readonly expectCurrent: (kind: ServedKind, object: KubeObject, signal: AbortSignal) => Promise<void>;
  /** The metadata with its managedFields, by a live read. Undefined: it is gone, or the read failed. */
  readonly withManagers: (
    kind: ServedKind,
    object: KubeObject,
    signal: AbortSignal,
  ) => Promise<KubeObject | undefined>;
  /** Only the object with this uid and this resourceVersion. */
  readonly remove: (kind: ServedKind, object: KubeObject, signal: AbortSignal) => Promise<void>;
  /** Replaces the finalizers, unless the object has changed. Undefined: the object is gone, as wanted. */
  readonly setFinalizers: (
    kind: ServedKind,
    object: KubeObject,
    finalizers: readonly string[],
    signal: AbortSignal,
  ) => Promise<KubeObject | undefined>;
  /** Merges into the status, unless the object has changed. Null removes a field. */
  readonly patchStatus: (
    kind: ServedKind,
    object: KubeObject,
    status: object,
    signal: AbortSignal,
  ) => Promise<KubeObject>;
  readonly metric: (write: MetricWrite) => void;
  readonly event: (object: KubeObject, type: 'Normal' | 'Warning', reason: string, message: string) => void;
  /** Whether a retry is all that this failure needs: a conflict, or another leader. */
  readonly isPassing: (error: unknown) => boolean;
  readonly log: HandlerLog;
}

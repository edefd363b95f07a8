import type { KubernetesObject, ObjectRef } from '../api/meta.ts';
import type { UserInfo } from './request.ts';

/** The only door from this room to the cluster. What it finds may allow; only what it confirms may deny. */
export interface World {
  /** From the store: fast, and possibly out of date. */
  readonly find: (ref: ObjectRef) => KubernetesObject | undefined;
  /** Live, from the API server; undefined only when there certainly is none. Throws when it cannot tell. */
  readonly confirm: (ref: ObjectRef, signal: AbortSignal) => Promise<KubernetesObject | undefined>;
  /** The open RestoreWindow in which this user restores; undefined when there certainly is none. Throws when it cannot tell. */
  readonly restoreEvidence: (
    user: UserInfo,
    signal: AbortSignal,
  ) => Promise<{ readonly window: string } | undefined>;
}

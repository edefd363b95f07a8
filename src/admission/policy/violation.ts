import type { CompiledPolicy } from './compiled-policy.ts';
import type { CauseType } from '../review/decision.ts';

/** A check that a restore can defer or, for `immutable`, skip. */
export type DeferrableCheck = 'references' | 'unique' | 'schema' | 'rules' | 'immutable';

/** One field that violates a policy. */
export interface Violation {
  readonly policy: CompiledPolicy;
  readonly field: string;
  readonly reason: CauseType;
  /** What is wrong and what to do, without the field. */
  readonly message: string;
  /** The name of the reference, unique value or rule that it violates, if it has one. */
  readonly check?: string;
  /** Whether the cluster had a say in it: then only a live read may refuse. */
  readonly readsCluster?: boolean;
  /** What kind of check it is, if one that may wait for the end of a restore. */
  readonly deferrable?: DeferrableCheck;
  /** How the refusal is to be answered, if not as every other: see `verdict.ts`. */
  readonly refusal?: {
    readonly reason: string;
    readonly code: number;
    /** Clients of the API wait so long and ask again by themselves. */
    readonly retryAfterSeconds?: number;
  };
}

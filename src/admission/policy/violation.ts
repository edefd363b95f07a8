import type { CompiledPolicy } from './compiled-policy.ts';
import type { FoundReference } from './references/read-references.ts';
import type { CauseType } from '../review/decision.ts';

/** A check that a restore can defer or, for `immutable`, skip. */
export type DeferrableCheck = 'references' | 'unique' | 'schema' | 'rules' | 'immutable';

export interface Violation {
  readonly policy: CompiledPolicy;
  readonly field: string;
  readonly reason: CauseType;
  readonly message: string;
  /** Whether the object may have unreported violations of this kind. */
  readonly hasMore?: boolean;
  /** The name of the violated reference, unique value or rule. */
  readonly check?: string;
  /** Where the violated keyword is in the schema. */
  readonly keyword?: string;
  /** Whether the check read the cluster: then only a live read may deny. */
  readonly readsCluster?: boolean;
  readonly awaits?: readonly FoundReference[];
  /** The kind of check, if a restore can defer it. */
  readonly deferrable?: DeferrableCheck;
  /** The reason and code of the denial, if they differ from the default in `findings.ts`. */
  readonly refusal?: {
    readonly reason: string;
    readonly code: number;
    /** API clients wait this long, then retry. */
    readonly retryAfterSeconds?: number;
  };
}

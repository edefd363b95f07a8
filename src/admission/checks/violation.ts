import type { CompiledPolicy } from '../compiled-policy.ts';
import type { CauseType } from '../decision.ts';

/** One field that a policy objects to. */
export interface Violation {
  readonly policy: CompiledPolicy;
  readonly field: string;
  readonly reason: CauseType;
  /** What is wrong and what to do, without the field. */
  readonly message: string;
}

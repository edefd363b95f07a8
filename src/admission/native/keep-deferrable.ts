/** Checks that a restore may defer. */
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import { mayDefer } from '../policy/deferral/deferral.ts';
import { isAboutState } from '../policy/rules/rules.ts';
import type { DeferrableCheck } from '../policy/violation.ts';
import type { NativeCheck } from './native-check.ts';

/**
 * Only the webhook knows whether a restore is going on: any user may be the principal of a RestoreWindow, also of one that is
 * opened later. So a check that a restore may defer stays there.
 *
 * @param checks of this part; those of rules in the order of the rules, because rules may share a name
 */
export function keepDeferrable(
  policy: CompiledPolicy,
  part: DeferrableCheck,
  checks: readonly NativeCheck[],
): readonly NativeCheck[] {
  if (!mayDefer(policy, part)) return checks;
  // A rule that reads the request or the old object always applies: no sweep could check it later.
  const isAlways = (index: number): boolean => {
    const rule = part === 'rules' ? policy.rules[index] : undefined;
    return rule !== undefined && !isAboutState(rule);
  };
  return checks.map((one, index) =>
    one.by === 'Webhook' || isAlways(index)
      ? one
      : { check: one.check, by: 'Webhook', reason: 'a restore may defer it' },
  );
}

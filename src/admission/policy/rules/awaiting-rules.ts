import type { UnresolvedReference } from '../references/check-references.ts';
import { targetKey } from '../object-ref.ts';
import type { Violation } from '../violation.ts';

/**
 * Leaves out rules whose result depends on missing targets, if the decision about each of these references also holds
 * for the rule. All other rules stay: a tolerated or exempt dangling reference must not disable them.
 *
 * @param refused references for which the request is refused, retried or reported
 * @param deferred references that are checked again later; so are rules, but only those that read just the state
 */
export function withoutAwaiting(
  violations: readonly Violation[],
  refused: readonly UnresolvedReference[],
  deferred: readonly UnresolvedReference[] = [],
): readonly Violation[] {
  if (refused.length + deferred.length === 0) return violations;
  const decided = new Set(refused.map(keyOf));
  const later = new Set(deferred.map(keyOf));
  return violations.filter(({ policy, awaits = [], deferrable }) => {
    const keys = awaits.map((one) => keyOf({ ...one, policy }));
    const follows = keys.every((key) => decided.has(key) || (deferrable === 'rules' && later.has(key)));
    return keys.length === 0 || !follows;
  });
}

const keyOf = ({ policy, reference, target }: UnresolvedReference): string =>
  `${policy.name} ${reference.name} ${targetKey(target)}`;

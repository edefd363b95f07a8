/** `existingViolations: Allow`: an update passes a violated check if it does not change what the check reads. */
import { tryParsePath, valuesAt } from '../../../json/field-path.ts';
import { isEqual, type JsonObject } from '../../../json/json.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import type { CompiledPolicy, CompiledRule } from '../compiled-policy.ts';
import { exemptionOf } from '../exceptions/exceptions.ts';
import { stepsIn } from '../expressions/expression.ts';
import { governedBefore, isSameAt } from '../match/object-scope.ts';
import type { Violation } from '../violation.ts';
import type { AuditContext } from '../world.ts';

/** The old object must have violated the same check, so no sequence of updates makes a valid object invalid. */
export function splitExisting(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  violations: readonly Violation[],
  context: Pick<AuditContext, 'now' | 'grants'>,
): Readonly<Record<'violations' | 'existing', readonly Violation[]>> {
  const { object, operation } = request;
  const isTolerant = policy.allowsExisting && operation === 'UPDATE' && violations.length > 0;
  const old = isTolerant ? governedBefore(policy, request) : undefined;
  if (object === undefined || old === undefined) return { violations, existing: [] };
  const { covers } = exemptionOf(policy, { ...request, object: old }, context);
  const checksSchema = violations.some(({ deferrable }) => deferrable === 'schema') && !covers('schema');
  const flaws = checksSchema ? (policy.schema?.(old) ?? []) : [];
  const isExisting = (one: Violation): boolean => {
    const { check, deferrable, field } = one;
    if (one.hasMore === true) return false; // a new violation may hide among those that are not listed
    if (deferrable === 'schema')
      return flaws.some((flaw) => isSame(flaw, one)) && isUnchanged(field, old, object);
    if (deferrable !== 'rules' || covers('rules', check)) return false;
    // Such a rule depends on nothing else of the request, so it gives the old object the same result.
    return policy.rules.every((rule) => rule.name !== check || readsTheSame(policy, rule, old, object));
  };
  const { existing = [], others = [] } = Object.groupBy(violations, (one) =>
    isExisting(one) ? 'existing' : 'others',
  );
  return { violations: others, existing };
}

type Described = Pick<Violation, 'check' | 'keyword' | 'field' | 'reason' | 'message'>;

export const isSame = (old: Described, now: Described): boolean =>
  old.check === now.check &&
  old.keyword === now.keyword &&
  old.field === now.field &&
  old.reason === now.reason &&
  old.message === now.message;

/** @param field empty: the whole object */
export function isUnchanged(field: string, before: JsonObject, after: JsonObject): boolean {
  if (field === '') return isEqual(before, after);
  const path = tryParsePath(field);
  return path !== undefined && isEqual(valuesAt(before, path)[0]?.value, valuesAt(after, path)[0]?.value);
}

/** Whether an update leaves everything alone that the rule reads of the object. */
export function readsTheSame(
  policy: CompiledPolicy,
  { expression: { program, reads } }: CompiledRule,
  before: JsonObject,
  after: JsonObject,
): boolean {
  const targets = policy.references
    .filter(({ name }) => reads.refs.has(name))
    .flatMap(({ path, namespacePath }) => (namespacePath === undefined ? [path] : [path, namespacePath]));
  return (
    stepsIn(policy, program).every((steps) => isSameAt(steps, before, after)) &&
    targets.every((path) => isEqual(valuesAt(before, path), valuesAt(after, path)))
  );
}

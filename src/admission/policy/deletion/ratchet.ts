import { InvalidPath, parsePath, valuesAt } from '../../../json/field-path.ts';
import { isEqual, type JsonObject } from '../../../json/json.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { forAudit } from '../audit.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { judge, type JudgeContext, type Judgement } from '../judge.ts';
import { isAboutState } from '../rules/rules.ts';
import type { Violation } from '../violation.ts';
import { isDeletionPending, isFinalizerRemoval } from './deletion.ts';

/**
 * Judges a request like `judge`. While the stored object is being deleted, violations that it has already are
 * tolerated: its controllers must be able to finish. New violations are not: the object may exist for a long time.
 *
 * Checks of references, unique values and immutable fields compare both objects anyway. Rules that read the request or
 * the old object apply in full.
 */
export function judgeChange(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  context: JudgeContext,
): Judgement | Promise<Judgement> {
  if (!isDeletionPending(request)) return judge(policy, request, context);
  if (isFinalizerRemoval(request)) {
    const judged = judge(withoutStateChecks(policy), request, context);
    return judged instanceof Promise ? judged.then((one) => ({ ...one, policy })) : { ...judged, policy };
  }
  const judged = judge(policy, request, context);
  return judged instanceof Promise
    ? judged.then((one) => ratchet(one, request, context))
    : ratchet(judged, request, context);
}

const withoutStateChecks = (policy: CompiledPolicy): CompiledPolicy => ({
  ...policy,
  schema: undefined,
  rules: policy.rules.filter((rule) => !isAboutState(rule)),
});

function ratchet(
  judgement: Judgement,
  request: AdmissionRequest,
  context: JudgeContext,
): Judgement | Promise<Judgement> {
  const { policy, violations } = judgement;
  const { object, oldObject } = request;
  if (object === undefined || oldObject === undefined || !violations.some(isOfState)) return judgement;
  const tolerate = (before: Judgement): Judgement => {
    if (before.unreadable !== undefined) {
      const others = violations.filter((one) => !isOfState(one));
      return { ...judgement, violations: others, unreadable: before.unreadable };
    }
    const isOld = (one: Violation) =>
      one.hasMore !== true && // a new violation may hide among those that are not listed
      before.violations.some((old) => isSame(old, one)) &&
      isUnchanged(one.field, oldObject, object);
    return { ...judgement, violations: violations.filter((one) => !isOfState(one) || !isOld(one)) };
  };
  const before = judge(forAudit(policy), { ...request, object: oldObject }, context);
  return before instanceof Promise ? before.then(tolerate) : tolerate(before);
}

const isOfState = ({ deferrable }: Violation): boolean => deferrable === 'schema' || deferrable === 'rules';

function isSame(old: Violation, now: Violation): boolean {
  return (
    old.check === now.check &&
    old.field === now.field &&
    old.reason === now.reason &&
    old.message === now.message
  );
}

/** A violation that names no field is about the whole object, which the request has changed. */
function isUnchanged(field: string, before: JsonObject, after: JsonObject): boolean {
  if (field === '') return true;
  try {
    const path = parsePath(field);
    return isEqual(valuesAt(before, path)[0]?.value, valuesAt(after, path)[0]?.value);
  } catch (error) {
    if (!(error instanceof InvalidPath)) throw error;
    return false;
  }
}

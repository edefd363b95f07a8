/** Requests about an object that is being deleted. */
import { isEqual, listIn, objectIn, type JsonObject, type JsonValue } from '../../../json/json.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { hasDeletionTimestamp } from '../object-metadata.ts';
import { forAudit } from '../audit.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { isSame, isUnchanged } from '../existing/existing.ts';
import { judge, type JudgeContext, type Judgement } from '../judge.ts';
import { isAboutState } from '../rules/rules.ts';
import type { Violation } from '../violation.ts';

type Change = Pick<AdmissionRequest, 'operation' | 'object' | 'oldObject'>;

/** Only the stored object counts: a user can write any deletionTimestamp into a new object by server-side apply. */
function isDeletionPending({ operation, oldObject }: Omit<Change, 'object'>): boolean {
  return operation === 'UPDATE' && oldObject !== undefined && hasDeletionTimestamp(oldObject);
}

/** Whether the request removes finalizers from an object that is being deleted, and changes nothing else. */
export function isFinalizerRemoval(request: Change): boolean {
  const { object, oldObject } = request;
  if (!isDeletionPending(request) || object === undefined || oldObject === undefined) return false;
  const before = finalizersOf(oldObject);
  return (
    finalizersOf(object).every((name) => before.includes(name)) &&
    isEqual(withoutServerMetadata(object), withoutServerMetadata(oldObject))
  );
}

/** A mutation that adds a missing finalizer would undo its removal, and the object would exist forever. */
export function withoutAddedFinalizers(request: Change, changed: JsonObject): JsonObject {
  if (!isDeletionPending(request) || request.object === undefined) return changed;
  const asked = finalizersOf(request.object);
  const now = finalizersOf(changed);
  const kept = now.filter((name) => asked.includes(name));
  if (kept.length === now.length) return changed;
  return { ...changed, metadata: { ...objectIn(changed, 'metadata'), finalizers: kept } };
}

const NOT_COMPARED: ReadonlySet<string> = new Set([
  'finalizers',
  'managedFields',
  'resourceVersion',
  'generation',
  'uid',
  'selfLink',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
]);

function withoutServerMetadata(object: JsonObject): JsonObject {
  const compared = Object.entries(objectIn(object, 'metadata')).filter(([key]) => !NOT_COMPARED.has(key));
  return { ...object, metadata: Object.fromEntries(compared) };
}

const finalizersOf = (object: JsonObject): readonly JsonValue[] => listIn(object, 'metadata', 'finalizers');

/**
 * Like `judge`, but tolerates the violations that an object already has while it is being deleted, so that its controllers
 * can finish. Rules that read the request or the old object apply in full.
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
      (one.field === '' || isUnchanged(one.field, oldObject, object));
    return { ...judgement, violations: violations.filter((one) => !isOfState(one) || !isOld(one)) };
  };
  const before = judge(forAudit(policy), { ...request, object: oldObject }, context);
  return before instanceof Promise ? before.then(tolerate) : tolerate(before);
}

const isOfState = ({ deferrable }: Violation): boolean => deferrable === 'schema' || deferrable === 'rules';

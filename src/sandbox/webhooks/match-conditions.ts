import { toJson } from '../api-object.ts';
import { forbidden } from '../failure.ts';
import { admissionRequest, type Question } from './admission-review.ts';
import type { Hook } from './hook.ts';

/**
 * Whether all matchConditions of a webhook hold. One that is false decides, even if others cannot be evaluated.
 *
 * @throws ApiFailure 403 when a condition cannot be evaluated and failurePolicy is Fail; with Ignore the webhook is passed over
 * @see k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions
 */
export function conditionsHold({ conditions, ignoresFailures }: Hook, question: Question): boolean {
  if (conditions.length === 0) return true;
  const bindings = {
    object: question.object === undefined ? null : toJson(question.object),
    oldObject: question.oldObject === undefined ? null : toJson(question.oldObject),
    request: admissionRequest(question),
  };
  const problems: string[] = [];
  for (const { expression, evaluate } of conditions) {
    try {
      if (evaluate(bindings) === false) return false;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      problems.push(`expression '${expression}' resulted in error: ${why}`);
    }
  }
  if (problems.length === 0) return true;
  if (ignoresFailures) return false;
  const { type, name } = question.attributes;
  const unique = [...new Set(problems)];
  throw forbidden(type, name, unique.length === 1 ? unique.join() : `[${unique.join(', ')}]`);
}

import { CelError } from '../../../cel/cel.ts';
import { celToJson } from '../../../cel/cel-to-json.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import type { Evaluate } from '../expressions/expression.ts';
import { fill } from '../../../json/field-path.ts';
import type { JsonObject } from '../../../json/json.ts';
import { MutationError } from '../mutations/mutation-error.ts';

/**
 * The object with the policy's defaults wherever they are absent. Twice is the same as once; the object itself never changes.
 *
 * An expression that yields null leaves its field absent.
 *
 * @param evaluateOn expressions that see this object
 * @throws MutationError when an expression fails
 */
export function fillDefaults(
  { name, defaults }: CompiledPolicy,
  object: JsonObject,
  evaluateOn: (object: JsonObject) => Evaluate,
): JsonObject {
  return defaults.reduce((filled, rule) => {
    if (rule.kind === 'value') return fill(filled, rule.path, rule.value);
    // Asked first: an expression that is not needed must not be able to fail the request.
    if (fill(filled, rule.path, true) === filled) return filled;
    try {
      const value = celToJson(evaluateOn(filled)(rule.expression));
      return value === null ? filled : fill(filled, rule.path, value);
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      throw new MutationError(
        `the default of ${rule.path.text} could not be computed: ${error.message}`,
        name,
        error,
      );
    }
  }, object);
}

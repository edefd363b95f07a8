import { isBeingDeleted } from '../object-metadata.ts';
import type { Violation } from '../violation.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { CompiledMatch, SchemaCheck, CompiledPolicy } from '../compiled-policy.ts';
import type { Problem } from '../problem.ts';
import { writes, type AdmissionRequest } from '../../review/request.ts';
import { compileJsonSchema, InvalidSchema } from './json-schema.ts';

/** Compiles `spec.validate.schema` and reports its problems. */
export function compileSchema(
  { validate }: AdmissionPolicySpec,
  match: CompiledMatch,
  problems: Problem[],
): SchemaCheck | undefined {
  if (validate?.schema === undefined) return undefined;
  if (!match.operations.some(writes)) {
    problems.push({
      reason: 'InvalidPolicy',
      where: 'spec.match.operations',
      message: 'has neither CREATE nor UPDATE, so spec.validate.schema would never be checked: add them',
    });
  }
  try {
    return compileJsonSchema(validate.schema);
  } catch (error) {
    if (!(error instanceof InvalidSchema)) throw error;
    problems.push({ reason: 'InvalidSchema', where: 'spec.validate.schema', message: error.message });
    return undefined;
  }
}

export function checkSchema(
  policy: CompiledPolicy,
  { operation, object }: AdmissionRequest,
): readonly Violation[] {
  if (policy.schema === undefined || object === undefined) return [];
  if (!writes(operation) || isBeingDeleted(object)) return [];
  return policy.schema(object).map((flaw) => ({ policy, ...flaw, deferrable: 'schema' }));
}

import type { Violation } from '../violation.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { CompiledMatch, SchemaCheck, CompiledPolicy } from '../compiled-policy.ts';
import { requireWrites, type Report } from '../problem.ts';
import { writes, type AdmissionRequest } from '../../review/request.ts';
import { compileJsonSchema, InvalidSchema } from './json-schema.ts';

/** Compiles `spec.validate.schema` and reports its problems. */
export function compileSchema(
  { validate }: AdmissionPolicySpec,
  match: CompiledMatch,
  report: Report,
): SchemaCheck | undefined {
  if (validate?.schema === undefined) return undefined;
  requireWrites(match, 'spec.validate.schema would never be checked: add them', report);
  try {
    return compileJsonSchema(validate.schema);
  } catch (error) {
    if (!(error instanceof InvalidSchema)) throw error;
    report('spec.validate.schema', error.message, 'InvalidSchema');
    return undefined;
  }
}

export function checkSchema(
  policy: CompiledPolicy,
  { operation, object }: AdmissionRequest,
): readonly Violation[] {
  if (policy.schema === undefined || object === undefined || !writes(operation)) return [];
  return policy.schema(object).map((flaw) => ({ policy, ...flaw, deferrable: 'schema' }));
}

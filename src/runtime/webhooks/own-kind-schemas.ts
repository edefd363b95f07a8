/** Validates objects of Gatehouse's own kinds against the schema of their CustomResourceDefinition. */
import { compileJsonSchema } from '../../admission/policy/schema/json-schema.ts';
import type { SchemaCheck } from '../../admission/policy/compiled-policy.ts';
import { writes, type AdmissionRequest } from '../../admission/review/request.ts';
import { admissionPolicySchema } from '../../api/admission-policy.ts';
import { policyExceptionSchema } from '../../api/policy-exception.ts';
import { restoreDetectorSchema } from '../../api/restore-detector.ts';
import { restoreWindowSchema } from '../../api/restore-window.ts';

/** The kinds whose reviews cause SubjectAccessReviews, or read more than their metadata. */
const SCHEMAS = new Map<string, object>([
  ['admissionpolicies', admissionPolicySchema],
  ['policyexceptions', policyExceptionSchema],
  ['restoredetectors', restoreDetectorSchema],
  ['restorewindows', restoreWindowSchema],
]);

/** Compiled on first use: compilation takes tens of milliseconds. */
const checks = new Map<string, SchemaCheck>();

/** The flaws of the object that the request would store; empty if it is valid, or of another kind. */
export function schemaFlaws({
  operation,
  resource: { resource },
  object,
}: AdmissionRequest): ReturnType<SchemaCheck> {
  const schema = SCHEMAS.get(resource);
  if (schema === undefined || object === undefined || !writes(operation)) return [];
  const check = checks.get(resource) ?? compileJsonSchema(withoutExtensions(schema));
  checks.set(resource, check);
  return check(object);
}

/** JSON Schema does not have the keywords of Kubernetes. */
const withoutExtensions = (schema: object): object =>
  JSON.parse(
    JSON.stringify(schema, (key, value: unknown) => (key.startsWith('x-kubernetes-') ? undefined : value)),
  ) as object; // a schema is plain JSON

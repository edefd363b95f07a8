import type { CompiledPolicy } from '../compiled-policy.ts';
import { valuesAt, type FieldPath } from '../../../json/field-path.ts';
import { isEqual, type JsonObject, type JsonValue } from '../../../json/json.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { quote } from '../../../json/printable.ts';
import type { Violation } from '../violation.ts';

/**
 * A field that is set keeps its value. To set one that is absent or null is allowed, once.
 *
 * Also while the object is being deleted: what its finalizers clean up is found by such fields, and removing a finalizer changes
 * none of them.
 */
export function checkImmutable(policy: CompiledPolicy, request: AdmissionRequest): readonly Violation[] {
  const { operation, object, oldObject } = request;
  if (operation !== 'UPDATE' || object === undefined || oldObject === undefined) return [];
  return policy.immutable.flatMap(({ path, from }) => {
    const before = setValue(oldObject, path);
    const after = setValue(object, path);
    if ((before === undefined && from === 'first-value') || isEqual(before, after)) return [];
    const to = isSecret(request) ? '' : ` to ${quote(after)}`;
    const what =
      before === undefined
        ? `was not set when the object was created and cannot be set${to} later: leave it out`
        : after === undefined
          ? `was set and cannot be removed: ${KEEP}`
          : `was set and cannot be changed${to}: ${KEEP}`;
    return [
      { policy, field: path.text, reason: 'FieldValueForbidden', message: what, deferrable: 'immutable' },
    ];
  });
}

const KEEP = 'keep the value it has, or delete the object and create it anew';

/** Null is how the API writes a field that is not set. */
function setValue(object: JsonObject, path: FieldPath): JsonValue | undefined {
  return valuesAt(object, path)[0]?.value ?? undefined;
}

/** Messages end up in logs and events, where the data of a Secret has no place. */
function isSecret({ resource }: AdmissionRequest): boolean {
  return resource.group === '' && resource.resource === 'secrets';
}

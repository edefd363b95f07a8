import { type Problem, tryPath, pathProblem } from '../problem.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { CompiledPolicy, CompiledMatch, CompiledImmutable } from '../compiled-policy.ts';
import { valuesAt, type FieldPath } from '../../../json/field-path.ts';
import { isEqual, type JsonObject, type JsonValue } from '../../../json/json.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { quote } from '../../../json/printable.ts';
import type { Violation } from '../violation.ts';

/**
 * A field that is set keeps its value. A `first-value` field may be set once if it is absent or null.
 *
 * This also applies while the object is being deleted: finalizers find what to clean up through such fields. Removing a
 * finalizer does not change them.
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

const KEEP = 'keep the value it has, or delete the object and create it again';

/** The API uses null for a field that is not set. */
function setValue(object: JsonObject, path: FieldPath): JsonValue | undefined {
  return valuesAt(object, path)[0]?.value ?? undefined;
}

/** Messages end up in logs and Events, which must not contain the data of a Secret. */
function isSecret({ resource }: AdmissionRequest): boolean {
  return resource.group === '' && resource.resource === 'secrets';
}

/** Compiles the immutable fields and reports their problems. */
export function compileImmutable(
  { validate }: AdmissionPolicySpec,
  match: CompiledMatch,
): { readonly immutable: readonly CompiledImmutable[]; readonly problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const parse = (texts: readonly string[], list: string, from: CompiledImmutable['from']) =>
    texts.flatMap((text, index): readonly CompiledImmutable[] => {
      const where = `spec.validate.${list}[${index}]`;
      const path = tryPath(text, where, problems);
      const flaw = path === undefined ? undefined : immutableFlaw(path);
      if (flaw !== undefined) problems.push(pathProblem(where, flaw));
      return path === undefined ? [] : [{ path, from }];
    });
  const immutable = [
    ...parse(validate?.immutable ?? [], 'immutable', 'first-value'),
    ...parse(validate?.immutableFromCreation ?? [], 'immutableFromCreation', 'creation'),
  ];
  if (immutable.length > 0 && !match.operations.includes('UPDATE')) {
    problems.push({
      reason: 'InvalidPolicy',
      where: 'spec.match.operations',
      message: 'has no UPDATE, so immutable fields would never be checked: add it',
    });
  }
  return { immutable, problems };
}

function immutableFlaw({ segments }: FieldPath): string | undefined {
  const [first, second] = segments;
  if (segments.some(({ kind }) => kind === 'each')) {
    return 'elements of a list have no identity of their own, so [*] cannot be immutable: name the whole list';
  }
  if (first?.kind !== 'field') return 'starts inside a list: start with a field such as spec';
  const isMap = second?.kind === 'field' && (second.name === 'labels' || second.name === 'annotations');
  if (first.name === 'metadata' && !isMap) {
    return 'the API server changes metadata itself with every write: only labels and annotations can be immutable';
  }
  return undefined;
}

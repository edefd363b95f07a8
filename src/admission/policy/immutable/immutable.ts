import { tryPath, type Report } from '../problem.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { CompiledPolicy, CompiledMatch, CompiledImmutable } from '../compiled-policy.ts';
import { valuesAt, type FieldPath } from '../../../json/field-path.ts';
import { isEqual, type JsonObject, type JsonValue } from '../../../json/json.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { quote } from '../../../json/printable.ts';
import { isSecret } from '../object-ref.ts';
import type { Violation } from '../violation.ts';

/** Applies even while the object is being deleted: finalizers find what to clean up through such fields. */
export function checkImmutable(policy: CompiledPolicy, request: AdmissionRequest): readonly Violation[] {
  const { operation, object, oldObject } = request;
  if (operation !== 'UPDATE' || object === undefined || oldObject === undefined) return [];
  return policy.immutable.flatMap(({ path, from }) => {
    const before = setValue(oldObject, path);
    const after = setValue(object, path);
    if ((before === undefined && from === 'first-value') || isEqual(before, after)) return [];
    const to = isSecret(request.resource) ? '' : ` to ${quote(after)}`;
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

export const KEEP = 'keep the value it has, or delete the object and create it again';

/** The API uses null for a field that is not set. */
function setValue(object: JsonObject, path: FieldPath): JsonValue | undefined {
  return valuesAt(object, path)[0]?.value ?? undefined;
}

export function compileImmutable(
  { validate: { immutable = [], immutableFromCreation = [] } = {} }: AdmissionPolicySpec,
  match: CompiledMatch,
  report: Report,
): readonly CompiledImmutable[] {
  const parse = (texts: readonly string[], list: string, from: CompiledImmutable['from']) =>
    texts.flatMap((text, index): readonly CompiledImmutable[] => {
      const where = `spec.validate.${list}[${index}]`;
      const path = tryPath(text, where, report);
      if (path === undefined) return [];
      const flaw = immutableFlaw(path);
      if (flaw !== undefined) report(where, flaw, 'InvalidPath');
      return [{ path, from }];
    });
  const compiled = [
    ...parse(immutable, 'immutable', 'first-value'),
    ...parse(immutableFromCreation, 'immutableFromCreation', 'creation'),
  ];
  if (compiled.length > 0 && !match.operations.includes('UPDATE'))
    report('spec.match.operations', 'lacks UPDATE, so immutable fields would never be checked: add it');
  return compiled;
}

function immutableFlaw({ segments }: FieldPath): string | undefined {
  const [first, second] = segments;
  if (segments.some(({ kind }) => kind === 'each'))
    return 'list elements lack an identity, so [*] cannot be immutable: write the path of the whole list';
  if (first?.kind !== 'field') return 'starts inside a list: start with a field such as spec';
  const isMap = second?.kind === 'field' && (second.name === 'labels' || second.name === 'annotations');
  if (first.name === 'metadata' && !isMap)
    return 'the API server changes metadata itself with every write: only labels and annotations can be immutable';
  return undefined;
}

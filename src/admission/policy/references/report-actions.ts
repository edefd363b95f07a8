/** Refuses references with an `onTargetDelete` that could never change the objects. */
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { ReferenceRule } from '../../../api/policy-validate.ts';
import { tryParsePath, type FieldPath, type Segment } from '../../../json/field-path.ts';
import { isEqual, isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../../json/json.ts';
import { isObjectName } from '../../../json/names.ts';
import { quote } from '../../../json/printable.ts';
import { toGroupResource } from '../../../api/policy-match.ts';
import type { CompiledImmutable } from '../compiled-policy.ts';
import type { Report } from '../problem.ts';

const RBAC = 'rbac.authorization.k8s.io';

/** @param schemas of the governed kinds, as far as they are known */
export function reportActions(
  { match, validate: { references = [], schema } = {} }: AdmissionPolicySpec,
  immutable: readonly CompiledImmutable[],
  schemas: readonly JsonObject[],
  report: Report,
): void {
  const own = isJsonObject(schema) ? [schema] : [];
  for (const [index, rule] of references.entries()) {
    const where = `spec.validate.references[${index}]`;
    reportDefault(rule, `${where}.defaultTarget`, report);
    if (rule.onTargetDelete !== 'SetNull' && rule.onTargetDelete !== 'SetDefault') continue;
    const at = `${where}.onTargetDelete`;
    if (match.apiGroups.includes(RBAC))
      report(
        at,
        `${rule.onTargetDelete} cannot change ${RBAC}: the API server would compare the new permissions with those of Gatehouse, not of a user; write Restrict or Cascade`,
      );
    const path = tryParsePath(rule.path);
    const uidPath = rule.uidPath === undefined ? undefined : tryParsePath(rule.uidPath);
    if (path === undefined) continue; // another problem
    const flaw = flawOf(rule, path, immutable);
    if (flaw !== undefined) report(at, `${rule.onTargetDelete} ${flaw}`);
    const removed = [...(rule.onTargetDelete === 'SetNull' ? [path] : []), uidPath].filter(
      (one) => one !== undefined,
    );
    const required = removed.find((one) => [...own, ...schemas].some((each) => requires(each, one.segments)));
    if (required !== undefined)
      report(
        at,
        `${rule.onTargetDelete} removes ${required.text}, and the schema requires it: write Restrict or Cascade`,
      );
  }
}

function reportDefault(
  { onTargetDelete, defaultTarget, target }: ReferenceRule,
  where: string,
  report: Report,
): void {
  if (onTargetDelete !== 'SetDefault') {
    if (defaultTarget !== undefined) report(where, 'has an effect only with onTargetDelete: SetDefault');
  } else if (defaultTarget === undefined) {
    report(where, 'is missing: write the name of the target that onTargetDelete: SetDefault writes');
  } else if (!isObjectName(toGroupResource(target), defaultTarget)) {
    report(where, `${quote(defaultTarget)} cannot be the name of an object`);
  }
}

function flawOf(
  { onTargetDelete, optional = true }: ReferenceRule,
  { segments, text }: FieldPath,
  immutable: readonly CompiledImmutable[],
): string | undefined {
  const fixed = immutable.find(({ path }) => overlaps(path.segments, segments));
  if (fixed !== undefined)
    return `changes ${text}, and ${fixed.path.text} is immutable: write Restrict or Cascade`;
  if (onTargetDelete === 'SetNull' && !optional)
    return `removes ${text}, and optional: false requires it: write Restrict or Cascade`;
  const [first, second] = segments;
  const isMap = second?.kind === 'field' && (second.name === 'labels' || second.name === 'annotations');
  if (first?.kind !== 'field' || first.name === 'status' || (first.name === 'metadata' && !isMap))
    return `cannot change ${text}: only fields outside of status, and labels and annotations`;
  if (onTargetDelete === 'SetNull' && segments.at(-1)?.kind === 'index')
    return `would move the other elements of the list: write [*] instead of the index`;
  return undefined;
}

/** Whether one of the paths contains the other. */
function overlaps(a: readonly Segment[], b: readonly Segment[]): boolean {
  const shared = Math.min(a.length, b.length);
  return isEqual(a.slice(0, shared), b.slice(0, shared));
}

/** Whether the schema requires the field, or an element of the list. */
function requires(schema: JsonObject, segments: readonly Segment[]): boolean {
  let parent: JsonValue | undefined = schema;
  for (const segment of segments.slice(0, -1)) {
    if (!isJsonObject(parent)) return false;
    parent = segment.kind === 'field' ? childOf(parent, segment.name) : parent.items;
  }
  const last = segments.at(-1);
  if (!isJsonObject(parent)) return false;
  if (last?.kind !== 'field') return Number(parent.minItems ?? 0) > 0;
  return isJsonArray(parent.required) && parent.required.includes(last.name);
}

function childOf({ properties, additionalProperties }: JsonObject, name: string): JsonValue | undefined {
  const child = isJsonObject(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
  return child ?? additionalProperties;
}

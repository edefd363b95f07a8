import { clusterScoped, type Resolve, tryResolve } from '../match/compile-match.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { toGroupResource } from '../../../api/policy-match.ts';
import type { ReferenceRule } from '../../../api/policy-validate.ts';
import { groupResourceName, isObjectName } from '../../../json/kube-object.ts';
import { type Report, requireWrites, tryPath } from '../problem.ts';
import type { CompiledImmutable, CompiledMatch, CompiledReference } from '../compiled-policy.ts';
import { type FieldPath, isSiblingPath, type Segment, tryParsePath } from '../../../json/field-path.ts';
import { hasWildcard, splitResource } from '../match/resource-pattern.ts';
import { reportDeletionLockout } from '../match/lockout.ts';
import { deletionReferences } from './read-references.ts';
import { isEqual, isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../../json/json.ts';
import { quote } from '../../../json/printable.ts';

export function compileReferences(
  { validate }: AdmissionPolicySpec,
  match: CompiledMatch,
  resolve: Resolve,
  report: Report,
): readonly CompiledReference[] {
  const rules = validate?.references ?? [];
  const references = rules.flatMap(
    (rule, index) =>
      compileReference(rule, `spec.validate.references[${index}]`, match, resolve, report) ?? [],
  );
  if (rules.length === 0) return references;
  requireWrites(match, 'spec.validate.references would never be checked: add one of them', report);
  if (match.resources.some(hasWildcard)) {
    const message =
      'has a wildcard, and the sweep after a restore has to know which kinds hold references: list the resources';
    report('spec.match.resources', message, 'Unsupported');
  }
  if (deletionReferences(references).length > 0) reportSubresources(match, report);
  return references;
}

/** Replicas watch only resources: a subresource alone could not block a deletion. */
function reportSubresources({ resources }: CompiledMatch, report: Report): void {
  for (const pattern of resources) {
    const { resource, subResource } = splitResource(pattern);
    if (subResource === '' || resources.includes(resource) || hasWildcard(pattern)) continue;
    const message = `has ${pattern} without ${resource}, and Gatehouse has to know which objects name a target: add ${resource}`;
    report('spec.match.resources', message);
  }
}

function compileReference(
  {
    name,
    path: text,
    namespacePath: namespaceText,
    onTargetDelete = 'Allow',
    guarantee,
    optional = true,
    ...rule
  }: ReferenceRule,
  where: string,
  match: CompiledMatch,
  resolve: Resolve,
  report: Report,
): CompiledReference | undefined {
  const path = tryPath(text, `${where}.path`, report);
  const namespacePath =
    namespaceText === undefined ? undefined : tryPath(namespaceText, `${where}.namespacePath`, report);
  const uidPath = rule.uidPath === undefined ? undefined : tryPath(rule.uidPath, `${where}.uidPath`, report);
  if (uidPath !== undefined && path !== undefined)
    reportUidPath(uidPath, path, match, `${where}.uidPath`, report);
  const target = toGroupResource(rule.target);
  const resolved = tryResolve(target, `${where}.target`, resolve, report);
  const restrictsDelete = onTargetDelete === 'Restrict';
  if (onTargetDelete !== 'Allow')
    reportDeletionLockout(target, match.failurePolicy, `${where}.onTargetDelete`, report);
  const deleteAction = restrictsDelete || onTargetDelete === 'Allow' ? undefined : onTargetDelete;
  const serializable = guarantee === 'Serializable';
  if (serializable) reportUnguaranteed(match, restrictsDelete, `${where}.guarantee`, report);
  if (path === undefined || resolved === undefined) return undefined;
  const { namespaced, kind: targetKind } = resolved;
  const at = `${where}.namespacePath`;
  if (namespacePath === undefined) {
    const unnamespaced = namespaced ? clusterScoped(match, resolve) : undefined;
    if (unnamespaced !== undefined) {
      const message = `is missing: ${groupResourceName(unnamespaced)} is cluster-scoped, so the namespace of the target is unknown; write the path of the field that holds it`;
      report(at, message);
    }
  } else if (!namespaced) {
    report(at, 'the target is cluster-scoped: remove it');
  } else if (!isSiblingPath(namespacePath, path)) {
    const message = 'up to its last [*] it has to read like path, so that each name has one namespace';
    report(at, message, 'InvalidPath');
  }
  return {
    name,
    path,
    namespacePath,
    uidPath,
    target,
    targetKind,
    namespaced,
    optional,
    restrictsDelete,
    serializable,
    deleteAction,
    defaultTarget: rule.defaultTarget,
  };
}

function reportUidPath(
  uidPath: FieldPath,
  path: FieldPath,
  { operations }: CompiledMatch,
  at: string,
  report: Report,
): void {
  const [first] = uidPath.segments;
  if (first?.kind !== 'field' || first.name !== 'spec' || uidPath.segments.at(-1)?.kind !== 'field')
    report(at, 'has to be a field of spec, because Gatehouse writes it', 'InvalidPath');
  else if (!isSiblingPath(uidPath, path))
    report(at, 'up to its last [*] it has to read like path, so that each name has one uid', 'InvalidPath');
  if (!operations.includes('CREATE'))
    report('spec.match.operations', `${at} requires CREATE, because a restore creates objects: add it`);
}

function reportUnguaranteed(
  { failurePolicy, operations }: CompiledMatch,
  restrictsDelete: boolean,
  where: string,
  report: Report,
): void {
  if (!restrictsDelete) report(where, 'Serializable needs onTargetDelete: Restrict');
  if (failurePolicy !== 'Fail') report(where, 'Serializable needs failurePolicy: Fail');
  if (!operations.includes('CREATE') || !operations.includes('UPDATE'))
    report(where, 'Serializable needs the operations CREATE and UPDATE: both can add a reference');
}

const RBAC = 'rbac.authorization.k8s.io';

/** Refuses an `onTargetDelete` that could never change the objects. @param schemas as far as known */
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

function overlaps(a: readonly Segment[], b: readonly Segment[]): boolean {
  const shared = Math.min(a.length, b.length);
  return isEqual(a.slice(0, shared), b.slice(0, shared));
}

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

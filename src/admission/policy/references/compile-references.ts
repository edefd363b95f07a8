import { clusterScoped, tryResolve, type Resolve } from '../match/compile-match.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { toGroupResource } from '../../../api/policy-match.ts';
import type { ReferenceRule } from '../../../api/policy-validate.ts';
import { groupResourceName } from '../../../json/kube-object.ts';
import { requireWrites, tryPath, type Report } from '../problem.ts';
import type { CompiledMatch, CompiledReference } from '../compiled-policy.ts';
import { isSiblingPath, type FieldPath } from '../../../json/field-path.ts';
import { hasWildcard, splitResource } from '../match/resource-pattern.ts';
import { reportDeletionLockout } from '../match/lockout.ts';
import { deletionReferences } from './read-references.ts';

/** Compiles the references and reports their problems. */
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

/** Replicas watch resources, not subresources: without them, nothing would block a deletion or follow it. */
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
      const message = `is missing: ${groupResourceName(unnamespaced)} has no namespace of its own in which the target could be; write the field that holds it`;
      report(at, message);
    }
  } else if (!namespaced) {
    report(at, 'the target is cluster-scoped: remove it');
  } else if (!isSiblingPath(namespacePath, path)) {
    const message = 'up to its last [*] it has to read like path, so that each name has one namespace';
    report(at, message, 'InvalidPath');
  }
  return {
    ...{ name, path, namespacePath, uidPath, target, targetKind, namespaced },
    ...{ optional, restrictsDelete, serializable, deleteAction, defaultTarget: rule.defaultTarget },
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
    report('spec.match.operations', `has to have CREATE for ${at}: a restore creates objects`);
}

/** A guarantee that some requests escape is none. */
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

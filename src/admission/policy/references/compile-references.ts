import { type Resolve, clusterScoped } from '../match/compile-match.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { ReferenceRule } from '../../../api/policy-validate.ts';
import { groupResourceName, type GroupResource } from '../../../json/kube-object.ts';
import { tryPath, type Problem } from '../problem.ts';
import type { CompiledMatch, CompiledReference } from '../compiled-policy.ts';
import { liesBeside, type FieldPath } from '../../../json/field-path.ts';
import { hasWildcard } from '../match/resource-pattern.ts';
import { deletionLockoutProblems } from '../match/lockout.ts';

/** Compiles the references and reports their problems. */
export function compileReferences(
  { validate }: AdmissionPolicySpec,
  match: CompiledMatch,
  resolve: Resolve,
): { readonly references: readonly CompiledReference[]; readonly problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const rules = validate?.references ?? [];
  const references = rules.flatMap((rule, index) => {
    const reference = compileReference(rule, `spec.validate.references[${index}]`, match, resolve, problems);
    return reference === undefined ? [] : [reference];
  });
  if (rules.length > 0) problems.push(...referenceScopeProblems(match));
  return { references, problems };
}

function referenceScopeProblems({ operations, resources }: CompiledMatch): readonly Problem[] {
  const problems: Problem[] = [];
  if (!operations.includes('CREATE') && !operations.includes('UPDATE')) {
    problems.push({
      reason: 'InvalidPolicy',
      where: 'spec.match.operations',
      message:
        'has neither CREATE nor UPDATE, so spec.validate.references would never be checked: add one of them',
    });
  }
  if (resources.some(hasWildcard)) {
    problems.push({
      reason: 'Unsupported',
      where: 'spec.match.resources',
      message:
        'has a wildcard, and the sweep after a restore has to know which kinds hold references: list the resources',
    });
  }
  return problems;
}

function compileReference(
  rule: ReferenceRule,
  where: string,
  match: CompiledMatch,
  resolve: Resolve,
  problems: Problem[],
): CompiledReference | undefined {
  const path = tryPath(rule.path, `${where}.path`, problems);
  const namespacePath =
    rule.namespacePath === undefined
      ? undefined
      : tryPath(rule.namespacePath, `${where}.namespacePath`, problems);
  const target: GroupResource = { group: rule.target.apiGroup ?? '', resource: rule.target.resource };
  const resolved = resolve(target);
  if (resolved === undefined) {
    const message = `the API server serves no ${groupResourceName(target)}: install its CustomResourceDefinition, or correct the name`;
    problems.push({ reason: 'UnknownTarget', where: `${where}.target`, message });
  }
  const restrictsDelete = rule.onTargetDelete === 'Restrict';
  if (restrictsDelete)
    problems.push(...deletionLockoutProblems(target, match.failurePolicy, `${where}.onTargetDelete`));
  if (path === undefined || resolved === undefined) return undefined;

  const flaw = namespaceFlaw(path, namespacePath, resolved.namespaced, match, resolve);
  if (flaw !== undefined) problems.push({ ...flaw, where: `${where}.namespacePath` });
  return {
    name: rule.name,
    path,
    namespacePath,
    target,
    targetKind: resolved.kind,
    namespaced: resolved.namespaced,
    optional: rule.optional ?? true,
    restrictsDelete,
  };
}

type Flaw = Omit<Problem, 'where'>;

function namespaceFlaw(
  path: FieldPath,
  namespacePath: FieldPath | undefined,
  namespaced: boolean,
  match: CompiledMatch,
  resolve: Resolve,
): Flaw | undefined {
  if (namespacePath === undefined) {
    const homeless = namespaced ? clusterScoped(match, resolve) : undefined;
    if (homeless === undefined) return undefined;
    const message = `is missing: ${groupResourceName(homeless)} has no namespace of its own in which the target could be; write the field that holds it`;
    return { reason: 'InvalidPolicy', message };
  }
  if (!namespaced) return { reason: 'InvalidPolicy', message: 'the target is cluster-scoped: remove it' };
  return liesBeside(namespacePath, path)
    ? undefined
    : {
        reason: 'InvalidPath',
        message: 'up to its last [*] it has to read like path, so that each name has one namespace',
      };
}

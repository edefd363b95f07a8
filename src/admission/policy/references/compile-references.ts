import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { ReferenceRule } from '../../../api/policy-validate.ts';
import { groupResourceName, type GroupResource } from '../../../json/kube-object.ts';
import { pathProblem, tryPath } from '../compile-path.ts';
import type { CompiledImmutable, CompiledMatch, CompiledReference } from '../compiled-policy.ts';
import { liesBeside, type FieldPath } from '../../../json/field-path.ts';
import type { Problem } from '../problem.ts';
import { hasWildcard } from '../match/resource-pattern.ts';
import { guardDeletion } from '../match/lockout.ts';

/** What discovery knows of a resource; undefined when the API server does not serve it. */
export type Resolve = (
  target: GroupResource,
) => { readonly kind: string; readonly namespaced: boolean } | undefined;

/** The immutable fields with their paths parsed, and what is wrong with them. */
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

/** The references with their paths parsed and their targets resolved, and what is wrong with them. */
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
    problems.push(...guardDeletion(target, match.failurePolicy, `${where}.onTargetDelete`));
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

/** A governed resource that is known to have no namespace. One that the API server does not serve yet is no mistake. */
export function clusterScoped(
  { apiGroups, resources }: CompiledMatch,
  resolve: Resolve,
): GroupResource | undefined {
  return apiGroups
    .flatMap((group) => resources.map((resource) => ({ group, resource })))
    .find((resource) => resolve(resource)?.namespaced === false);
}

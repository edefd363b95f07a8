/** What of the cluster a policy needs at hand. */
import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { clusterScoped, type Resolve } from './references/compile-references.ts';
import type { CompiledMatch, CompiledParams, CompiledPolicy, CompiledTarget } from './compiled-policy.ts';
import type { Reads } from './expressions/expression.ts';
import { isDnsLabel, isObjectName } from '../../json/names.ts';
import type { Problem } from './problem.ts';
import { quote } from '../../json/printable.ts';

export const NAMESPACES: GroupResource = { group: '', resource: 'namespaces' };

/** The object that expressions see as `params`, and what is wrong with it. */
export function compileParams(
  { params }: AdmissionPolicySpec,
  match: CompiledMatch,
  resolve: Resolve,
  problems: Problem[],
): CompiledParams | undefined {
  if (params === undefined) return undefined;
  const { name, namespace, whenMissing = 'Deny' } = params;
  const target: GroupResource = { group: params.apiGroup ?? '', resource: params.resource };
  const report = (field: string, message: string) => {
    problems.push({ reason: 'InvalidPolicy', where: `spec.params${field}`, message });
  };
  if (!isObjectName(target, name)) report('.name', `${quote(name)} cannot be the name of an object`);
  if (namespace !== undefined && !isDnsLabel(namespace))
    report('.namespace', `${quote(namespace)} cannot be the name of a namespace`);
  const resolved = resolve(target);
  if (resolved === undefined) {
    const message = `the API server serves no ${groupResourceName(target)}: install its CustomResourceDefinition, or correct the name`;
    problems.push({ reason: 'UnknownTarget', where: 'spec.params', message });
    return undefined;
  }
  const { namespaced } = resolved;
  if (!namespaced && namespace !== undefined) report('.namespace', 'the kind is cluster-scoped: remove it');
  const homeless = namespaced && namespace === undefined ? clusterScoped(match, resolve) : undefined;
  if (homeless !== undefined)
    report(
      '.namespace',
      `is missing: ${groupResourceName(homeless)} has no namespace in which the object could be`,
    );
  return { target, name, namespace, namespaced, whenMissing };
}

/** What references name and expressions read, each kind once. */
export function targetsOf(policy: Omit<CompiledPolicy, 'targets'>): readonly CompiledTarget[] {
  const { references, params } = policy;
  const read = readsOf(policy);
  const targets: readonly CompiledTarget[] = [
    ...references.map(({ target }) => ({ ...target, whole: read.refs })),
    ...(params === undefined ? [] : [{ ...params.target, whole: true }]),
    ...(read.namespaceObject ? [{ ...NAMESPACES, whole: true }] : []),
  ];
  const byName = Map.groupBy(targets, groupResourceName);
  return [...byName.values()].flatMap((same) => {
    const [first] = same;
    return first === undefined ? [] : [{ ...first, whole: same.some(({ whole }) => whole) }];
  });
}

function readsOf(policy: Omit<CompiledPolicy, 'targets'>): Pick<Reads, 'refs' | 'namespaceObject'> {
  const { defaults, mutations, rules, warnings, auditAnnotations } = policy;
  const all = [
    ...defaults.map((rule) => (rule.kind === 'expression' ? rule.expression : undefined)),
    ...mutations.flatMap(({ condition, change }) => [condition, change]),
    ...rules.flatMap(({ expression, messageExpression }) => [expression, messageExpression]),
    ...warnings.flatMap(({ condition, messageExpression }) => [condition, messageExpression]),
    ...auditAnnotations.map(({ value }) => value),
  ];
  return {
    refs: all.some((one) => one?.reads.refs === true),
    namespaceObject: all.some((one) => one?.reads.namespaceObject === true),
  };
}

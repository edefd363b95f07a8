import type { GroupResource } from '../../../json/kube-object.ts';
import type { PolicyMatch } from '../../../api/policy-match.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { CompiledMatch } from '../compiled-policy.ts';
import { normaliseSelector } from '../../../json/label-selector.ts';
import { isDnsLabel, isDnsSubdomain, isQualifiedName } from '../../../json/names.ts';
import type { Problem } from '../problem.ts';
import type { Operation } from '../../review/request.ts';
import { isResourcePattern, withoutCovered } from './resource-pattern.ts';
import { scopeLockoutProblems } from './lockout.ts';
import { quote } from '../../../json/printable.ts';

interface MatchEnvironment {
  readonly ownNamespace: string;
  readonly matchConditions: boolean;
}

/**
 * Normalises `spec.match`, adds the defaults of the API, and reports problems.
 *
 * Stricter than the schema: one rule that the API server rejects would block the installation of the webhooks of all
 * policies (k8s.io/kubernetes pkg/apis/admissionregistration/validation).
 */
export function compileMatch(
  spec: AdmissionPolicySpec,
  environment: MatchEnvironment,
): { readonly match: CompiledMatch; readonly problems: readonly Problem[] } {
  const given = spec.match;
  const namespaces = normaliseSelector(given.namespaceSelector, 'spec.match.namespaceSelector');
  const objects = normaliseSelector(given.objectSelector, 'spec.match.objectSelector');
  const match: CompiledMatch = {
    apiGroups: [...new Set(given.apiGroups.map((group) => group ?? ''))].sort(),
    apiVersions: versionsOf(given),
    resources: withoutCovered(given.resources),
    operations: operationsOf(given),
    namespaceSelector: namespaces.selector,
    objectSelector: objects.selector,
    matchConditions: given.matchConditions ?? [],
    failurePolicy: spec.failurePolicy ?? 'Fail',
    timeoutSeconds: spec.timeoutSeconds ?? 5,
  };
  return {
    match,
    problems: [
      ...malformed(
        'spec.match.apiGroups',
        match.apiGroups,
        isGroup,
        'an API group such as infra.example.com',
      ),
      ...malformed('spec.match.apiVersions', match.apiVersions, isVersion, 'an API version such as v1, or *'),
      ...malformed('spec.match.resources', match.resources, isResourcePattern, 'a plural such as servers'),
      ...[...namespaces.problems, ...objects.problems].map((problem) => ({
        reason: 'InvalidPolicy' as const,
        ...problem,
      })),
      ...conditionProblems(match, environment),
      ...scopeLockoutProblems(match, environment.ownNamespace),
    ],
  };
}

/** `*` covers all other versions. */
function versionsOf({ apiVersions = ['*'] }: PolicyMatch): readonly string[] {
  return apiVersions.includes('*') ? ['*'] : [...new Set(apiVersions)].sort();
}

function operationsOf({ operations = ['CREATE', 'UPDATE'] }: PolicyMatch): readonly Operation[] {
  return [...new Set(operations)].sort();
}

/** The lockout check rejects wildcards in groups. */
const isGroup = (group: string) => group === '' || group.includes('*') || isDnsSubdomain(group);
const isVersion = (version: string) => version === '*' || isDnsLabel(version);

function malformed(
  where: string,
  texts: readonly string[],
  isValid: (text: string) => boolean,
  wanted: string,
): readonly Problem[] {
  return texts
    .filter((text) => !isValid(text))
    .map((text) => ({ reason: 'InvalidPolicy', where, message: `${quote(text)} is not ${wanted}` }));
}

function conditionProblems(
  { matchConditions }: CompiledMatch,
  environment: MatchEnvironment,
): readonly Problem[] {
  const where = 'spec.match.matchConditions';
  if (matchConditions.length > 0 && !environment.matchConditions) {
    const message =
      'the API server is older than Kubernetes 1.28 and would ignore them, so the policy would govern more than it says: remove them';
    return [{ reason: 'Unsupported', where, message }];
  }
  return matchConditions.flatMap(({ name, expression }, index): readonly Problem[] => {
    const invalid = (field: string, message: string): Problem => ({
      reason: 'InvalidPolicy',
      where: `${where}[${index}].${field}`,
      message,
    });
    return [
      ...(isQualifiedName(name) ? [] : [invalid('name', `${quote(name)} is not a name such as not-system`)]),
      ...(matchConditions.findIndex((other) => other.name === name) < index
        ? [invalid('name', `${quote(name)} is there twice: give each condition its own name`)]
        : []),
      ...(expression.trim() === '' ? [invalid('expression', 'is empty: write a CEL expression')] : []),
    ];
  });
}

/** What API discovery reports about a resource; undefined if the API server does not serve it. */
export type Resolve = (
  target: GroupResource,
) => { readonly kind: string; readonly namespaced: boolean } | undefined;

/** A governed resource that is cluster-scoped. Resources that the API server does not serve yet are ignored. */
export function clusterScoped(
  { apiGroups, resources }: CompiledMatch,
  resolve: Resolve,
): GroupResource | undefined {
  return apiGroups
    .flatMap((group) => resources.map((resource) => ({ group, resource })))
    .find((resource) => resolve(resource)?.namespaced === false);
}

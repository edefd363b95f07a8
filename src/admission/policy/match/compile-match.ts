import {
  type GroupResource,
  groupResourceName,
  isDnsLabel,
  isDnsSubdomain,
  isQualifiedName,
} from '../../../json/kube-object.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { CompiledMatch } from '../compiled-policy.ts';
import type { MatchCondition } from '../../review/request.ts';
import { type Report, trySelector } from '../problem.ts';
import { isResourcePattern, withoutCovered } from './resource-pattern.ts';
import { reportScopeLockout } from './lockout.ts';
import { quote } from '../../../json/printable.ts';
import { CelError, type CelProgram } from '../../../cel/cel.ts';
import { compileMatchCondition } from '../../../cel/match-condition.ts';
import { explainCel, type ExpressionPlace } from '../expressions/explain-cel.ts';
import { RESERVED_CONDITIONS } from '../../webhooks/webhook.ts';

export interface MatchEnvironment {
  readonly ownNamespace: string;
  /** The minor version of the API server of Kubernetes 1; undefined: the newest one. */
  readonly server?: number | undefined;
  /** Whether match conditions with escaped fields are errors: a version in force may have some. */
  readonly unconverted?: boolean;
}

/** Stricter than the schema: one invalid rule would block the installation of all webhooks. */
export function compileMatch(
  {
    match: given,
    failurePolicy = 'Fail',
    timeoutSeconds = 5,
  }: Pick<AdmissionPolicySpec, 'match' | 'failurePolicy' | 'timeoutSeconds'>,
  environment: MatchEnvironment,
  report: Report,
): CompiledMatch {
  const { apiVersions = ['*'], operations = ['CREATE', 'UPDATE'], matchConditions = [] } = given;
  const scope = {
    apiGroups: [...new Set(given.apiGroups)].sort(),
    // `*` covers all other versions.
    apiVersions: apiVersions.includes('*') ? ['*'] : [...new Set(apiVersions)].sort(),
    resources: withoutCovered(given.resources),
    operations: [...new Set(operations)].sort(),
  };
  const check = (field: keyof typeof scope, isValid: (text: string) => boolean, wanted: string) => {
    for (const text of scope[field])
      if (!isValid(text)) report(`spec.match.${field}`, `${quote(text)} is not ${wanted}`);
  };
  check('apiGroups', isGroup, 'an API group such as infra.example.com');
  check('apiVersions', isVersion, 'an API version such as v1, or *');
  check('resources', isResourcePattern, 'a plural such as servers');
  const match: CompiledMatch = {
    ...scope,
    namespaceSelector: trySelector(given.namespaceSelector, 'spec.match.namespaceSelector', report),
    objectSelector: trySelector(given.objectSelector, 'spec.match.objectSelector', report),
    matchConditions,
    conditionsOnObject: compileConditions(matchConditions, environment, report).filter(({ reads }) =>
      [...reads.keys()].every((name) => name === 'object'),
    ),
    failurePolicy,
    timeoutSeconds,
  };
  reportScopeLockout(match, environment.ownNamespace, report);
  return match;
}

/** The API server allows 64 in each entry, and Gatehouse adds one of {@link RESERVED_CONDITIONS}. */
const MOST_CONDITIONS = 63;
/** All webhooks share one object, and the API server limits its size. */
const MOST_BYTES = 16_384;

/** The lockout check rejects wildcards in groups. */
const isGroup = (group: string) => group === '' || group.includes('*') || isDnsSubdomain(group);
const isVersion = (version: string) => version === '*' || isDnsLabel(version);

const MATCH_NAMES = {
  names: ['object', 'oldObject', 'request', 'authorizer'],
  variables: [],
  references: [],
};

function compileConditions(
  matchConditions: readonly MatchCondition[],
  { server, unconverted = false }: MatchEnvironment,
  report: Report,
): readonly CelProgram[] {
  const where = 'spec.match.matchConditions';
  if (matchConditions.length > MOST_CONDITIONS) {
    const message = `has ${matchConditions.length} conditions: write at most ${MOST_CONDITIONS}, because the API server allows 64 and Gatehouse adds one`;
    report(where, message);
  }
  const texts = matchConditions.flatMap(({ name, expression }) => [name, expression]);
  const bytes = Buffer.byteLength(texts.join(''));
  if (bytes > MOST_BYTES) {
    const message = `names and expressions have ${bytes} bytes in total, but at most ${MOST_BYTES} are allowed: shorten them, or move conditions to the rules`;
    report(where, message);
    return [];
  }
  return matchConditions.flatMap(({ name, expression }, index) => {
    const at = `${where}[${index}]`;
    if (!isQualifiedName(name)) report(`${at}.name`, `${quote(name)} is not a name such as not-system`);
    if (RESERVED_CONDITIONS.includes(name))
      report(`${at}.name`, `${quote(name)} is reserved for a condition of Gatehouse: choose another name`);
    if (matchConditions.findIndex((other) => other.name === name) < index)
      report(`${at}.name`, `${quote(name)} is there twice: give each condition its own name`);
    // The API server rejects the whole configuration because of one invalid expression.
    const invalid = (message: string, place?: ExpressionPlace): readonly [] => {
      report(`${at}.expression`, message, 'InvalidExpression', place);
      return [];
    };
    if (expression.trim() === '') return invalid('is empty: write a CEL expression');
    try {
      const program = compileMatchCondition(expression, unconverted);
      const { needs } = program;
      if (needs !== undefined && needs.minor > (server ?? needs.minor))
        return invalid(
          `the API server evaluates match conditions, and it answers ${needs.name} as Gatehouse does only from Kubernetes 1.${needs.minor}: write it in a rule`,
        );
      return [program];
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      const { message, place } = explainCel(error, expression, MATCH_NAMES);
      return invalid(message, place);
    }
  });
}

export type Resolve = (
  target: GroupResource,
) => { readonly kind: string; readonly version?: string; readonly namespaced: boolean } | undefined;

export function tryResolve(
  target: GroupResource,
  where: string,
  resolve: Resolve,
  report: Report,
): ReturnType<Resolve> {
  const resolved = resolve(target);
  if (resolved === undefined) {
    const message = `the API server serves no ${groupResourceName(target)}: install its CustomResourceDefinition, or correct the name`;
    report(where, message, 'UnknownTarget');
  }
  return resolved;
}

export function governedResources({ apiGroups, resources }: CompiledMatch): readonly GroupResource[] {
  return apiGroups.flatMap((group) => resources.map((resource) => ({ group, resource })));
}

/** Ignores resources that the API server does not serve yet. */
export function clusterScoped(match: CompiledMatch, resolve: Resolve): GroupResource | undefined {
  return governedResources(match).find((resource) => resolve(resource)?.namespaced === false);
}

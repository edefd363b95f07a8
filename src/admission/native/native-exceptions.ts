/** Exceptions as CEL. Each expression is total: it is true or false for every request. */
import type { NormalSelector } from '../../json/label-selector.ts';
import type { CompiledException, CompiledPolicy } from '../policy/compiled-policy.ts';
import { enclosed, generatedName, type NativeAuditAnnotation, type NativeVariable } from './native-check.ts';

export interface NativeExceptions {
  readonly variables: readonly NativeVariable[];
  /** Prefixes the expression of a check: exempt requests satisfy it. */
  readonly guard: (expression: string, group: string, name?: string) => string;
  /** The webhook decides about requests that satisfy one of them, because expressions of the API server can't read the time. */
  readonly expiring: readonly string[];
  readonly auditAnnotations: readonly NativeAuditAnnotation[];
}

/** Why exceptions keep all checks of a policy in the webhook, if they do. */
export const grantsProblem = ({ grants }: CompiledPolicy): string | undefined =>
  grants === undefined
    ? undefined
    : 'policyExceptions: Accept lets a new PolicyException exempt objects immediately, and the API server cannot read it';

export function compileNativeExceptions(policy: CompiledPolicy): NativeExceptions {
  const lasting = policy.exceptions
    .filter(({ expiresAt }) => expiresAt === undefined)
    .map((exception, index) => {
      const name = generatedName(policy, `gatehouse_exception_${index}`);
      return { exception, name, expression: applies(exception, policy) };
    });
  const guard = (expression: string, group: string, check?: string): string => {
    const covering = lasting.filter(
      ({ exception: { checks } }) =>
        checks === undefined || checks.includes(group) || (check !== undefined && checks.includes(check)),
    );
    if (covering.length === 0) return expression;
    return `${covering.map(({ name }) => `variables.${name}`).join(' || ')} || ${enclosed(expression)}`;
  };
  const named = lasting.map(
    ({ exception, name }) =>
      `(variables.${name} ? [${JSON.stringify(`${policy.name}/${exception.name}`)}] : [])`,
  );
  const all = generatedName(policy, 'gatehouse_exceptions');
  return {
    variables: [
      ...lasting.map(({ name, expression }) => ({ name, expression })),
      ...(named.length === 0 ? [] : [{ name: all, expression: `(${named.join(' + ')}).join(",")` }]),
    ],
    guard,
    expiring: policy.exceptions
      .filter(({ expiresAt }) => expiresAt !== undefined)
      .map((exception) => applies(exception, policy)),
    // The API server limits the length of the expression of an annotation, not of a variable.
    auditAnnotations: named.length === 0 ? [] : [{ key: 'exceptions', valueExpression: `variables.${all}` }],
  };
}

/** Like `isSubject` in ../policy/exceptions/exceptions.ts. */
function applies(
  { users, groups, namespaces, names, objectSelector }: CompiledException,
  { match }: Pick<CompiledPolicy, 'match'>,
): string {
  const namespace = match.apiGroups.includes('') ? NAMESPACE_OF_CORE : NAMESPACE;
  const parts = [
    ...(users === undefined ? [] : [isListed('request.userInfo.?username.orValue("")', users)]),
    ...(groups === undefined ? [] : [isInGroup(groups)]),
    ...(namespaces === undefined ? [] : [isListed(namespace, namespaces)]),
    ...(names === undefined ? [] : [isListed(NAME, names)]),
    ...selects(objectSelector),
  ];
  return parts.length === 0 ? 'true' : parts.map((part) => `(${part})`).join(' && ');
}

export const isInGroup = (groups: readonly string[]): string =>
  `request.userInfo.?groups.orValue([]).exists(group, group in ${JSON.stringify(groups)})`;

const HOLDER = '(dyn(object) == null ? dyn(oldObject) : dyn(object))';
/** A request lacks the name if the API server generates it, or if a collection is deleted. */
const NAME = `request.?name.orValue(${HOLDER}.?metadata.?name.orValue(""))`;
const NAMESPACE = 'request.?namespace.orValue("")';
/** A request about a Namespace has its name as the namespace. */
const NAMESPACE_OF_CORE = `(request.resource.group == "" && request.resource.resource == "namespaces" ? "" : ${NAMESPACE})`;

function isListed(text: string, patterns: readonly string[]): string {
  const exact = patterns.filter((pattern) => !pattern.endsWith('*') && pattern !== '');
  const prefixes = patterns.filter((pattern) => pattern.endsWith('*')).map((pattern) => pattern.slice(0, -1));
  const any = [
    ...(exact.length === 0 ? [] : [`${text} in ${JSON.stringify(exact)}`]),
    ...prefixes.map((prefix) =>
      prefix === '' ? `${text} != ""` : `${text}.startsWith(${JSON.stringify(prefix)})`,
    ),
  ];
  return any.length === 0 ? 'false' : any.join(' || ');
}

const LABELS = `${HOLDER}.?metadata.?labels.orValue({})`;

function selects({ matchLabels = {}, matchExpressions = [] }: NormalSelector): readonly string[] {
  const parts = [
    ...Object.entries(matchLabels).map(([key, value]) => hasOneOf(key, [value])),
    ...matchExpressions.map(({ key, operator, values = [] }) => {
      switch (operator) {
        case 'In':
          return hasOneOf(key, values);
        case 'NotIn':
          return `!(${hasOneOf(key, values)})`;
        case 'Exists':
          return `${JSON.stringify(key)} in labels`;
        case 'DoesNotExist':
          return `!(${JSON.stringify(key)} in labels)`;
      }
    }),
  ];
  return parts.length === 0 ? [] : [`[${LABELS}].exists(labels, ${parts.join(' && ')})`];
}

const hasOneOf = (key: string, values: readonly string[]): string =>
  `(${JSON.stringify(key)} in labels && labels[${JSON.stringify(key)}] in ${JSON.stringify(values)})`;

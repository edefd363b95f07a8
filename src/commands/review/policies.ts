/** The AdmissionPolicies among what was read, ready to be asked. */
import { CelError, compileCel } from '../../admission/cel/cel.ts';
import { compilePolicy, type CompiledPolicy, type CompileEnvironment } from '../../admission/compile.ts';
import { isEqual, type JsonObject } from '../../admission/json.ts';
import type { MatchCondition } from '../../admission/scope.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { GROUP, VERSION } from '../../api/group.ts';
import { groupResourceName, type GroupResource } from '../../api/meta.ts';
import { governed } from '../../controllers/policies.ts';
import { ApiFailure } from '../../sandbox/failure.ts';
import { decodeObject, validateCreate } from '../../sandbox/pipeline/complete.ts';
import type { ResourceRegistry } from '../../sandbox/resource-type.ts';
import { describePlace, metaTextOf, textOf, type PlacedObject } from './documents.ts';
import { refuse } from './input.ts';

/** A policy, and how messages name it. */
export interface NamedPolicy {
  /** e.g. `policies/servers.yaml:1: AdmissionPolicy servers` */
  readonly label: string;
  readonly policy: AdmissionPolicy;
}

export interface ReadPolicies {
  readonly policies: readonly NamedPolicy[];
  /** What is wrong with the others. */
  readonly problems: readonly string[];
}

const API_VERSION = `${GROUP}/${VERSION}`;

export const isPolicy = ({ object }: PlacedObject): boolean =>
  textOf(object, 'apiVersion').startsWith(`${GROUP}/`) && textOf(object, 'kind') === 'AdmissionPolicy';

/**
 * Those among the objects, as the API server would take them: with what it defaults, and held to their schema. Stricter than it in
 * one thing: a field that it would drop is a mistake.
 */
export function readPolicies(
  objects: readonly PlacedObject[],
  registry: Pick<ResourceRegistry, 'findKind'>,
): ReadPolicies {
  const given = withoutCopies(objects.filter(isPolicy));
  const read = given.map((placed) => readPolicy(placed, registry));
  return {
    policies: read.flatMap((result) => ('problems' in result ? [] : [result])),
    problems: [
      ...namesTwice(given),
      ...read.flatMap((result) => ('problems' in result ? result.problems : [])),
    ],
  };
}

/** A file may be given twice, as a policy and as an object. */
function withoutCopies(given: readonly PlacedObject[]): readonly PlacedObject[] {
  return given.filter(
    ({ object }, index) => given.findIndex((other) => isEqual(other.object, object)) === index,
  );
}

function namesTwice(given: readonly PlacedObject[]): readonly string[] {
  return [...Map.groupBy(given, nameOf)].flatMap(([name, same]) => {
    const places = same.map(({ place }) => describePlace(place)).join(' and ');
    return same.length < 2 ? [] : [`${places}: both are AdmissionPolicy ${name}: leave one out`];
  });
}

const nameOf = ({ object }: PlacedObject): string => metaTextOf(object, 'name');

type Read = NamedPolicy | { readonly problems: readonly string[] };

function readPolicy(placed: PlacedObject, registry: Pick<ResourceRegistry, 'findKind'>): Read {
  const label = `${describePlace(placed.place)}: AdmissionPolicy ${nameOf(placed)}`;
  const wrong = (messages: readonly string[]) => ({
    problems: messages.map((message) => `${label}: ${message}`),
  });
  const type = registry.findKind(API_VERSION, 'AdmissionPolicy');
  if (type === undefined || textOf(placed.object, 'apiVersion') !== API_VERSION) {
    return wrong([`apiVersion: write ${API_VERSION}`]);
  }
  const unknown: string[] = [];
  const warn = (text: string) => unknown.push(`${text}: correct its name, or remove it`);
  try {
    const decoded = decodeObject(placed.object, type, 'Warn', { warn, annotate: () => undefined });
    validateCreate(decoded, type);
    if (unknown.length > 0) return wrong(unknown);
    return { label, policy: decoded as unknown as AdmissionPolicy }; // its definition is made from this type
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    return wrong([...unknown, ...messagesOf(error)]);
  }
}

function messagesOf({ message, status }: ApiFailure): readonly string[] {
  const causes = status.details?.causes ?? [];
  if (causes.length === 0) return [message];
  return causes.map(({ field = '', message: what }) => (field === '' ? what : `${field}: ${what}`));
}

/** What policies are compiled against. */
export interface PoliciesEnvironment extends Omit<CompileEnvironment, 'schemas'> {
  /** The structural schemas of a kind in these versions; undefined where they are not known. */
  readonly schemas: (
    resource: GroupResource,
    versions: readonly string[],
  ) => readonly JsonObject[] | undefined;
}

/** @throws UnusableInput with everything that keeps one of them from being enforced, by field */
export function compilePolicies(
  { policies, problems }: ReadPolicies,
  environment: PoliciesEnvironment,
): readonly CompiledPolicy[] {
  const results = policies.map((named) => compileNamed(named, environment));
  refuse([...problems, ...results.flatMap((result) => ('problems' in result ? result.problems : []))]);
  return results.flatMap((result) => ('problems' in result ? [] : [result.policy]));
}

export type Compiled = { readonly policy: CompiledPolicy } | { readonly problems: readonly string[] };

export function compileNamed(
  { label, policy }: NamedPolicy,
  { schemas, ...environment }: PoliciesEnvironment,
): Compiled {
  const unresolved: GroupResource[] = [];
  const { match } = policy.spec;
  const known = governed({ match }).map((resource) => schemas(resource, match.apiVersions ?? ['*']));
  const result = compilePolicy(policy, {
    ...environment,
    // Of several kinds, all have to be known: an expression may be meant for the one that is not.
    schemas: known.includes(undefined) ? [] : known.flatMap((some) => some ?? []),
    resolve: (target) => {
      const found = environment.resolve(target);
      if (found === undefined) unresolved.push(target);
      return found;
    },
  });
  if (result.kind === 'compiled') return { policy: result.policy };
  const hint = (message: string) =>
    unresolved.some((target) => message.includes(groupResourceName(target)))
      ? `${message} (nothing that was read defines it: add its CustomResourceDefinition to the crds)`
      : message;
  return { problems: result.problems.map(({ where, message }) => `${label}: ${where}: ${hint(message)}`) };
}

/**
 * What is wrong with conditions that nobody compiles but the API server, which is not there.
 *
 * @param label of whose `match` they are
 */
export function conditionProblems(label: string, conditions: readonly MatchCondition[]): readonly string[] {
  return conditions.flatMap(({ expression }, index) => {
    try {
      compileCel(expression, ['object', 'oldObject', 'request']);
      return [];
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      const hint = expression.includes('authorizer')
        ? ' (only an API server knows what an authorizer allows: such a condition cannot be reviewed without one)'
        : '';
      return [`${label}.matchConditions[${index}].expression: ${error.message}${hint}`];
    }
  });
}

/** Finds subresources through which requests change what a policy checks without asking it. */
import { parseExpression } from '../../../cel/syntax/parse.ts';
import { readPaths } from '../../../cel/syntax/used-fields.ts';
import { isJsonObject, type JsonValue, listIn, objectIn } from '../../../json/json.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { withVariables } from '../expressions/expression.ts';
import { covers, splitResource } from './resource-pattern.ts';
import { type Subresource, SUBRESOURCES } from './subresources.ts';

/** @param all the policies that may govern a subresource instead, because its requests carry another kind of object */
export function uncoveredSubresources(
  policy: CompiledPolicy,
  all: readonly Pick<CompiledPolicy, 'match'>[],
): readonly string[] {
  if (policy.undecidable !== undefined || Object.keys(policy.spec.validate ?? {}).length === 0) return [];
  const read = fieldsRead(policy);
  const gaps = subresourcesOf(policy)
    .map((one) => ({ ...one, fields: one.fields.filter((field) => misses(policy, read, one, field)) }))
    .filter(({ fields }) => fields.length > 0)
    .filter((one) => ![policy, ...(one.sameObject ? [] : all)].some((other) => governs(other, one)));
  return [...Map.groupBy(gaps, effectOf)].flatMap(([, some]) => {
    const names = [...new Set(some.map(({ resource }) => resource))].join(', ');
    return some.slice(0, 1).map((one) => describe(one, names));
  });
}

const effectOf = ({ operation, sameObject, fields }: Subresource) => [operation, sameObject, fields].join();

function describe({ operation, sameObject, fields }: Subresource, names: string): string {
  const effect = fields.includes(DELETION) ? 'delete objects' : `change ${fields.join(', ')}`;
  const remedy = sameObject
    ? `add ${names} to match.resources and ${operation} to match.operations`
    : `write a policy for ${names} with the operation ${operation}`;
  return `requests for ${names} ${effect} without asking this policy: ${remedy}`;
}

const governs = ({ match }: Pick<CompiledPolicy, 'match'>, { group, resource, operation }: Subresource) =>
  match.operations.some((own) => own === operation) &&
  match.resources.some((own) => covers(own, resource)) &&
  match.apiGroups.includes(group);

const subresourcesOf = ({ match, scales }: CompiledPolicy): readonly Subresource[] =>
  [...SUBRESOURCES, ...scales].filter(
    ({ group, resource }) =>
      match.apiGroups.includes(group) && match.resources.some((own) => covers(own, parentOf(resource))),
  );

const parentOf = (resource: string) => (resource === 'bindings' ? 'pods' : splitResource(resource).resource);

const DELETION = 'metadata.deletionTimestamp';

type Path = readonly string[];

function misses(
  { match: { operations } }: CompiledPolicy,
  read: readonly Path[],
  { resource }: Subresource,
  field: string,
): boolean {
  if (field === DELETION) return operations.includes('DELETE');
  // A policy without UPDATE misses updates anyway, but those of Pods cannot change this part.
  const isOnlyHere =
    parentOf(resource) === 'pods' && field.startsWith('spec.') && operations.includes('CREATE');
  const changed = field.split('.');
  const overlaps = (path: Path) =>
    path.every((name, index) => changed[index] === undefined || name === changed[index]);
  return (operations.includes('UPDATE') || isOnlyHere) && read.some(overlaps);
}

/** The fields of the object on which the verdict depends. `*` is any element of a list. */
function fieldsRead(policy: CompiledPolicy): readonly Path[] {
  const { match, spec, immutable, references, unique } = policy;
  const { matchLabels = {}, matchExpressions = [] } = match.objectSelector;
  const selects = Object.keys(matchLabels).length + matchExpressions.length > 0;
  const paths = [
    ...immutable.map(({ path }) => path),
    ...references.flatMap(({ path, namespacePath }) => [path, namespacePath ?? path]),
    ...unique.flatMap((rule) => rule.paths),
  ].map(({ segments }) => segments.map((one) => (one.kind === 'field' ? one.name : '*')));
  const { schema } = spec.validate ?? {};
  const conditions = policy.warnings.flatMap(({ condition = [] }) => condition);
  const programs = [...policy.rules.map((rule) => rule.expression), ...conditions].map((one) => one.program);
  const read = [
    ...paths,
    ...(schema === undefined ? [] : fieldsOfSchema(schema as JsonValue, [])),
    ...(selects ? [['metadata', 'labels']] : []),
    ...[...match.matchConditions, ...withVariables(policy, programs)].flatMap(fieldsOf),
  ];
  // A check of the containers is also about those that are added later.
  const isOfContainers = ([part, name]: Path) => part === 'spec' && name === 'containers';
  return read.some(isOfContainers) ? [...read, ['spec', 'ephemeralContainers']] : read;
}

function fieldsOf({ expression }: { readonly expression: string }): readonly Path[] {
  const parsed = parseExpression(expression).expression;
  const steps = ['object', 'oldObject'].flatMap((name) => readPaths(parsed, name));
  return steps.map((path) => path.map(({ name }) => name));
}

/** A schema with other keywords can read any field below. */
const EXACT: readonly string[] = ['type', 'properties', 'required'];

function fieldsOfSchema(schema: JsonValue, path: Path): readonly Path[] {
  const properties = objectIn(schema, 'properties');
  const names = [...Object.keys(properties), ...listIn(schema, 'required').map(String)];
  const isExact = isJsonObject(schema) && Object.keys(schema).every((key) => EXACT.includes(key));
  if (names.length === 0 || !isExact) return [path];
  return names.flatMap((name) => fieldsOfSchema(properties[name] ?? {}, [...path, name]));
}

import type { JsonObject } from '../../../json/json.ts';
import { text, texts, has } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { invalidValue, requiredValue, unsupportedValue } from '../../schema/causes.ts';

const OPERATIONS = ['*', 'CONNECT', 'CREATE', 'DELETE', 'UPDATE'];
const SCOPES = ['*', 'Cluster', 'Namespaced'];

/** The problems of one webhook rule (validateRuleWithOperations, in the same source file as webhook-problems.ts). */
export function webhookRuleProblems(rule: JsonObject, field: string): readonly Cause[] {
  const scope = text(rule, 'scope');
  return [
    ...listProblems(rule, field, 'operations', 'operations'),
    ...texts(rule, 'operations').flatMap((operation, index) =>
      OPERATIONS.includes(operation)
        ? []
        : [unsupportedValue(`${field}.operations[${index}]`, operation, OPERATIONS)],
    ),
    ...listProblems(rule, field, 'apiGroups', 'API groups'),
    ...listProblems(rule, field, 'apiVersions', 'API versions'),
    ...texts(rule, 'apiVersions').flatMap((version, index) =>
      version === '' ? [requiredValue(`${field}.apiVersions[${index}]`)] : [],
    ),
    ...resourcesProblems(texts(rule, 'resources'), `${field}.resources`),
    ...(has(rule, 'scope') && !SCOPES.includes(scope)
      ? [unsupportedValue(`${field}.scope`, scope, SCOPES)]
      : []),
  ];
}

/** The list must not be empty, and `*` excludes other items. */
function listProblems(rule: JsonObject, field: string, name: string, called: string): readonly Cause[] {
  const list = texts(rule, name);
  if (list.length === 0) return [requiredValue(`${field}.${name}`)];
  if (list.length === 1 || !list.includes('*')) return [];
  return [invalidValue(`${field}.${name}`, list, `if '*' is present, must not specify other ${called}`)];
}

/** A pattern may not repeat what an earlier pattern matches. */
function resourcesProblems(resources: readonly string[], field: string): readonly Cause[] {
  if (resources.length === 0) return [requiredValue(field)];
  // As in the API server, the last pattern without a subresource decides.
  const bare = resources.filter((resource) => resource !== '' && !resource.includes('/')).at(-1);
  return [
    ...resources.flatMap((resource, index) => oneResourceProblems(resources, resource, index, field)),
    ...(resources.length > 1 && resources.includes('*/*')
      ? [invalidValue(field, resources, "if '*/*' is present, must not specify other resources")]
      : []),
    ...(resources.includes('*') && bare !== undefined && bare !== '*'
      ? [
          invalidValue(
            field,
            resources,
            "if '*' is present, must not specify other resources without subresources",
          ),
        ]
      : []),
  ];
}

function oneResourceProblems(
  resources: readonly string[],
  resource: string,
  index: number,
  field: string,
): readonly Cause[] {
  const at = `${field}[${index}]`;
  if (resource === '') return [requiredValue(at)];
  const slash = resource.indexOf('/');
  if (slash === -1) return [];
  const earlier = resources.slice(0, index);
  const wider = [`${resource.slice(0, slash)}/*`, `*/${resource.slice(slash + 1)}`];
  return wider
    .filter((pattern) => earlier.includes(pattern))
    .map((pattern) => invalidValue(at, resource, `if '${pattern}' is present, must not specify ${resource}`));
}

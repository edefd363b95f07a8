/** The filters in the resource policy of a Restore (internal/resourcepolicies and pkg/restore of Velero 1.18). */
import {
  isJsonArray,
  type JsonObject,
  type JsonValue,
  listIn,
  objectIn,
  textIn,
} from '../../../json/json.ts';
import { groupResourceName } from '../../../json/kube-object.ts';
import { matchesSelector, normaliseSelector, type NormalSelector } from '../../../json/label-selector.ts';
import * as s from '../../../machinery/kinds/schema-builders.ts';
import { compileGlob, createIncludes } from '../../../restore/backup/glob.ts';
import { labelsOf, type ResourceFilter } from '../../../restore/backup/selection.ts';
import { decodeConfigMap } from './config-map.ts';

const FILTER = s.object({
  kinds: s.STRINGS,
  labelSelector: s.LABEL_SELECTOR,
  orLabelSelectors: s.listOf(s.LABEL_SELECTOR),
  names: s.STRINGS,
  excludedNames: s.STRINGS,
});
const FILTERS = { ...s.listOf(FILTER), minItems: 1 };
const POLICY = {
  ...s.object({
    version: { type: 'string', enum: ['v1'] },
    clusterScopedFilterPolicy: { ...s.object({ resourceFilters: FILTERS }), required: ['resourceFilters'] },
    namespacedFilterPolicies: s.listOf({
      ...s.object({ namespaces: { ...s.STRINGS, minItems: 1 }, resourceFilters: FILTERS }),
      required: ['namespaces', 'resourceFilters'],
    }),
  }),
  required: ['version'],
};

/** The full name of a resource of the target. */
type Resolve = (name: string) => string | undefined;
type Test = (object: JsonObject) => boolean;

interface Filters {
  readonly byResource: ReadonlyMap<string, Test>;
  /** In lower case: Velero compares names that the target does not know with the kind of the object. */
  readonly byKind: ReadonlyMap<string, Test>;
  readonly hasUnknown: boolean;
  readonly rest: Test | undefined;
}

/** @throws Error if Velero would refuse the ConfigMap */
export function resourceFilterOf(configMap: JsonObject, resolve: Resolve): ResourceFilter {
  const policy = decodeConfigMap(configMap, POLICY);
  const namespaced = listIn(policy, 'namespacedFilterPolicies').map((one, index) => ({
    patterns: textsIn(one, 'namespaces'),
    filters: filtersIn(one, `namespacedFilterPolicies[${index}]`, resolve),
  }));
  checkPatterns(namespaced.flatMap(({ patterns }) => patterns));
  const cluster = objectIn(policy, 'clusterScopedFilterPolicy');
  const clusterScoped = filtersIn(cluster, 'clusterScopedFilterPolicy', resolve);
  if (clusterScoped.rest !== undefined) throw new Error('clusterScopedFilterPolicy: each filter needs kinds');
  const filtersOf = (namespace: string) =>
    (
      namespaced.find(({ patterns }) => patterns.includes(namespace)) ??
      namespaced.find(({ patterns }) => patterns.some((one) => compileGlob(one).test(namespace)))
    )?.filters;
  return ({ resource, namespace, object }) => {
    const filters = namespace === undefined ? clusterScoped : filtersOf(namespace);
    if (filters === undefined) return undefined;
    const { byResource, byKind, hasUnknown, rest } = filters;
    const comparesKinds = namespace === undefined || hasUnknown || rest !== undefined;
    const test =
      byResource.get(groupResourceName(resource)) ??
      (comparesKinds ? byKind.get(textIn(object, 'kind').toLowerCase()) : undefined) ??
      rest;
    if (test !== undefined) return test(object);
    return namespace === undefined ? undefined : false;
  };
}

function filtersIn(policy: JsonValue, where: string, resolve: Resolve): Filters {
  const byResource = new Map<string, Test>();
  const byKind = new Map<string, Test>();
  let rest: Test | undefined;
  for (const [index, filter] of listIn(policy, 'resourceFilters').entries()) {
    const at = `${where}.resourceFilters[${index}]`;
    const kinds = textsIn(filter, 'kinds').map((kind) => kind.toLowerCase());
    const test = testOf(filter, at);
    if (kinds.length === 0 || (kinds.length === 1 && kinds[0] === '*')) {
      if (rest !== undefined) throw new Error(`${at}: another filter is for all kinds, too`);
      if (listIn(filter, 'names').length + listIn(filter, 'excludedNames').length > 0)
        throw new Error(`${at}: a filter for all kinds cannot have names`);
      rest = test;
    } else
      for (const kind of kinds) {
        const name = resolve(kind) ?? kind;
        if (byResource.has(name)) throw new Error(`${at}: another filter is for ${name}, too`);
        byResource.set(name, test);
        byKind.set(kind, test);
      }
  }
  const hasUnknown = [...byKind.keys()].some((kind) => resolve(kind) === undefined);
  return { byResource, byKind, hasUnknown, rest };
}

/** @throws Error for a selector or a glob that Velero refuses */
function testOf(filter: JsonValue, at: string): Test {
  const { labelSelector, orLabelSelectors } = objectIn({ filter }, 'filter');
  const all = selectorsIn(labelSelector ?? {}, at);
  const any = selectorsIn(orLabelSelectors ?? [], at);
  if (all.length > 0 && isJsonArray(orLabelSelectors) && orLabelSelectors.length > 0)
    throw new Error(`${at}: write either labelSelector or orLabelSelectors`);
  const [names, excluded] = [textsIn(filter, 'names'), textsIn(filter, 'excludedNames')];
  for (const glob of [...names, ...excluded]) compileGlob(glob);
  const included = createIncludes(names, excluded);
  return (object) => {
    const labels = labelsOf(object);
    return (
      all.every((one) => matchesSelector(one, labels)) &&
      (any.length === 0 || any.some((one) => matchesSelector(one, labels))) &&
      included.selects(textIn(object, 'metadata', 'name'))
    );
  };
}

const textsIn = (value: JsonValue, field: string): readonly string[] => listIn(value, field).map(String);

/** Without empty ones, which Velero ignores. */
function selectorsIn(given: JsonValue, at: string): readonly NormalSelector[] {
  return [given].flat().flatMap((one) => {
    const { selector, problems } = normaliseSelector(one, `${at}.labelSelector`);
    const [problem] = problems;
    if (problem !== undefined) throw new Error(`${problem.where}: ${problem.message}`);
    return Object.keys(selector).length === 0 ? [] : [selector];
  });
}

/** @see ValidateNamespaceName in pkg/util/wildcard of Velero */
function checkPatterns(patterns: readonly string[]): void {
  for (const [index, pattern] of patterns.entries()) {
    if (/[|()!{},]|\*\*/.test(pattern) || !/^(\[[^\]]+\]|[^[\]])*$/.test(pattern))
      throw new Error(`the namespace "${pattern}" is no glob of *, ? and [abc]`);
    if (patterns.indexOf(pattern) !== index)
      throw new Error(`the namespace "${pattern}" occurs twice in namespacedFilterPolicies`);
    compileGlob(pattern);
  }
}

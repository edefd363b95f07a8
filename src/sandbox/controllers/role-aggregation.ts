import { isEqual, type JsonObject } from '../../json/json.ts';
import { matchesSelector, normaliseSelector } from '../../json/label-selector.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import { record, records } from '../../machinery/fields.ts';
import type { Place, Storage } from '../../machinery/storage/stored.ts';
import { createWorkQueue } from './work-queue.ts';

const CLUSTER_ROLES: Place = { group: 'rbac.authorization.k8s.io', resource: 'clusterroles' };

/**
 * Maintains the rules of ClusterRoles with an aggregationRule. Returns a function that stops the controller.
 *
 * @param replaceObject may throw ApiFailure 404 or 409, and is then retried
 * @see kubernetes/pkg/controller/clusterroleaggregation
 */
export function startRoleAggregation(
  storage: Pick<Storage, 'get' | 'list' | 'watchAll'>,
  replaceObject: (place: Place, object: ApiObject) => void | Promise<void>,
  onError: (error: unknown) => void,
): () => void {
  const { add, stop } = createWorkQueue(async (name) => {
    const role = storage.get(CLUSTER_ROLES, { namespace: '', name });
    if (role === undefined || !isAggregated(role)) return;
    const rules = aggregatedRules(role, storage.list(CLUSTER_ROLES).items);
    if (!isEqual(records(role, 'rules'), rules)) await replaceObject(CLUSTER_ROLES, withRules(role, rules));
  }, onError);
  const addAll = () => {
    for (const role of storage.list(CLUSTER_ROLES).items)
      if (isAggregated(role)) add(role.metadata.name ?? '');
  };
  const unwatch = storage.watchAll(({ group, resource }) => {
    // Any role may be selected by any other role.
    if (group === CLUSTER_ROLES.group && resource === CLUSTER_ROLES.resource) addAll();
  });
  addAll();
  return () => {
    unwatch();
    stop();
  };
}

const isAggregated = (role: ApiObject) => record(role, 'aggregationRule') !== undefined;

const withRules = (
  role: ApiObject,
  rules: readonly JsonObject[],
): ApiObject & { readonly rules: readonly JsonObject[] } => ({
  ...role,
  rules,
});

/** The rules of all roles that the aggregationRule selects, without duplicates, in the order of role names. */
export function aggregatedRules(role: ApiObject, all: readonly ApiObject[]): readonly JsonObject[] {
  const byName = all.toSorted((a, b) => ((a.metadata.name ?? '') < (b.metadata.name ?? '') ? -1 : 1));
  const rules: JsonObject[] = [];
  for (const given of records(record(role, 'aggregationRule') ?? {}, 'clusterRoleSelectors')) {
    const { selector, problems } = normaliseSelector(given, 'clusterRoleSelectors');
    if (problems.length > 0) continue; // an invalid selector selects nothing
    for (const other of byName) {
      if (other.metadata.name === role.metadata.name) continue;
      if (!matchesSelector(selector, other.metadata.labels ?? {})) continue;
      for (const rule of records(other, 'rules')) {
        if (!rules.some((known) => isEqual(known, rule))) rules.push(rule);
      }
    }
  }
  return rules;
}

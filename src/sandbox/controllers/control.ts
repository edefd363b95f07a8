import type { ApiObject } from '../../machinery/api-object.ts';
import { isEqual, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { matchesSelector, normaliseSelector } from '../../json/label-selector.ts';
import { ApiFailure } from '../../machinery/failure.ts';
import type { Api } from '../pipeline/context.ts';
import { removeOrMark } from '../pipeline/delete.ts';
import type { Place } from '../../machinery/storage/stored.ts';
import { replaceOrRemove } from './ask.ts';
import { startDefinitionsController } from './definitions.ts';
import { startGarbageCollector } from './garbage-collector.ts';
import { startNamespaceController } from './namespaces.ts';
import { record, records, spec, status, text, withFields } from '../../machinery/fields.ts';
import { typeWarnings } from '../../machinery/policies/type-check.ts';
import { createWorkQueue } from './work-queue.ts';

const BACKGROUND = { dryRun: false, propagationPolicy: 'Background', preconditions: {} } as const;

/** Runs the controllers of kube-controller-manager that the sandbox has. Returns a function that stops them. */
export function startControllers(api: Api, onError: (error: unknown) => void): () => void {
  const { storage, registry } = api;
  const onRetry = (error: unknown) => {
    // Controllers expect conflicts and refusals by webhooks.
    if (!(error instanceof ApiFailure)) onError(error);
  };
  const stops = [
    startDefinitionsController(api, (place) => {
      // Deleting a definition of a built-in resource must not delete the built-in objects.
      if (registry.stored(place.group, place.resource)?.custom === false) return;
      for (const { metadata } of storage.list(place).items)
        removeOrMark(
          api,
          place,
          { namespace: metadata.namespace ?? '', name: metadata.name ?? '' },
          BACKGROUND,
        );
    }),
    startRoleAggregation(api, onRetry),
    startPolicyTypes(api, onRetry),
    startNamespaceController(api, onRetry),
    startGarbageCollector(api, onRetry),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/** Calls `work` with the place's cluster-scoped objects now and after each change, if needed. Returns a function that stops. */
function startObjectController(
  { storage }: Api,
  place: Place,
  needsWork: (object: ApiObject) => boolean,
  work: (object: ApiObject) => void,
  onError: (error: unknown) => void,
): () => void {
  const { add, stop } = createWorkQueue((name) => {
    const object = storage.get(place, { namespace: '', name });
    if (object !== undefined && needsWork(object)) work(object);
  }, onError);
  const addAll = () => {
    for (const object of storage.list(place).items) if (needsWork(object)) add(text(object.metadata, 'name'));
  };
  const unwatch = storage.watchAll(({ group, resource }) => {
    if (group === place.group && resource === place.resource) addAll();
  });
  addAll();
  return () => {
    unwatch();
    stop();
  };
}

const CLUSTER_ROLES: Place = { group: 'rbac.authorization.k8s.io', resource: 'clusterroles' };

/** Maintains the rules of ClusterRoles with an aggregationRule, which can select each other. */
function startRoleAggregation(api: Api, onError: (error: unknown) => void): () => void {
  const { storage } = api;
  const isAggregated = (role: ApiObject) => record(role, 'aggregationRule') !== undefined;
  const aggregate = (role: ApiObject) => {
    const rules = aggregatedRules(role, storage.list(CLUSTER_ROLES).items);
    if (!isEqual(records(role, 'rules'), rules))
      replaceOrRemove(storage, CLUSTER_ROLES, withFields(role, { rules }));
  };
  return startObjectController(api, CLUSTER_ROLES, isAggregated, aggregate, onError);
}

/** The rules of all roles that the aggregationRule selects, without duplicates, in the order of role names. */
function aggregatedRules(role: ApiObject, all: readonly ApiObject[]): readonly JsonObject[] {
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

const POLICIES: Place = {
  group: 'admissionregistration.k8s.io',
  resource: 'validatingadmissionpolicies',
};

/** Maintains the status of ValidatingAdmissionPolicies (pkg/controller/validatingadmissionpolicystatus). */
function startPolicyTypes(api: Api, onError: (error: unknown) => void): () => void {
  const isUnchecked = (policy: ApiObject) => status(policy).observedGeneration !== policy.metadata.generation;
  const check = (policy: ApiObject) => {
    const { typeChecking: before, ...others } = status(policy);
    const checked = {
      ...others,
      observedGeneration: policy.metadata.generation ?? 0,
      ...checkedTypes(typeWarnings(spec(policy), api.registry), before),
    };
    const { resourceVersion = '' } = policy.metadata;
    api.storage.replace(POLICIES, { ...policy, status: checked }, resourceVersion);
  };
  return startObjectController(api, POLICIES, isUnchecked, check, onError);
}

/** An apply that removes the last warning also removes the field around it. */
function checkedTypes(
  warnings: ReturnType<typeof typeWarnings>,
  before: JsonValue | undefined,
): { readonly typeChecking?: JsonObject } {
  if (warnings.length > 0)
    return { typeChecking: { expressionWarnings: warnings.map((one) => ({ ...one })) } };
  return isJsonObject(before) && before.expressionWarnings !== undefined ? {} : { typeChecking: {} };
}

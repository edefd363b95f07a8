import type { ApiObject } from '../../machinery/api-object.ts';
import { stringifyJson, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { ApiFailure, notFound } from '../../machinery/failure.ts';
import type { Api, ApiRequest } from '../pipeline/context.ts';
import { isDone, removeOrMark } from '../pipeline/delete.ts';
import { handle } from '../pipeline/handle.ts';
import type { ResourceRequest, ResourceVerb } from '../../machinery/request.ts';
import { apiVersionOf, type ResourceType, type ResourceRegistry } from '../../machinery/resource-type.ts';
import type { Key, Place, Storage } from '../../machinery/storage/stored.ts';
import { startDefinitionsController } from './definitions.ts';
import { startGarbageCollector } from './garbage-collector.ts';
import { startNamespaceController } from './namespaces.ts';
import { startRoleAggregation } from './role-aggregation.ts';
import { spec, status, text } from '../../machinery/fields.ts';
import { typeWarnings } from '../../machinery/policies/type-check.ts';
import { createWorkQueue } from './work-queue.ts';

const BACKGROUND = { dryRun: false, propagationPolicy: 'Background', preconditions: {} } as const;

/** Runs the controllers of kube-controller-manager that the sandbox has. Returns a function that stops them. */
export function startControllers(api: Api, now: () => string, onError: (error: unknown) => void): () => void {
  const { storage, registry } = api;
  const onRetry = (error: unknown) => {
    // Controllers expect conflicts and refusals by webhooks.
    if (!(error instanceof ApiFailure)) onError(error);
  };
  const replaceObject = (place: Place, object: ApiObject) => {
    const { namespace = '', name = '', resourceVersion = '' } = object.metadata;
    if (isDone(object)) storage.remove(place, { namespace, name }, resourceVersion);
    else storage.replace(place, object, resourceVersion);
  };
  const stops = [
    startDefinitionsController(storage, now, (place) => {
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
    startRoleAggregation(storage, replaceObject, onRetry),
    startPolicyTypes(storage, registry, onRetry),
    startNamespaceController({
      storage,
      replaceObject,
      now,
      onError: onRetry,
      namespacedPlaces: () =>
        registry
          .all()
          .filter(({ namespaced, version, storageVersion }) => namespaced && version === storageVersion)
          .map(({ group, resource }) => ({ group, resource })),
      deleteAllIn: async (place, namespace) => {
        await ask(api, 'namespace-controller', 'deletecollection', place, { namespace, name: '' });
      },
    }),
    startGarbageCollector({
      storage,
      onError: onRetry,
      stored: () => everything(api),
      findKind: (apiVersion, kind) => {
        const type = registry.findKind(apiVersion, kind);
        return type === undefined ? undefined : { place: type, namespaced: type.namespaced };
      },
      deleteObject: async (place, key, options) => {
        await ask(api, 'generic-garbage-collector', 'delete', place, key, {
          kind: 'DeleteOptions',
          ...options,
        });
      },
      replaceObject: async (place, object) => {
        const { namespace = '', name = '' } = object.metadata;
        await ask(api, 'generic-garbage-collector', 'update', place, { namespace, name }, object);
      },
    }),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

function* everything({ registry, storage }: Api) {
  for (const { group, resource, version, storageVersion } of registry.all()) {
    if (version !== storageVersion) continue;
    const place = { group, resource };
    for (const object of storage.list(place).items) yield { place, object };
  }
}

const METHODS: Partial<Record<ResourceVerb, string>> = {
  delete: 'DELETE',
  deletecollection: 'DELETE',
  update: 'PUT',
};

/** Sends a controller's request through the whole pipeline, including webhooks. */
async function ask(
  api: Api,
  account: string,
  verb: ResourceVerb,
  place: Place,
  key: Key,
  body?: object,
): Promise<void> {
  const type = api.registry.stored(place.group, place.resource);
  if (type === undefined) throw notFound(place, key.name);
  const info: ResourceRequest = {
    kind: 'resource',
    verb,
    group: type.group,
    version: type.version,
    resource: type.resource,
    subresource: '',
    path: '',
    ...key,
  };
  const request: ApiRequest = {
    method: METHODS[verb] ?? 'GET',
    info,
    query: new URLSearchParams(),
    accept: undefined,
    contentType: undefined,
    userAgent: 'kube-controller-manager/sandbox',
    body: Buffer.from(body === undefined ? '' : stringifyJson(ofVersion(body, type))),
    user: {
      username: `system:serviceaccount:kube-system:${account}`,
      groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system', 'system:authenticated'],
    },
    notes: { warn: () => undefined, annotate: () => undefined },
  };
  await handle(api, request, info);
}

/** The object may be stored in another version; controllers change only metadata, which all versions share. */
const ofVersion = (body: object, type: ResourceType): object =>
  'metadata' in body ? { ...body, apiVersion: apiVersionOf(type) } : body;

const POLICIES: Place = {
  group: 'admissionregistration.k8s.io',
  resource: 'validatingadmissionpolicies',
};

/**
 * Maintains the status of ValidatingAdmissionPolicies. A policy is checked once per generation: kinds that are defined later
 * change nothing. Returns a function that stops the controller.
 *
 * @see kubernetes/pkg/controller/validatingadmissionpolicystatus
 */
function startPolicyTypes(
  storage: Pick<Storage, 'get' | 'list' | 'watchAll' | 'replace'>,
  registry: ResourceRegistry,
  onError: (error: unknown) => void,
): () => void {
  const { add, stop } = createWorkQueue((name) => {
    const policy = storage.get(POLICIES, { namespace: '', name });
    if (policy === undefined || isChecked(policy)) return;
    const { typeChecking: before, ...others } = status(policy);
    const checked = {
      ...policy,
      status: {
        ...others,
        observedGeneration: policy.metadata.generation ?? 0,
        ...checkedTypes(typeWarnings(spec(policy), registry), before),
      },
    };
    storage.replace(POLICIES, checked, policy.metadata.resourceVersion ?? '');
  }, onError);
  const addAll = () => {
    for (const policy of storage.list(POLICIES).items)
      if (!isChecked(policy)) add(text(policy.metadata, 'name'));
  };
  const unwatch = storage.watchAll(({ group, resource }) => {
    if (group === POLICIES.group && resource === POLICIES.resource) addAll();
  });
  addAll();
  return () => {
    unwatch();
    stop();
  };
}

/** An apply that removes the last warning removes the field around it, too. */
function checkedTypes(
  warnings: ReturnType<typeof typeWarnings>,
  before: JsonValue | undefined,
): { readonly typeChecking?: JsonObject } {
  if (warnings.length > 0)
    return { typeChecking: { expressionWarnings: warnings.map((one) => ({ ...one })) } };
  return isJsonObject(before) && before.expressionWarnings !== undefined ? {} : { typeChecking: {} };
}

const isChecked = (policy: ApiObject): boolean =>
  status(policy).observedGeneration === policy.metadata.generation;

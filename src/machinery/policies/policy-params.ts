import type { JsonObject } from '../../json/json.ts';
import { matchesSelector, normaliseSelector } from '../../json/label-selector.ts';
import type { ApiObject } from '../api-object.ts';
import type { ConvertObjects } from '../crd/convert.ts';
import { record, text } from '../fields.ts';
import type { ResourceRegistry, ResourceType } from '../resource-type.ts';
import { placeOf, type Storage } from '../storage/stored.ts';

interface World {
  readonly registry: ResourceRegistry;
  readonly storage: Storage;
  readonly convert: ConvertObjects;
}

/** Why a policy cannot be evaluated with a binding, or with any. */
export interface BrokenParams {
  readonly kind: 'broken';
  readonly message: string;
  readonly isOfPolicy: boolean;
}

/** The objects that a policy is evaluated with, one after the other. */
type Params = { readonly kind: 'params'; readonly params: readonly (ApiObject | undefined)[] } | BrokenParams;

const broken = (message: string): BrokenParams => ({
  ...{ kind: 'broken', isOfPolicy: false },
  message: `failed to configure binding: ${message}`,
});

/**
 * The params of a binding, as `CollectParams` finds them.
 *
 * @param namespace of the request; empty for cluster-scoped objects
 * @see k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go
 */
export async function paramsOf(
  policy: JsonObject,
  binding: JsonObject,
  namespace: string,
  { registry, storage, convert }: World,
): Promise<Params> {
  const kind = record(policy, 'paramKind');
  if (kind === undefined) return { kind: 'params', params: [undefined] };
  const [apiVersion, name] = [text(kind, 'apiVersion'), text(kind, 'kind')];
  const type = registry.findKind(apiVersion, name);
  if (type === undefined) return unknownKind(apiVersion, name);
  const ref = record(binding, 'paramRef');
  if (ref === undefined) return { kind: 'params', params: [undefined] };
  const problem = scopeProblem(type, ref, namespace);
  if (problem !== undefined) return broken(problem);
  const found = selected(type, ref, text(ref, 'namespace') || namespace, storage);
  if (found.length === 0 && text(ref, 'parameterNotFoundAction') === 'Deny')
    return broken('no params found for policy binding with `Deny` parameterNotFoundAction');
  return { kind: 'params', params: await convert(found, type) };
}

function unknownKind(apiVersion: string, kind: string): BrokenParams {
  const shown = `${apiVersion.includes('/') ? '' : '/'}${apiVersion}, Kind=${kind}`;
  return {
    ...{ kind: 'broken', isOfPolicy: true },
    message: `failed to configure policy: failed to find resource referenced by paramKind: '${shown}'`,
  };
}

function scopeProblem({ namespaced }: ResourceType, ref: JsonObject, namespace: string): string | undefined {
  const given = text(ref, 'namespace');
  if (!namespaced && given !== '')
    return 'paramRef.namespace must not be provided for a cluster-scoped `paramKind`';
  if (namespaced && given === '' && namespace === '')
    return 'cannot use namespaced paramRef in policy binding that matches cluster-scoped resources';
  return undefined;
}

function selected(
  type: ResourceType,
  ref: JsonObject,
  paramsNamespace: string,
  storage: Storage,
): readonly ApiObject[] {
  const place = placeOf(type);
  const namespace = type.namespaced ? paramsNamespace : '';
  const name = text(ref, 'name');
  if (name !== '') {
    const found = storage.get(place, { namespace, name });
    return found === undefined ? [] : [found];
  }
  const { selector } = normaliseSelector(record(ref, 'selector') ?? {}, '');
  return storage.list(place, {
    ...(type.namespaced ? { namespace } : {}),
    accepts: ({ metadata }) => matchesSelector(selector, metadata.labels ?? {}),
  }).items;
}

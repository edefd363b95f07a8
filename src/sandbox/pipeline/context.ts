import type { JsonValue } from '../../json/json.ts';
import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import type { ConvertObjects } from '../../machinery/crd/convert.ts';
import { badRequest, notFound, type Status } from '../../machinery/failure.ts';
import { decodeObject, type FieldValidation } from '../../machinery/objects/decode.ts';
import type { Notes, ResourceRequest, UserInfo } from '../../machinery/request.ts';
import type { ResourceRegistry, ResourceType } from '../../machinery/resource-type.ts';
import { type Page, placeOf, type Storage } from '../../machinery/storage/stored.ts';
import type { AdmissionAttributes } from '../../machinery/webhooks/admission-review.ts';
import type { Admission } from '../../machinery/webhooks/admission.ts';
import type { Authorizer } from '../auth/rbac.ts';

/** The dependencies of the request pipeline, created once per sandbox. */
export interface Api {
  readonly registry: ResourceRegistry;
  readonly storage: Storage;
  readonly admission: Admission;
  readonly convert: ConvertObjects;
  readonly now: () => Date;
  readonly newUid: () => string;
  /** Five characters for generateName. */
  readonly newSuffix: () => string;
  /** A token for a ServiceAccount, valid for this many seconds. */
  readonly issueToken: (namespace: string, name: string, uid: string, seconds: number) => string;
  readonly authorizer: Authorizer;
}

export interface ApiRequest {
  readonly info: ResourceRequest;
  readonly query: URLSearchParams;
  readonly accept: string | undefined;
  readonly contentType: string | undefined;
  readonly userAgent: string;
  readonly body: Uint8Array;
  readonly user: UserInfo;
  readonly notes: Notes;
}

/** A request with the type of its resource: what every handler receives. */
export interface Call {
  readonly api: Api;
  readonly request: ApiRequest;
  /** Without a namespace for cluster-scoped resources. */
  readonly info: ResourceRequest;
  readonly type: ResourceType;
}

/** The result of a request, before it is rendered in the form that the client accepts. */
export type Answer =
  | {
      readonly kind: 'object';
      readonly code: 200 | 201;
      readonly type: ResourceType;
      readonly object: ApiObject;
    }
  | { readonly kind: 'list'; readonly type: ResourceType; readonly page: Page }
  | { readonly kind: 'status'; readonly status: Status }
  | {
      readonly kind: 'watch';
      readonly type: ResourceType;
      readonly timeoutMs: number;
      readonly follow: Follow;
    };

/** An event of a watch, in the version that the client asked for. */
export type WatchEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: ApiObject }
  | { readonly type: 'BOOKMARK'; readonly revision: number; readonly endsInitialEvents: boolean }
  | { readonly type: 'ERROR'; readonly status: Status };

/** Starts to deliver events and returns a function that stops it; `end` is called when no more events follow. */
type Follow = (send: (event: WatchEvent) => void, end: () => void) => () => void;

export const objectAnswer = (type: ResourceType, object: ApiObject, code: 200 | 201 = 200): Answer => ({
  kind: 'object',
  code,
  type,
  object,
});

/** The object of the request as it is stored. @throws ApiFailure 404 */
export function storedObject({ api, info, type }: Call): ApiObject {
  const stored = api.storage.get(placeOf(type), info);
  if (stored === undefined) throw notFound(type, info.name);
  return stored;
}

/** The object in the version of the type. @throws ApiFailure if its conversion webhook fails */
export async function converted({ convert }: Api, object: ApiObject, type: ResourceType): Promise<ApiObject> {
  const [shown = object] = await convert([object], type);
  return shown;
}

export const attributesOf = ({ request, info, type }: Call, dryRun: boolean) => ({
  type,
  subresource: info.subresource,
  namespace: info.namespace,
  name: info.name,
  user: request.user,
  dryRun,
});

export async function mutated(
  { api, request }: Call,
  attributes: AdmissionAttributes & { readonly object: ApiObject },
  complete: (object: ApiObject) => ApiObject,
): Promise<ApiObject> {
  return (await api.admission.mutate(attributes, complete, request.notes)) ?? attributes.object;
}

/** Decodes a body that contains an object of this type. @throws ApiFailure 400 */
export const decoded = (
  { request, info }: Call,
  body: JsonValue,
  type: ResourceType,
  { fieldValidation }: { readonly fieldValidation: FieldValidation },
): ApiObject => inNamespace(decodeObject(body, type, fieldValidation, request.notes), info.namespace, type);

/** Puts the object into the namespace of the path. @throws ApiFailure 400 if the object names another one */
export function inNamespace(object: ApiObject, namespace: string, type: ResourceType): ApiObject {
  const { namespace: own = '' } = object.metadata;
  if (!type.namespaced) return own === '' ? object : withMeta(object, { namespace: undefined });
  if (own !== '' && own !== namespace) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  }
  return own === '' ? withMeta(object, { namespace }) : object;
}

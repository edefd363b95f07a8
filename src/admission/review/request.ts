import { InvalidReview, uidOf } from './envelope.ts';
import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';

export type Operation = 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';

export const writes = (operation: Operation): boolean => operation === 'CREATE' || operation === 'UPDATE';

export interface UserInfo {
  readonly username: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

interface GroupVersionResource {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
}

export interface AdmissionRequest {
  readonly uid: string;
  /** The kind for which the webhook is registered. The object is in this version. */
  readonly kind: GroupVersionKind;
  readonly resource: GroupVersionResource;
  /** e.g. `status`; empty for the main resource. */
  readonly subResource: string;
  /** The kind that the client sent, possibly in another version (`matchPolicy: Equivalent`). */
  readonly requestKind: GroupVersionKind;
  readonly requestResource: GroupVersionResource;
  /** On deletecollection from the old object. Undefined before the API server has generated a name. */
  readonly name: string | undefined;
  /** Undefined for cluster-scoped objects, including Namespaces. */
  readonly namespace: string | undefined;
  /** The name and the namespace as the API server sent them, for expressions: empty if absent. Default: those above. */
  readonly sent?: { readonly name: string; readonly namespace: string };
  readonly operation: Operation;
  readonly userInfo: UserInfo;
  /** The new object; always present on CREATE and UPDATE. */
  readonly object: JsonObject | undefined;
  /** The existing object; always present on UPDATE, and on DELETE. */
  readonly oldObject: JsonObject | undefined;
  /** Whether the API server will discard the result. Handlers without side effects can ignore it. */
  readonly dryRun: boolean;
  readonly options: JsonObject | undefined;
}

/** @throws InvalidReview */
export function toAdmissionRequest(review: JsonObject): AdmissionRequest {
  const request: Fields<keyof AdmissionRequest> = review;
  const operation = operationOf(request.operation);
  const kind = kindOf(request.kind, 'kind');
  const resource = resourceOf(request.resource, 'resource');
  const object = objectOf(request.object, 'object');
  const oldObject = objectOf(request.oldObject, 'oldObject');
  if (object === undefined && (operation === 'CREATE' || operation === 'UPDATE'))
    throw new InvalidReview(`request.object: absent on ${operation}`);
  if (oldObject === undefined && operation === 'UPDATE')
    throw new InvalidReview(`request.oldObject: absent on ${operation}`);
  const { requestKind, requestResource } = request;
  return {
    uid: uidOf(review),
    kind,
    resource,
    subResource: textOrEmpty(request.subResource),
    requestKind: isPresent(requestKind) ? kindOf(requestKind, 'requestKind') : kind,
    requestResource: isPresent(requestResource) ? resourceOf(requestResource, 'requestResource') : resource,
    name: textOrEmpty(request.name) || nameOf(object) || nameOf(oldObject) || undefined,
    namespace: isNamespace(resource) ? undefined : textOrEmpty(request.namespace) || undefined,
    sent: { name: textOrEmpty(request.name), namespace: textOrEmpty(request.namespace) },
    operation,
    userInfo: userInfoOf(request.userInfo),
    object,
    oldObject,
    dryRun: request.dryRun === true,
    options: objectOf(request.options, 'options'),
  };
}

/** No prototype defines these names, so plain access is safe, and several times as fast as {@link ownValue}. */
type Fields<Name extends string> = Readonly<Partial<Record<Name, JsonValue>>>;

function operationOf(operation: unknown): Operation {
  switch (operation) {
    case 'CREATE':
    case 'UPDATE':
    case 'DELETE':
    case 'CONNECT':
      return operation;
    default:
      throw new InvalidReview('request.operation: neither CREATE, UPDATE, DELETE nor CONNECT');
  }
}

function kindOf(value: JsonValue | undefined, field: string): GroupVersionKind {
  const { group, version, kind }: Fields<keyof GroupVersionKind> = isJsonObject(value) ? value : {};
  if (typeof kind !== 'string' || kind === '') throw lacks(field, 'kind');
  return { group: textOrEmpty(group), version: textOrEmpty(version), kind };
}

function resourceOf(value: JsonValue | undefined, field: string): GroupVersionResource {
  const { group, version, resource }: Fields<keyof GroupVersionResource> = isJsonObject(value) ? value : {};
  if (typeof resource !== 'string' || resource === '') throw lacks(field, 'resource');
  return { group: textOrEmpty(group), version: textOrEmpty(version), resource };
}

const lacks = (field: string, what: string) =>
  new InvalidReview(`request.${field}: absent or without ${what}`);

/** The API server sends null for a missing object. */
function objectOf(value: JsonValue | undefined, field: string): JsonObject | undefined {
  if (!isPresent(value)) return undefined;
  if (!isJsonObject(value)) throw new InvalidReview(`request.${field}: not an object`);
  return value;
}

/** Except on server-side apply, the API server sends a Namespace's name as its namespace. */
const isNamespace = ({ group, resource }: GroupVersionResource): boolean =>
  group === '' && resource === 'namespaces';

function nameOf(object: Fields<'metadata'> | undefined): string {
  const metadata = object?.metadata;
  const { name }: Fields<'name'> = isJsonObject(metadata) ? metadata : {};
  return textOrEmpty(name);
}

function userInfoOf(value: JsonValue | undefined): UserInfo {
  if (!isJsonObject(value)) return { username: '', uid: '', groups: [], extra: {} };
  const { username, uid, groups, extra }: Fields<keyof UserInfo> = value;
  return {
    username: textOrEmpty(username),
    uid: textOrEmpty(uid),
    groups: textsOf(groups),
    extra: isJsonObject(extra)
      ? Object.fromEntries(Object.entries(extra).map(([key, values]) => [key, textsOf(values)]))
      : {},
  };
}

const textsOf = (value: JsonValue | undefined): readonly string[] =>
  isJsonArray(value) ? value.filter((item) => typeof item === 'string') : [];

const isPresent = (value: JsonValue | undefined): boolean => (value ?? undefined) !== undefined;

const textOrEmpty = (value: JsonValue | undefined): string => (typeof value === 'string' ? value : '');

import { isJsonArray, isJsonObject, ownValue, type JsonObject } from './json.ts';

export type Operation = 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';

/** Whether there is an object afterwards which was not there, or was another. */
export function writes(operation: Operation): boolean {
  return operation === 'CREATE' || operation === 'UPDATE';
}

/** Who asks, as in authentication.k8s.io/v1 UserInfo. */
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

/** An AdmissionRequest of v1 or v1beta1, with the differences between operations evened out. */
export interface AdmissionRequest {
  readonly uid: string;
  /** What the webhook is registered for; the object is in this version. */
  readonly kind: GroupVersionKind;
  readonly resource: GroupVersionResource;
  /** e.g. `status`; empty when there is none. */
  readonly subResource: string;
  /** What the client sent, possibly in another version (`matchPolicy: Equivalent`). */
  readonly requestKind: GroupVersionKind;
  readonly requestResource: GroupVersionResource;
  /** The API server leaves it out on deletecollection, where the old object has it; undefined only before a generated name is made. */
  readonly name: string | undefined;
  /** Undefined for cluster-scoped objects, also for Namespaces. */
  readonly namespace: string | undefined;
  readonly operation: Operation;
  readonly userInfo: UserInfo;
  /** As it will be; always there on CREATE and UPDATE. */
  readonly object: JsonObject | undefined;
  /** As it is; always there on UPDATE, and on DELETE since Kubernetes 1.15. */
  readonly oldObject: JsonObject | undefined;
  readonly dryRun: boolean;
  readonly options: JsonObject | undefined;
}

/** The body is not a review that can be answered; the message says what is wrong with it. */
export class InvalidReview extends Error {
  override name = 'InvalidReview';
}

/**
 * The `request` of an AdmissionReview.
 *
 * @throws InvalidReview
 */
export function toAdmissionRequest(request: JsonObject): AdmissionRequest {
  const operation = operationOf(request);
  const kind = kindOf(request, 'kind');
  const resource = resourceOf(request, 'resource');
  const object = objectOf(request, 'object');
  const oldObject = objectOf(request, 'oldObject');
  if (object === undefined && (operation === 'CREATE' || operation === 'UPDATE')) {
    throw new InvalidReview(`request.object: absent on ${operation}`);
  }
  if (oldObject === undefined && operation === 'UPDATE') {
    throw new InvalidReview(`request.oldObject: absent on ${operation}`);
  }
  return {
    uid: uidOf(request),
    kind,
    resource,
    subResource: optionalText(request, 'subResource'),
    requestKind: isPresent(request, 'requestKind') ? kindOf(request, 'requestKind') : kind,
    requestResource: isPresent(request, 'requestResource')
      ? resourceOf(request, 'requestResource')
      : resource,
    name: optionalText(request, 'name') || nameOf(object) || nameOf(oldObject) || undefined,
    namespace: isNamespace(resource) ? undefined : optionalText(request, 'namespace') || undefined,
    operation,
    userInfo: userInfoOf(request),
    object,
    oldObject,
    dryRun: ownValue(request, 'dryRun') === true,
    options: objectOf(request, 'options'),
  };
}

/** @throws InvalidReview */
export function uidOf(request: JsonObject): string {
  const uid = ownValue(request, 'uid');
  if (typeof uid !== 'string' || uid === '') throw new InvalidReview('request.uid: absent or not a string');
  return uid;
}

function operationOf(request: JsonObject): Operation {
  const operation = ownValue(request, 'operation');
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

function kindOf(request: JsonObject, field: string): GroupVersionKind {
  const { group, version, last } = triple(request, field, 'kind');
  return { group, version, kind: last };
}

function resourceOf(request: JsonObject, field: string): GroupVersionResource {
  const { group, version, last } = triple(request, field, 'resource');
  return { group, version, resource: last };
}

function triple(request: JsonObject, field: string, lastField: string) {
  const value = ownValue(request, field);
  const last = isJsonObject(value) ? ownValue(value, lastField) : undefined;
  if (!isJsonObject(value) || typeof last !== 'string' || last === '') {
    throw new InvalidReview(`request.${field}: absent or without ${lastField}`);
  }
  return { group: optionalText(value, 'group'), version: optionalText(value, 'version'), last };
}

/** The API server writes null where there is no object. */
function objectOf(request: JsonObject, field: string): JsonObject | undefined {
  if (!isPresent(request, field)) return undefined;
  const value = ownValue(request, field);
  if (!isJsonObject(value)) throw new InvalidReview(`request.${field}: not an object`);
  return value;
}

/** Namespaces are cluster-scoped, yet the API server sends their name as their namespace, except on server-side apply. */
function isNamespace({ group, resource }: GroupVersionResource): boolean {
  return group === '' && resource === 'namespaces';
}

function nameOf(object: JsonObject | undefined): string {
  const metadata = object === undefined ? undefined : ownValue(object, 'metadata');
  const name = isJsonObject(metadata) ? ownValue(metadata, 'name') : undefined;
  return typeof name === 'string' ? name : '';
}

function userInfoOf(request: JsonObject): UserInfo {
  const user = ownValue(request, 'userInfo');
  if (!isJsonObject(user)) return { username: '', uid: '', groups: [], extra: {} };
  const extra = ownValue(user, 'extra');
  return {
    username: optionalText(user, 'username'),
    uid: optionalText(user, 'uid'),
    groups: textsOf(ownValue(user, 'groups')),
    extra: isJsonObject(extra)
      ? Object.fromEntries(Object.entries(extra).map(([key, values]) => [key, textsOf(values)]))
      : {},
  };
}

function textsOf(value: unknown): readonly string[] {
  return isJsonArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

function isPresent(object: JsonObject, field: string): boolean {
  return (ownValue(object, field) ?? undefined) !== undefined;
}

function optionalText(object: JsonObject, field: string): string {
  const value = ownValue(object, field);
  return typeof value === 'string' ? value : '';
}

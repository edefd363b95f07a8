import {
  endOfString,
  isJsonArray,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  nextAfterSpace,
  ownValue,
} from '../../json/json.ts';
import { quote } from '../../json/printable.ts';

export type Operation = 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';

export const writes = (operation: Operation): boolean => operation === 'CREATE' || operation === 'UPDATE';

export interface MatchCondition {
  readonly name: string;
  readonly expression: string;
}

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

/** The body is not a review that Gatehouse can answer. The message says what is wrong. */
export class InvalidReview extends Error {
  override name = 'InvalidReview';
}

const API_VERSIONS = {
  AdmissionReview: 'admission.k8s.io/v1',
  ConversionReview: 'apiextensions.k8s.io/v1',
} as const;

type ReviewKind = keyof typeof API_VERSIONS;

export const apiVersionOf = (kind: ReviewKind): string => API_VERSIONS[kind];

/** @throws InvalidReview */
export function openReview(
  value: unknown,
  kind: ReviewKind,
): { readonly uid: string; readonly request: JsonObject } {
  if (!isJsonObject(value)) throw new InvalidReview('the body is not a JSON object');
  const given = ownValue(value, 'kind');
  if (given !== kind) throw new InvalidReview(`kind: ${quote(given)} is not ${kind}`);
  const apiVersion = ownValue(value, 'apiVersion');
  if (apiVersion !== apiVersionOf(kind))
    throw new InvalidReview(`apiVersion: ${quote(apiVersion)} is not ${apiVersionOf(kind)}`);
  const request = ownValue(value, 'request');
  if (!isJsonObject(request)) throw new InvalidReview('request: absent or not an object');
  return { uid: uidOf(request), request };
}

/** @throws InvalidReview */
export function uidOf(request: JsonObject): string {
  const uid = ownValue(request, 'uid');
  if (typeof uid !== 'string' || uid === '') throw new InvalidReview('request.uid: absent or not a string');
  return uid;
}

export const reviewType = (kind: ReviewKind) => ({ apiVersion: apiVersionOf(kind), kind });

const [QUOTE, COLON] = [34, 58];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [91, 93, 123, 125];
/** The API server writes short strings here. A uid has 36 characters. */
const LONGEST_TEXT = 1_024;

/**
 * Finds the uid in the text of a review that is cut off; undefined if this is not a review of the kind. The API server writes the
 * members of the review and of `request`. Users control everything below.
 */
export function findUid(text: string, kind: ReviewKind): string | undefined {
  const texts = new Map<string, string>();
  let depth = 0;
  let parent = '';
  let key = '';
  for (let at = 0; at < text.length && texts.size < NAMES.size; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = endOfString(text, at);
      if (depth === 1 || (depth === 2 && parent === 'request')) {
        const found = readText(text, at, end);
        const name = depth === 1 ? key : `request.${key}`;
        if (nextAfterSpace(text, end + 1) === COLON) key = found;
        else if (NAMES.has(name) && !texts.has(name)) texts.set(name, found);
      }
      at = end;
    } else if (code === OPEN_OBJECT || code === OPEN_LIST) {
      depth += 1;
      if (depth === 2) parent = code === OPEN_OBJECT ? key : '';
      key = depth <= 2 ? '' : key;
    } else if (code === CLOSE_OBJECT || code === CLOSE_LIST) {
      depth -= 1;
      if (depth <= 2) key = '';
    }
  }
  const uid = texts.get('request.uid') ?? '';
  const isReview = texts.get('kind') === kind && texts.get('apiVersion') === apiVersionOf(kind);
  return isReview && uid !== '' ? uid : undefined;
}

const NAMES: ReadonlySet<string> = new Set(['kind', 'apiVersion', 'request.uid']);

/** The value of a JSON string; empty if the API server cannot have written it. */
function readText(text: string, start: number, end: number): string {
  if (end >= text.length || end - start > LONGEST_TEXT) return '';
  try {
    return String(JSON.parse(text.slice(start, end + 1)));
  } catch {
    return '';
  }
}

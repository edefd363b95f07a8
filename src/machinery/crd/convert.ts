import { messageOf } from '../../json/abort.ts';
import { isJsonObject, ownValue, type JsonArray, type JsonObject, type JsonValue } from '../../json/json.ts';
import { ofJson, toJson, withMeta, type ApiObject } from '../api-object.ts';
import { ApiFailure } from '../failure.ts';
import { readDefinition, type Conversion, type Definition } from './definition.ts';
import { items, record, section, text } from '../fields.ts';
import type { ResourceType } from '../resource-type.ts';

export type ConvertObjects = (
  objects: readonly ApiObject[],
  type: ResourceType,
) => Promise<readonly ApiObject[]>;

/** Sends a ConversionReview to the webhook in `clientConfig` and returns the answer. Throws if the call fails. */
type CallWebhook = (clientConfig: JsonObject, review: JsonObject) => Promise<JsonObject>;

/** Converts objects of a definition (pkg/apiserver/conversion of apiextensions-apiserver). @throws ApiFailure 500 */
export function createConverter(callWebhook: CallWebhook, newUid: () => string) {
  return async (
    objects: readonly ApiObject[],
    crd: ApiObject,
    toApiVersion: string,
  ): Promise<readonly ApiObject[]> => {
    const foreign = objects.filter(({ apiVersion }) => apiVersion !== toApiVersion);
    if (foreign.length === 0) return objects;
    const definition = readDefinition(crd);
    for (const { apiVersion } of foreign) requireVersion(definition, apiVersion, 'from');
    requireVersion(definition, toApiVersion, 'to');

    const converted =
      definition.conversion?.strategy === 'Webhook'
        ? await convertByWebhook(foreign, definition.conversion, toApiVersion, callWebhook, newUid())
        : foreign.map((object) => ({ ...object, apiVersion: toApiVersion }));
    const results = converted.values();
    return objects.map((object) =>
      object.apiVersion === toApiVersion ? object : (results.next().value ?? object),
    );
  };
}

async function convertByWebhook(
  objects: readonly ApiObject[],
  { webhook }: Conversion,
  toApiVersion: string,
  callWebhook: CallWebhook,
  uid: string,
): Promise<readonly ApiObject[]> {
  const [{ apiVersion, kind } = { apiVersion: '', kind: '' }] = objects;
  const hook = `conversion webhook for ${apiVersion}, Kind=${kind}`;
  const version = webhook?.reviewVersions.find((known) => known === 'v1' || known === 'v1beta1');
  if (version === undefined) throw failure('no supported conversion review versions');

  // Conversion happens between storage and request, and stored objects lack a resourceVersion.
  const stored = objects.map((object) => toJson(withMeta(object, { resourceVersion: undefined })));
  const reviewVersion = `apiextensions.k8s.io/${version}`;
  const answers = await callWebhook(webhook?.clientConfig ?? {}, {
    apiVersion: reviewVersion,
    kind: 'ConversionReview',
    request: { uid, desiredAPIVersion: toApiVersion, objects: stored },
  })
    .then((answer) => answeredObjects(answer, reviewVersion, uid))
    .catch((error: unknown) => {
      throw failure(`${hook} failed: ${messageOf(error)}`);
    });
  if (answers.length !== objects.length) {
    throw failure(`${hook} returned ${answers.length} objects, expected ${objects.length}`);
  }
  return objects.map((object, index) => {
    const answer = answers[index];
    const problem = conversionProblem(object, answer, toApiVersion, objects.length === 1 ? undefined : index);
    if (!isJsonObject(answer) || problem !== undefined)
      throw failure(`${hook} returned invalid ${problem ?? ''}`);
    return restoreMetadata(object, answer);
  });
}

function answeredObjects(review: JsonObject, apiVersion: string, uid: string): JsonArray {
  const response = record(review, 'response');
  const isV1 = apiVersion.endsWith('/v1'); // the API server does not check these fields in v1beta1
  if (isV1 && (text(review, 'apiVersion') !== apiVersion || text(review, 'kind') !== 'ConversionReview')) {
    const got = `${text(review, 'apiVersion')}, Kind=${text(review, 'kind')}`;
    throw new Error(`expected webhook response of ${apiVersion}, Kind=ConversionReview, got ${got}`);
  }
  if (response === undefined) throw new Error('no response provided');
  if (isV1 && text(response, 'uid') !== uid) {
    throw new Error(`expected response.uid="${uid}", got "${text(response, 'uid')}"`);
  }
  const result = section(response, 'result');
  if (text(result, 'status') !== 'Success') {
    const message = text(result, 'message');
    throw new Error(
      message === '' ? `response.result.status was '${text(result, 'status')}', not 'Success'` : message,
    );
  }
  return items(response, 'convertedObjects');
}

/** A change of the webhook that is not allowed, in the API server's words. */
function conversionProblem(
  object: ApiObject,
  answer: JsonValue | undefined,
  toApiVersion: string,
  index: number | undefined,
): string | undefined {
  const which = index === undefined ? 'object' : `converted object at index ${index}`;
  if (!isJsonObject(answer)) return `${which}: not an object`;
  const type = typeProblem(object, answer, toApiVersion);
  if (type !== undefined) return `${index === undefined ? 'object at index 0' : which}: ${type}`;
  const identity = identityProblem(object, answer);
  if (identity !== undefined) return `${which}: ${identity}`;
  const metadata = record(answer, 'metadata');
  const marks =
    metadata === undefined
      ? 'missing metadata in converted object'
      : (markProblem(metadata, 'labels') ?? markProblem(metadata, 'annotations'));
  return marks && `metadata${index === undefined ? '' : ` in object at index ${index}`}: ${marks}`;
}

function typeProblem({ kind }: ApiObject, answer: JsonObject, toApiVersion: string): string | undefined {
  const apiVersion = text(answer, 'apiVersion');
  if (apiVersion !== toApiVersion) {
    return `invalid groupVersion (expected ${toApiVersion}, received ${apiVersion})`;
  }
  const answered = text(answer, 'kind');
  return answered === kind ? undefined : `invalid kind (expected ${kind}, received ${answered})`;
}

function identityProblem({ metadata }: ApiObject, answer: JsonObject): string | undefined {
  for (const key of ['name', 'namespace', 'uid'] as const) {
    const [own, answered] = [metadata[key] ?? '', text(section(answer, 'metadata'), key)];
    if (own !== answered) return `must have the same ${key === 'uid' ? 'UID' : key}: ${own} != ${answered}`;
  }
  return undefined;
}

function markProblem(metadata: JsonObject, key: 'labels' | 'annotations'): string | undefined {
  const marks = ownValue(metadata, key) ?? {};
  if (!isJsonObject(marks)) return `invalid metadata.${key} in converted object`;
  const wrong = Object.entries(marks).find(([, value]) => typeof value !== 'string');
  return wrong && `metadata.${key}[${wrong[0]}] must be a string in converted object`;
}

/** A webhook may change only labels and annotations in metadata. Other changes are silently ignored. */
function restoreMetadata(object: ApiObject, answer: JsonObject): ApiObject {
  const answered = section(answer, 'metadata');
  const { metadata: before } = withMeta(object, { labels: undefined, annotations: undefined });
  const labels = record(answered, 'labels');
  const annotations = record(answered, 'annotations');
  const metadata = {
    ...(before as unknown as JsonObject), // the metadata of an ApiObject is JSON
    ...(labels === undefined ? {} : { labels }),
    ...(annotations === undefined ? {} : { annotations }),
  };
  return ofJson({ ...answer, metadata });
}

function requireVersion({ group, versions }: Definition, apiVersion: string, direction: 'from' | 'to'): void {
  if (versions.some(({ name }) => `${group}/${name}` === apiVersion)) return;
  throw failure(`request to convert CR ${direction} an invalid group/version: ${apiVersion}`);
}

const failure = (message: string) => new ApiFailure(500, '', message);

import { isJsonArray, isJsonObject, ownValue, type JsonObject } from './json.ts';
import { InvalidReview, uidOf } from './request.ts';
import { quote } from './shown.ts';

type ConversionVersion = 'v1' | 'v1beta1';

/** A ConversionReview of apiextensions.k8s.io that asks. */
export interface ConversionRequest {
  readonly version: ConversionVersion;
  readonly uid: string;
  /** e.g. `infra.example.com/v1` */
  readonly desiredApiVersion: string;
  readonly objects: readonly JsonObject[];
}

export type ConversionResult =
  /** As many objects as were asked for, in the same order, all in the desired version. */
  | { readonly kind: 'converted'; readonly objects: readonly JsonObject[] }
  | { readonly kind: 'failed'; readonly message: string };

/** A ConversionReview that carries an answer. Write it with `stringifyJson`: its objects may hold integers beyond 2^53. */
export interface ConversionReview {
  readonly apiVersion: `apiextensions.k8s.io/${ConversionVersion}`;
  readonly kind: 'ConversionReview';
  readonly response: {
    readonly uid: string;
    readonly convertedObjects: readonly JsonObject[];
    readonly result: { readonly status: 'Success' } | { readonly status: 'Failed'; readonly message: string };
  };
}

/** @throws InvalidReview when the body is no ConversionReview that could be answered. */
export function parseConversionReview(value: unknown): ConversionRequest {
  if (!isJsonObject(value)) throw new InvalidReview('the body is not a JSON object');
  const kind = ownValue(value, 'kind');
  if (kind !== 'ConversionReview') throw new InvalidReview(`kind: ${quote(kind)} is not ConversionReview`);
  const version = versionOf(ownValue(value, 'apiVersion'));
  const request = ownValue(value, 'request');
  if (!isJsonObject(request)) throw new InvalidReview('request: absent or not an object');
  const uid = uidOf(request);
  const desiredApiVersion = ownValue(request, 'desiredAPIVersion');
  if (typeof desiredApiVersion !== 'string' || desiredApiVersion === '') {
    throw new InvalidReview('request.desiredAPIVersion: absent or not a string');
  }
  const objects = ownValue(request, 'objects');
  if (!isJsonArray(objects) || !objects.every(isJsonObject)) {
    throw new InvalidReview('request.objects: not a list of objects');
  }
  return { version, uid, desiredApiVersion, objects };
}

function versionOf(apiVersion: unknown): ConversionVersion {
  switch (apiVersion) {
    case 'apiextensions.k8s.io/v1':
      return 'v1';
    case 'apiextensions.k8s.io/v1beta1':
      return 'v1beta1';
    default:
      throw new InvalidReview(
        `apiVersion: ${quote(apiVersion)} is neither apiextensions.k8s.io/v1 nor apiextensions.k8s.io/v1beta1`,
      );
  }
}

/** The answer, in the version of the question. */
export function toConversionReview(request: ConversionRequest, result: ConversionResult): ConversionReview {
  const isConverted = result.kind === 'converted';
  return {
    apiVersion: `apiextensions.k8s.io/${request.version}`,
    kind: 'ConversionReview',
    response: {
      uid: request.uid,
      convertedObjects: isConverted ? result.objects : [],
      result: isConverted ? { status: 'Success' } : { status: 'Failed', message: result.message },
    },
  };
}

/** Says that nothing converts these objects, and what to do about it. */
export function refuseConversion(request: ConversionRequest): ConversionReview {
  const [object = {}] = request.objects;
  const kind = quote(ownValue(object, 'kind'));
  const from = quote(ownValue(object, 'apiVersion'));
  return toConversionReview(request, {
    kind: 'failed',
    message:
      `Gatehouse has no converter for kind ${kind} from ${from} to ${quote(request.desiredApiVersion)}: ` +
      'point spec.conversion of its CustomResourceDefinition to the webhook that converts it, or set strategy: None',
  });
}

/** The envelope that AdmissionReview and ConversionReview share. */
import { isJsonObject, ownValue, type JsonObject } from '../../json/json.ts';
import { quote } from '../../json/printable.ts';

/** The body is not a review that Gatehouse can answer. The message says what is wrong. */
export class InvalidReview extends Error {
  override name = 'InvalidReview';
}

const API_VERSIONS = {
  AdmissionReview: 'admission.k8s.io/v1',
  ConversionReview: 'apiextensions.k8s.io/v1',
} as const;

export type ReviewKind = keyof typeof API_VERSIONS;

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

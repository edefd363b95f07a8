/** The envelope that AdmissionReview and ConversionReview share, in v1 and v1beta1. */
import { isJsonObject, ownValue, type JsonObject } from '../../json/json.ts';
import { quote } from '../../json/printable.ts';

/** The body is not a review that Gatehouse can answer. The message says what is wrong. */
export class InvalidReview extends Error {
  override name = 'InvalidReview';
}

const GROUPS = { AdmissionReview: 'admission.k8s.io', ConversionReview: 'apiextensions.k8s.io' } as const;

export type ReviewKind = keyof typeof GROUPS;
export type ReviewVersion = 'v1' | 'v1beta1';

/** @throws InvalidReview */
export function openReview(
  value: unknown,
  kind: ReviewKind,
): { readonly version: ReviewVersion; readonly uid: string; readonly request: JsonObject } {
  if (!isJsonObject(value)) throw new InvalidReview('the body is not a JSON object');
  const given = ownValue(value, 'kind');
  if (given !== kind) throw new InvalidReview(`kind: ${quote(given)} is not ${kind}`);
  const apiVersion = ownValue(value, 'apiVersion');
  const version = parseVersion(apiVersion, kind);
  if (version === undefined) {
    const group = GROUPS[kind];
    throw new InvalidReview(`apiVersion: ${quote(apiVersion)} is neither ${group}/v1 nor ${group}/v1beta1`);
  }
  const request = ownValue(value, 'request');
  if (!isJsonObject(request)) throw new InvalidReview('request: absent or not an object');
  return { version, uid: uidOf(request), request };
}

/** Undefined: Gatehouse does not know this version. */
export function parseVersion(apiVersion: unknown, kind: ReviewKind): ReviewVersion | undefined {
  if (apiVersion === `${GROUPS[kind]}/v1`) return 'v1';
  return apiVersion === `${GROUPS[kind]}/v1beta1` ? 'v1beta1' : undefined;
}

/** @throws InvalidReview */
export function uidOf(request: JsonObject): string {
  const uid = ownValue(request, 'uid');
  if (typeof uid !== 'string' || uid === '') throw new InvalidReview('request.uid: absent or not a string');
  return uid;
}

/** The response has the version of the request. */
export const reviewType = (kind: ReviewKind, version: ReviewVersion) => ({
  apiVersion: `${GROUPS[kind]}/${version}`,
  kind,
});

/** The wire format of conversion: ConversionReview of apiextensions.k8s.io, v1 and v1beta1. */
import { isJsonArray, isJsonObject, ownValue } from '../../json/json.ts';
import { InvalidReview, uidOf } from '../review/request.ts';
import { quote } from '../../json/printable.ts';

export type ConversionReviewVersion = 'v1' | 'v1beta1';

/** A ConversionReview request without its objects. */
export interface ConversionQuestion {
  readonly version: ConversionReviewVersion;
  readonly uid: string;
  /** The requested version, e.g. `infra.example.com` and `v1`. */
  readonly group: string;
  readonly desiredVersion: string;
}

export type ConversionResult =
  /** The objects as JSON text: same number, same order, all in the desired version. */
  | { readonly kind: 'converted'; readonly objects: readonly string[] }
  | { readonly kind: 'failed'; readonly message: string };

/** @throws InvalidReview if the body is not a ConversionReview that can be answered */
export function parseQuestion(value: unknown): ConversionQuestion {
  if (!isJsonObject(value)) throw new InvalidReview('the body is not a JSON object');
  const kind = ownValue(value, 'kind');
  if (kind !== 'ConversionReview') throw new InvalidReview(`kind: ${quote(kind)} is not ConversionReview`);
  const version = versionOf(ownValue(value, 'apiVersion'));
  const request = ownValue(value, 'request');
  if (!isJsonObject(request)) throw new InvalidReview('request: absent or not an object');
  const uid = uidOf(request);
  const desired = ownValue(request, 'desiredAPIVersion');
  if (typeof desired !== 'string' || desired === '') {
    throw new InvalidReview('request.desiredAPIVersion: absent or not a string');
  }
  if (!isJsonArray(ownValue(request, 'objects')))
    throw new InvalidReview('request.objects: not a list of objects');
  return { version, uid, ...splitApiVersion(desired) };
}

/** Splits `group/version`. The core group has no slash, but webhooks never convert its objects. */
function splitApiVersion(text: string): { readonly group: string; readonly desiredVersion: string } {
  const slash = text.indexOf('/');
  return slash === -1
    ? { group: '', desiredVersion: text }
    : { group: text.slice(0, slash), desiredVersion: text.slice(slash + 1) };
}

function versionOf(apiVersion: unknown): ConversionReviewVersion {
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

/** Writes the response in the review version of the request: JSON in several texts, to be sent in this order. */
export function writeAnswer(
  { version, uid }: Pick<ConversionQuestion, 'version' | 'uid'>,
  result: ConversionResult,
): readonly string[] {
  const objects = result.kind === 'converted' ? result.objects : [];
  const status =
    result.kind === 'converted' ? { status: 'Success' } : { status: 'Failed', message: result.message };
  return [
    `{"apiVersion":"apiextensions.k8s.io/${version}","kind":"ConversionReview","response":`,
    `{"uid":${JSON.stringify(uid)},"convertedObjects":[`,
    ...objects.flatMap((text, index) => (index === 0 ? [text] : [',', text])),
    `],"result":${JSON.stringify(status)}}}`,
  ];
}

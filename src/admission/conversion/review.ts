/** The wire format of conversion: ConversionReview of apiextensions.k8s.io/v1. */
import { isJsonArray, ownValue } from '../../json/json.ts';
import { splitApiVersion } from '../../json/kube-object.ts';
import { InvalidReview, openReview, reviewType } from '../review/envelope.ts';

/** A ConversionReview request without its objects. */
export interface ConversionQuestion {
  readonly uid: string;
  /** The requested version, e.g. `infra.example.com` and `v1`. */
  readonly group: string;
  readonly version: string;
}

export type ConversionResult =
  /** The objects as JSON text: same number, same order, all in the desired version. */
  | { readonly kind: 'converted'; readonly objects: readonly string[] }
  | { readonly kind: 'failed'; readonly message: string };

/** @throws InvalidReview if the body is not a ConversionReview that can be answered */
export function parseQuestion(value: unknown): ConversionQuestion {
  const { uid, request } = openReview(value, 'ConversionReview');
  const desired = ownValue(request, 'desiredAPIVersion');
  if (typeof desired !== 'string' || desired === '')
    throw new InvalidReview('request.desiredAPIVersion: absent or not a string');
  if (!isJsonArray(ownValue(request, 'objects')))
    throw new InvalidReview('request.objects: not a list of objects');
  return { uid, ...splitApiVersion(desired) };
}

/** Writes the response: JSON in several texts, to be sent in this order. */
export function writeAnswer(uid: string, result: ConversionResult): readonly string[] {
  const objects = result.kind === 'converted' ? result.objects : [];
  const status =
    result.kind === 'converted' ? { status: 'Success' } : { status: 'Failed', message: result.message };
  return [
    `${JSON.stringify(reviewType('ConversionReview')).slice(0, -1)},"response":`,
    `{"uid":${JSON.stringify(uid)},"convertedObjects":[`,
    ...objects.flatMap((text, index) => (index === 0 ? [text] : [',', text])),
    `],"result":${JSON.stringify(status)}}}`,
  ];
}

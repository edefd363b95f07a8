import { hasMoreValues, isDeeperThan } from '../../json/json-scan.ts';
import { parseJson, type JsonValue } from '../../json/json.ts';
import { InvalidReview, findUid } from './envelope.ts';
import type { AdmissionRequest } from './request.ts';
import { parseReview } from './review.ts';

export interface ReviewBody {
  readonly bytes: Buffer;
  /** Whether the body ends here. Otherwise it exceeds the size limit, and this is only its start. */
  readonly isComplete: boolean;
}

/** In bytes. An update has two objects of at most 1.5 MiB, whose characters `<`, `>` and `&` have six bytes: 18 MiB. */
export const MAX_REVIEW_BYTES = 20 * 1024 * 1024;

/** The API server accepts objects 10,000 levels deep (sigs.k8s.io/json) and wraps them in reviews. */
const MAX_DEPTH = 10_100;

/** Parsing more takes seconds and hundreds of MiB: a minimal value has two characters. */
const MAX_VALUES = 1_000_000;

export type ReadReview =
  | { readonly kind: 'review'; readonly request: AdmissionRequest }
  /** Requesters control this: under `failurePolicy: Ignore`, an HTTP error would store the object. */
  | { readonly kind: 'unreadable'; readonly uid: string; readonly problem: string };

/** @throws InvalidReview if the body is not a review, so the API server has not sent it */
export function readReview(body: ReviewBody): ReadReview {
  const text = body.bytes.toString('utf8');
  try {
    return { kind: 'review', request: parseReview(parseBody(text, body)) };
  } catch (error) {
    if (!(error instanceof InvalidReview)) throw error;
    const uid = findUid(text, 'AdmissionReview');
    if (uid === undefined) throw error;
    return { kind: 'unreadable', uid, problem: error.message };
  }
}

function parseBody(text: string, { bytes, isComplete }: ReviewBody): JsonValue {
  if (!isComplete) throw tooMuch(`is larger than ${MAX_REVIEW_BYTES / 1024 ** 2} MiB`);
  if (isDeeperThan(MAX_DEPTH, text)) throw tooMuch('is nested more than 10,000 levels deep');
  if (hasMoreValues(MAX_VALUES, text)) throw tooMuch('has more than a million values');
  try {
    return parseJson(text, bytes);
  } catch (error) {
    throw new InvalidReview(
      `the body is not JSON: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

const tooMuch = (what: string) => new InvalidReview(`the review ${what}: make the object smaller`);

import { isJsonObject, ownValue, type JsonObject } from '../../json/json.ts';
import { quote } from '../../json/printable.ts';
import { endOfString, nextAfterSpace } from '../../json/json-scan.ts';

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

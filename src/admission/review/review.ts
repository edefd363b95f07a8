import { type AuditAnnotations, type Cause, type Decision, FORBIDDEN, TRY_AGAIN } from './decision.ts';
import { messageOf } from '../../json/abort.ts';
import { toJsonText } from '../../json/json-text.ts';
import { isSimpleName } from '../../json/kube-object.ts';
import {
  type AdmissionRequest,
  findUid,
  InvalidReview,
  openReview,
  reviewType,
  toAdmissionRequest,
} from './request.ts';
import { hasMoreValues, isDeeperThan, type JsonValue, parseJson } from '../../json/json.ts';

export interface AdmissionReview {
  readonly apiVersion: string;
  readonly kind: string;
  readonly response: AdmissionResponse;
}

interface AdmissionResponse {
  readonly uid: string;
  readonly allowed: boolean;
  readonly status?: Status;
  /** Base64 of a JSON Patch; present if and only if patchType is present. */
  readonly patch?: string;
  readonly patchType?: 'JSONPatch';
  readonly warnings?: readonly string[];
  readonly auditAnnotations?: AuditAnnotations;
}

interface Status {
  readonly status: 'Failure';
  readonly code: number;
  readonly reason: string;
  readonly message: string;
  readonly details: {
    readonly name?: string;
    readonly group?: string;
    readonly kind?: string;
    readonly causes?: readonly Cause[];
    readonly retryAfterSeconds?: number;
  };
}

type Answered = Pick<AdmissionRequest, 'uid' | 'kind' | 'name' | 'operation'>;

/** @throws InvalidReview if Gatehouse cannot answer the review */
export const parseReview = (value: unknown): AdmissionRequest =>
  toAdmissionRequest(openReview(value, 'AdmissionReview').request);

export function toMutatingReview(request: Answered, decision: Decision): AdmissionReview {
  const review = toValidatingReview(request, decision);
  // With a patch for a deletion, the API server would fail the request regardless of the failurePolicy.
  if (decision.kind !== 'allow' || decision.patch.length === 0 || request.operation === 'DELETE')
    return review;
  const patch = Buffer.from(toJsonText(decision.patch)).toString('base64');
  return { ...review, response: { ...review.response, patch, patchType: 'JSONPatch' } };
}

/** The response of a validating webhook, without a patch, because the API server would reject it. */
export const toValidatingReview = (request: Answered, decision: Decision): AdmissionReview =>
  answer(responseTo(request, decision));

export const toRetry = (uid: string, message: string): AdmissionReview => answer(retryOf(uid, message));

const answer = (response: AdmissionResponse): AdmissionReview => ({
  ...reviewType('AdmissionReview'),
  response,
});

const failure = (uid: string, status: Omit<Status, 'status'>): AdmissionResponse => ({
  uid,
  allowed: false,
  status: { status: 'Failure', ...status },
});

function retryOf(uid: string, message: string, object: object = {}): AdmissionResponse {
  const { retryAfterSeconds, ...status } = TRY_AGAIN;
  return failure(uid, { ...status, message, details: { ...object, retryAfterSeconds } });
}

export function toRefusal(uid: string, problem: string): AdmissionReview {
  const message = `Gatehouse cannot check this request: ${problem}`;
  return answer(failure(uid, { ...FORBIDDEN, message, details: {} }));
}

function responseTo(request: Answered, decision: Decision): AdmissionResponse {
  const { uid } = request;
  if (decision.kind === 'allow') return { uid, allowed: true, ...notices(decision) };
  const { message } = decision;
  if (decision.kind === 'retry') return retryOf(uid, message, identity(request));
  const { reason, causes, retryAfterSeconds } = decision;
  const details = {
    ...identity(request),
    ...(causes.length > 0 ? { causes } : {}),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
  };
  const code = Math.max(400, decision.code);
  return { ...failure(uid, { code, reason, message, details }), ...notices(decision) };
}

function identity({ name, kind }: Answered): Pick<Status['details'], 'name' | 'group' | 'kind'> {
  return {
    ...(name === undefined ? {} : { name }),
    ...(kind.group === '' ? {} : { group: kind.group }),
    kind: kind.kind,
  };
}

type Notices = Pick<AdmissionResponse, 'warnings' | 'auditAnnotations'>;

function notices(decision: Required<Notices>): Notices {
  const warnings = sanitiseWarnings(decision.warnings);
  const keys = Object.keys(decision.auditAnnotations);
  const wrong = keys.find((key) => !isSimpleName(key));
  // The API server would drop the annotation and only log it.
  if (wrong !== undefined) throw new Error(`"${wrong}" cannot be the key of an audit annotation`);
  return {
    ...(warnings.length > 0 ? { warnings } : {}),
    ...(keys.length > 0 ? { auditAnnotations: decision.auditAnnotations } : {}),
  };
}

/** In characters. The API server would cut each warning here; Gatehouse marks the cut. */
const LONGEST_WARNING = 256;
/** In bytes. The limit of the API server for all warnings of one request, from all webhooks together. */
const MOST_BYTES = 4096;

/** The API server drops a warning with control characters. Invisible characters could change its meaning. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** What the API server accepts (k8s.io/apimachinery/pkg/util/net NewWarningHeader): printable lines, without duplicates. */
function sanitiseWarnings(warnings: readonly string[]): readonly string[] {
  if (warnings.length === 0) return warnings;
  const lines = new Set(warnings.flatMap((warning) => warning.split(/[\r\n]+/)).map(toLine));
  lines.delete('');
  const kept: string[] = [];
  let bytes = 0;
  for (const line of lines) {
    const size = Buffer.byteLength(line);
    const rest = `${lines.size - kept.length} more warnings are not shown`;
    const isLast = kept.length === lines.size - 1;
    if (bytes + size + (isLast ? 0 : rest.length) > MOST_BYTES) return [...kept, rest];
    bytes += size;
    kept.push(line);
  }
  return kept;
}

function toLine(text: string): string {
  const printable = text.toWellFormed().replaceAll('\t', ' ').replace(UNPRINTABLE, '').trim();
  const characters = Array.from(printable.slice(0, 2 * LONGEST_WARNING + 2));
  if (characters.length <= LONGEST_WARNING) return printable;
  return `${characters.slice(0, LONGEST_WARNING - 1).join('')}…`;
}

export interface ReviewBody {
  readonly bytes: Buffer;
  /** Whether the body ends here. Otherwise it exceeds the size limit, and this is only its start. */
  readonly isComplete: boolean;
}

/** In bytes. An update has two objects of at most 1.5 MiB, whose characters `<`, `>` and `&` have six bytes: 18 MiB. */
export const MAX_REVIEW_BYTES = 20 * 1024 * 1024;

/** The API server accepts objects 10,000 levels deep (sigs.k8s.io/json) and wraps them in reviews. */
const MAX_DEPTH = 10_100;

/** Of an object. Parsing more takes seconds and hundreds of MiB: a minimal value has two characters. */
const MAX_VALUES = 1_000_000;
/** The containers around an object: the review and its request. */
const OBJECT_LEVEL = 2;

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
  // The two objects of an update count separately. Otherwise a creation could store an object that nobody can update.
  if (hasMoreValues(MAX_VALUES, text, OBJECT_LEVEL) || hasMoreValues(3 * MAX_VALUES, text))
    throw tooManyValues();
  try {
    return parseJson(text, bytes);
  } catch (error) {
    throw new InvalidReview(`the body is not JSON: ${messageOf(error)}`);
  }
}

/** @throws InvalidReview */
export function checkValues(text: string): void {
  if (hasMoreValues(MAX_VALUES, text)) throw tooManyValues();
}

const tooManyValues = () => tooMuch('has an object with more than a million values');

const tooMuch = (what: string) => new InvalidReview(`the review ${what}: make the object smaller`);

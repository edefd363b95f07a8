import { FORBIDDEN, TRY_AGAIN, type AuditAnnotations, type Cause, type Decision } from './decision.ts';
import { toJsonText } from '../../json/json-text.ts';
import { isSimpleName } from '../../json/names.ts';
import { openReview, reviewType } from './envelope.ts';
import { toAdmissionRequest, type AdmissionRequest } from './request.ts';

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
  ...{ uid, allowed: false, status: { status: 'Failure', ...status } },
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

function notices(decision: {
  readonly warnings: readonly string[];
  readonly auditAnnotations: AuditAnnotations;
}): Pick<AdmissionResponse, 'warnings' | 'auditAnnotations'> {
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

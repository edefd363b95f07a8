import { withoutPathTokens } from '../json/abort.ts';
import { listIn, textIn } from '../json/json.ts';

/** The field is empty if the cause is not about a field. */
export interface StatusCause {
  readonly reason: string;
  readonly message: string;
  readonly field: string;
}

/** The request that failed. The path excludes the query, because selectors and tokens do not belong in logs. */
export interface RequestLine {
  readonly method: string;
  readonly path: string;
}

export class ApiError extends Error {
  override readonly name: string = 'ApiError';
  readonly request: RequestLine;
  readonly code: number;
  /** One CamelCase word, e.g. `AlreadyExists`; empty when the response did not come from an API server. */
  readonly reason: string;
  readonly causes: readonly StatusCause[];
  /** From the header `Retry-After`: the server requests a retry, for any verb. */
  readonly retryAfterSeconds: number | undefined;
  /** Of an expired list: where a list of newer objects continues. Otherwise empty. */
  readonly continue: string;

  constructor(
    request: RequestLine,
    answer: { code: number; status: unknown; retryAfterSeconds?: number | undefined },
  ) {
    const { code, status, retryAfterSeconds } = answer;
    const reason = textIn(status, 'reason');
    const outcome = [code, reason].filter((part) => part !== '').join(' ');
    const message = withoutPathTokens(textIn(status, 'message')) || 'no message';
    super(`${request.method} ${request.path}: ${outcome}: ${message}`);
    this.request = lineOf(request);
    this.code = code;
    this.reason = reason;
    this.causes = listIn(status, 'details', 'causes').map((cause) => ({
      reason: textIn(cause, 'reason'),
      message: withoutPathTokens(textIn(cause, 'message')),
      field: textIn(cause, 'field'),
    }));
    this.retryAfterSeconds = retryAfterSeconds;
    this.continue = textIn(status, 'metadata', 'continue');
  }
}

/** A list expired between two pages: start it again. `isGone` returns true for this error. */
export class ListExpiredError extends ApiError {
  override readonly name = 'ListExpiredError';

  constructor(expired: ApiError) {
    const { code, reason, request } = expired;
    const message = 'the list expired between two pages: start it again';
    super(request, { code, status: { reason, message } });
    this.cause = expired;
  }
}

/** No response: the connection failed or broke, or the deadline passed. The server may have executed a write. */
export class NetworkError extends Error {
  override readonly name = 'NetworkError';
  readonly request: RequestLine;
  readonly kind: 'connection' | 'deadline' | 'malformed';

  constructor(request: RequestLine, kind: NetworkError['kind'], message: string, cause?: unknown) {
    super(`${request.method} ${request.path}: ${message}`, { cause });
    this.request = lineOf(request);
    this.kind = kind;
  }
}

/** Errors of an outage that the log has reported once. */
const duringOutage = new WeakSet<Error>();

export const attributeToOutage = (error: Error): void => void duringOutage.add(error);

/** Whether an outage of the API server caused the error, and the log has reported this outage. */
export const isOfOutage = (error: unknown): boolean =>
  error instanceof Error && (duringOutage.has(error) || isOfOutage(error.cause));

/** Whether the cause is that the API server refused a request or did not answer it: the stack would be useless. */
export const isOfRequest = (error: unknown): boolean =>
  error instanceof Error &&
  (error instanceof ApiError || error instanceof NetworkError || isOfRequest(error.cause));

export const isNotFound = (error: unknown): error is ApiError => hasCode(error, 404);
export const isAlreadyExists = (error: unknown): error is ApiError =>
  hasCode(error, 409) && error.reason === 'AlreadyExists';
/** 409 because the object changed after it was read: read it again and decide again. */
export const isConflict = (error: unknown): error is ApiError =>
  hasCode(error, 409) && error.reason !== 'AlreadyExists';
export const isGone = (error: unknown): error is ApiError => hasCode(error, 410);

export const isForbidden = (error: unknown): error is ApiError => hasCode(error, 403);

/** For `catch`: the value to use instead of an expected error. @throws every other error */
export const insteadOf =
  <const Value>(isExpected: (error: unknown) => boolean, value: Value) =>
  (error: unknown): Value => {
    if (!isExpected(error)) throw error;
    return value;
  };

/** The server refuses the object itself: a retry gets the same response. */
export const isRefused = (error: unknown): error is ApiError =>
  error instanceof ApiError && [400, 403, 413, 422].includes(error.code);

/** A caller may pass a whole request, with its body. */
const lineOf = ({ method, path }: RequestLine): RequestLine => ({ method, path });

const hasCode = (error: unknown, code: number): error is ApiError =>
  error instanceof ApiError && error.code === code;

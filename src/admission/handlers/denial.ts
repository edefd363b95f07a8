/** What a handler can say about a refusal beside its message. */
export interface DenialOptions {
  /** The field to blame, e.g. `spec.disks[1].size`. It stands before the message and in `status.details.causes`. */
  readonly field?: string;
  /** One CamelCase word, the `reason` of the Status. Default: `Forbidden`. */
  readonly reason?: string;
  /**
   * The HTTP status of the refusal, 400 to 599. Default: 403. Avoid 409 and 422: clients take them for their own conflict or
   * mistake, and `kubectl apply --force` answers 422 by deleting the object.
   */
  readonly code?: number;
}

/**
 * A refusal, made by `context.deny(…)`. To make one is to refuse: returning or throwing it only ends the handler there.
 */
export class Denial extends Error {
  override readonly name = 'Denial';
  readonly field: string | undefined;
  readonly reason: string;
  readonly code: number;

  constructor(message: string, { field, reason, code }: DenialOptions = {}) {
    super(typeof message === 'string' && message.trim() !== '' ? message : 'refused without a reason');
    this.field = typeof field === 'string' && field !== '' ? field : undefined;
    // A mistake in the options must not turn a refusal into a failure, which may let the request pass.
    this.reason = typeof reason === 'string' && REASON.test(reason) ? reason : 'Forbidden';
    this.code = isRefusal(code) ? code : 403;
  }
}

const REASON = /^[A-Z][A-Za-z]{0,62}$/;

function isRefusal(code: unknown): code is number {
  return typeof code === 'number' && Number.isInteger(code) && code >= 400 && code <= 599;
}

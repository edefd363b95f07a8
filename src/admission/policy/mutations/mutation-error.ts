/** What a policy would change cannot be computed, or cannot be done. The message is for users. */
export class MutationError extends Error {
  override name = 'MutationError';
  /** The name of the policy. */
  readonly policy: string;

  constructor(message: string, policy: string, cause?: unknown) {
    super(message, { cause });
    this.policy = policy;
  }
}

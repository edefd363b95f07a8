/**
 * A webhook could not be asked, or gave no proper answer: its failurePolicy decides what that means. The message is what the
 * API server says after `failed calling webhook "…": `.
 */
export class CallFailure extends Error {
  override name = 'CallFailure';
}

/** Says where it failed, as the API server does: `failed to call webhook: Post "https://…": …`. */
export const callFailure = (where: string, cause: unknown): CallFailure =>
  new CallFailure(`${where}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });

/** An error with all that caused it, in one line. */
export function sentenceOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${sentenceOf(error.cause)}`;
}

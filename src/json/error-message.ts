/** The message of a caught value. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The messages of an error and of its causes, on one line. */
export function messageWithCauses(error: unknown): string {
  if (!(error instanceof Error) || error.cause === undefined) return messageOf(error);
  return `${error.message}: ${messageWithCauses(error.cause)}`;
}

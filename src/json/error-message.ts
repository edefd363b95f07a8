export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The messages of an error and of its causes, on one line. */
export function messageWithCauses(error: unknown): string {
  if (!(error instanceof Error) || error.cause === undefined) return messageOf(error);
  return `${error.message}: ${messageWithCauses(error.cause)}`;
}

/** The API server quotes the URL of a webhook that does not answer, in its error for the user. */
export const withoutPathTokens = (text: string): string =>
  text.replaceAll(/(\/(?:mutate|validate)\/)[0-9a-f]{32}(?=\/)/g, '$1…');

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export function messageWithCauses(error: unknown): string {
  if (!(error instanceof Error) || error.cause === undefined) return messageOf(error);
  return `${error.message}: ${messageWithCauses(error.cause)}`;
}

/** Removes tokens of webhook URLs, which the API server quotes in errors for users when a webhook does not answer. */
export const withoutPathTokens = (text: string): string =>
  text.replaceAll(/(\/(?:mutate|validate)\/)[0-9a-f]{32}(?=\/)/g, '$1…');

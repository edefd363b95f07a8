/** For messages of parsers and decoders: clients can rely on the part before the first colon. */
export function upToColon(transcript: unknown): unknown {
  return mapMessages(transcript, (message) => message.replace(/: .*/s, ': …'));
}

/** For a part of a message that no client can rely on. */
export const without =
  (words: RegExp) =>
  (transcript: unknown): unknown =>
    mapMessages(transcript, (message) => message.replace(words, '…'));

/** A transcript with changed messages, including those of causes. */
function mapMessages(transcript: unknown, change: (message: string) => string): unknown {
  return JSON.parse(
    JSON.stringify(transcript, (key, value: unknown) =>
      key === 'message' && typeof value === 'string' ? change(value) : value,
    ),
  );
}

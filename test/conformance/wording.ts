/** For messages of parsers and decoders: clients can rely on the part before the first colon. */
export function upToColon(transcript: unknown): unknown {
  return mapMessages(transcript, (message) => message.replace(/: .*/s, ': …'));
}

/** Before 1.21 the schema errors of a custom resource did not contain list indexes. */
export function withoutIndices(transcript: unknown): unknown {
  return JSON.parse(JSON.stringify(transcript).replaceAll(/(spec\.\w+)\[\d+\]/g, '$1'));
}

/** A transcript with changed messages, including those of causes. */
function mapMessages(transcript: unknown, change: (message: string) => string): unknown {
  return JSON.parse(
    JSON.stringify(transcript, (key, value: unknown) =>
      key === 'message' && typeof value === 'string' ? change(value) : value,
    ),
  );
}

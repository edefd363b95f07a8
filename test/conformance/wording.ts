/** For complaints of parsers and decoders: the part before the first colon is what clients can rely on. */
export function upToColon(transcript: unknown): unknown {
  return mapMessages(transcript, (message) => message.replace(/: .*/s, ': …'));
}

/** Before 1.21 the schema of a custom resource did not say which item of a list is wrong. */
export function withoutIndices(transcript: unknown): unknown {
  return JSON.parse(JSON.stringify(transcript).replaceAll(/(spec\.\w+)\[\d+\]/g, '$1'));
}

/** A transcript whose messages (those of causes, too) are changed. */
function mapMessages(transcript: unknown, change: (message: string) => string): unknown {
  return JSON.parse(
    JSON.stringify(transcript, (key, value: unknown) =>
      key === 'message' && typeof value === 'string' ? change(value) : value,
    ),
  );
}

import { Readable } from 'node:stream';

import type { Reply } from './answer.ts';

/** So much is written at a time. */
const CHUNK_CHARACTERS = 256 * 1024;

/**
 * Sends JSON that is there in many texts, in order. What is short goes as one; a long one as a stream, because to join it would
 * take its size in memory twice more.
 */
export function sendLong(reply: Reply, texts: readonly string[]): Reply {
  void reply.code(200).type('application/json; charset=utf-8');
  if (texts.reduce((sum, { length }) => sum + length, 0) <= CHUNK_CHARACTERS)
    return reply.send(texts.join(''));
  const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  return reply.header('content-length', bytes).send(Readable.from(chunksOf(texts), { objectMode: false }));
}

function* chunksOf(texts: readonly string[]): Generator<Buffer> {
  let chunk: string[] = [];
  let characters = 0;
  for (const text of texts) {
    chunk.push(text);
    characters += text.length;
    if (characters < CHUNK_CHARACTERS) continue;
    yield Buffer.from(chunk.join(''));
    chunk = [];
    characters = 0;
  }
  if (chunk.length > 0) yield Buffer.from(chunk.join(''));
}

/** The stream of a watch, split into chunks at any position. */
import fc from 'fast-check';

import { toJsonText } from '../../../src/json/json-text.ts';
import { isEqual } from '../../../src/json/json.ts';
import { splitLines } from '../../../src/kube/rest/transport.ts';
import { isOlder, resourceVersionOf, toWatchEvent } from '../../../src/kube/watch.ts';
import { mutatedObject, mutatedText } from '../mutated.ts';
import { SERVER } from '../seeds.ts';
import { answerOf, fuzzTarget, hold, isDeliberate } from '../target.ts';

const EVENTS = [
  { type: 'ADDED', object: SERVER },
  { type: 'MODIFIED', object: { ...SERVER, status: { phase: '\u{1f512}ü' } } },
  { type: 'BOOKMARK', object: { metadata: { resourceVersion: '12' } } },
  { type: 'ERROR', object: { kind: 'Status', code: 410, message: 'too old' } },
];
const STREAM = EVENTS.map((event) => `${toJsonText(event)}\n`).join('');

const MOST_BYTES = 4_096;

async function* cut(bytes: Uint8Array, places: readonly number[]): AsyncGenerator<Uint8Array> {
  const ends = [...places.map((place) => Math.floor(place * bytes.length)), bytes.length].sort(
    (a, b) => a - b,
  );
  let start = 0;
  for (const end of ends) {
    yield await Promise.resolve(bytes.subarray(start, end));
    start = end;
  }
}

async function linesOf(chunks: AsyncIterable<Uint8Array>): Promise<readonly string[]> {
  const lines: string[] = [];
  for await (const line of splitLines(chunks, MOST_BYTES)) lines.push(line);
  return lines;
}

const places = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 40 });

const streams = fc.tuple(mutatedText([STREAM, STREAM.replaceAll('\n', '\r\n\n')]), places);

/** The lines do not depend on the position of the splits. A line over the limit is an error. */
export const watchLines = fuzzTarget('watch stream', 30, streams, async ([text, where]) => {
  const bytes = Buffer.from(text);
  const lines = await linesOf(cut(bytes, where)).catch((error: unknown) => {
    if (isDeliberate(error)) return undefined;
    throw error;
  });
  const whole = bytes.toString().split('\n');
  const wanted = whole.slice(0, -1);
  if (lines === undefined) {
    hold(
      whole.some((line) => Buffer.byteLength(line) > MOST_BYTES),
      'no line is too long',
    );
    return;
  }
  hold(
    isEqual(
      lines,
      wanted.filter((line) => line.trim() !== ''),
    ),
    () => `it read ${JSON.stringify(lines)}`,
  );
});

export const watchEvents = fuzzTarget('watch event', 25, mutatedObject(EVENTS), (line) => {
  const event = answerOf(() => toWatchEvent(line), isDeliberate);
  if (event === undefined || event.kind === 'error') return;
  const version = resourceVersionOf(event.object);
  hold(typeof version === 'string', 'the resourceVersion is not a string');
  hold(!isOlder(version, version), 'a version is older than itself');
});

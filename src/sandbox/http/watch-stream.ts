import type { ServerResponse } from 'node:http';

import { negotiateWatch } from '../content-type.ts';
import type { Answer, WatchEvent } from '../pipeline/answer.ts';
import type { Rendering } from './respond.ts';
import { bookmarkObject, statusText, watchedText } from './respond.ts';

/** A watch that names no time is ended after one between half an hour and an hour, so that not all end at once. */
const SHORTEST_MS = 30 * 60_000;

/** Bytes. A client that does not read is cut off when more than this waits for it: its events must not fill the memory. */
const BACKLOG_LIMIT = 64 * 1024 * 1024;

/** Writes events as they happen, a JSON object a line; resolves when the watch is over. */
export function streamWatch(
  response: ServerResponse,
  { type, timeoutMs, follow }: Extract<Answer, { kind: 'watch' }>,
  { accept, query }: Pick<Rendering, 'accept' | 'query'>,
  clock: () => Date,
): Promise<void> {
  const accepted = negotiateWatch(accept);
  response.writeHead(200, { 'content-type': 'application/json', 'transfer-encoding': 'chunked' });
  response.flushHeaders();
  let first = true;
  const text = (event: WatchEvent): string => {
    if (event.type === 'ERROR') return `{"type":"ERROR","object":${statusText(event.status)}}\n`;
    const object =
      event.type === 'BOOKMARK'
        ? bookmarkObject(type, event.revision, event.endsInitialEvents)
        : event.object;
    const shown = watchedText(object, type, accepted, { query, now: clock(), first });
    first = false;
    return `{"type":"${event.type}","object":${shown}}\n`;
  };
  return new Promise((resolve) => {
    const over = new AbortController();
    let stop: () => void = () => undefined;
    const end = () => {
      if (over.signal.aborted) return;
      over.abort();
      clearTimeout(timer);
      stop();
      response.end();
      resolve();
    };
    const timer = setTimeout(end, timeoutMs ?? SHORTEST_MS * (1 + Math.random()));
    response.once('close', end);
    stop = follow((event) => {
      if (over.signal.aborted) return;
      response.write(text(event));
      if (response.writableLength > BACKLOG_LIMIT) response.destroy();
    }, end);
    if (over.signal.aborted) stop(); // it ended before we knew how to stop it
  });
}

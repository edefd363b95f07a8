import type { ServerResponse } from 'node:http';

import { negotiateWatch } from './content-type.ts';
import type { Answer, WatchEvent } from '../pipeline/answer.ts';
import type { Rendering } from './respond.ts';
import { bookmarkObject, statusText, watchedText } from './respond.ts';

/** Bytes. A slow client is disconnected above this backlog, because its events must not fill the memory. */
const BACKLOG_LIMIT = 64 * 1024 * 1024;

/** Writes events as they happen, one JSON object per line; resolves at the end of the watch. */
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
    let lines: string[] = [];
    const flush = () => {
      if (lines.length === 0 || response.destroyed) return;
      response.write(lines.join(''));
      lines = [];
      if (response.writableLength > BACKLOG_LIMIT) response.destroy();
    };
    const end = () => {
      if (over.signal.aborted) return;
      flush();
      over.abort();
      clearTimeout(timer);
      stop();
      response.end();
      resolve();
    };
    const timer = setTimeout(end, timeoutMs);
    response.once('close', end);
    stop = follow((event) => {
      if (over.signal.aborted) return;
      // Send simultaneous events together: encryption and system calls dominate the cost.
      if (lines.push(text(event)) === 1) setImmediate(flush);
    }, end);
    if (over.signal.aborted) stop(); // the watch ended before `stop` was known
  });
}

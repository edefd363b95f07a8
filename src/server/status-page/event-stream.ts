/** Server-Sent Events that update open pages. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

import { versionOf, type View } from './document.ts';

/** The write timeout: a browser that reads nothing for this time counts as disconnected. In milliseconds. */
const WRITE_TIMEOUT_MS = 30_000;

/** The browser reconnects after this time, in milliseconds. */
const RETRY_MS = 3_000;

/**
 * Writes events until the viewer disconnects or loses access, or `signal` aborts. Then ends `response`. Never throws.
 * @param read undefined when the viewer no longer has access
 * @param shown the version that the page already shows
 * @param intervalMs the interval between two reads, in milliseconds
 */
export async function streamEvents(
  response: ServerResponse,
  read: () => Promise<View | undefined>,
  shown: string,
  intervalMs: number,
  signal: AbortSignal,
): Promise<void> {
  const gone = new AbortController();
  // Not the response: that of a pipelined request emits no event when its connection closes.
  const { socket } = response.req;
  const leave = () => gone.abort();
  socket.once('close', leave);
  if (response.destroyed || socket.destroyed) leave(); // it disconnected during authentication, and no event reports that later
  const ended = AbortSignal.any([signal, gone.signal]);
  let last = shown;
  try {
    await write(response, `retry: ${RETRY_MS}\n\n`, ended);
    for (let view = await read(); view !== undefined; view = await read()) {
      const version = versionOf(view);
      if (version !== last) await write(response, eventOf('content', view.content.text, version), ended);
      last = version;
      // Also the heartbeat: proxies close idle connections.
      await write(response, eventOf('checked', view.checkedAt, version), ended);
      await sleep(intervalMs, undefined, { signal: ended });
    }
  } catch {
    // The viewer disconnected or was too slow, or the view failed. The browser reconnects and then receives the reason.
    if (!signal.aborted) {
      response.destroy();
      return;
    }
  } finally {
    socket.off('close', leave);
  }
  response.end();
}

/** @see https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream */
function eventOf(event: string, data: string, id: string): string {
  const lines = data.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`);
  return `event: ${event}\nid: ${id}\n${lines.join('')}\n`;
}

/** Resolves when the socket has taken the text: a viewer that does not read costs the memory of one event at most. */
async function write(response: ServerResponse, text: string, ended: AbortSignal): Promise<void> {
  ended.throwIfAborted();
  if (response.write(text)) return;
  const signal = AbortSignal.any([ended, AbortSignal.timeout(WRITE_TIMEOUT_MS)]);
  await once(response, 'drain', { signal });
}

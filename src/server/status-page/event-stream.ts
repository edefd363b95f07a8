/** Server-Sent Events that update open pages. */
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

import { versionOf, type View } from './document.ts';

export interface EventStreamDeps {
  readonly view: () => Promise<View>;
  /** Whether the viewer still has access. */
  readonly mayStillLook: () => Promise<boolean>;
  /** The version that the page already shows. */
  readonly seen: string;
  /** The interval between two reads of the view, in milliseconds. */
  readonly everyMs: number;
}

/** The write timeout: a browser that reads nothing for this time counts as disconnected. In milliseconds. */
const PATIENCE_MS = 30_000;

/** The browser reconnects after this time, in milliseconds. */
const RETRY_MS = 3_000;

/**
 * Writes events until the viewer disconnects or loses access, or `signal` aborts. Then ends `response`. Never throws.
 */
export async function streamEvents(
  response: ServerResponse,
  { view, mayStillLook, seen, everyMs }: EventStreamDeps,
  signal: AbortSignal,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => {
    gone.abort();
  });
  if (response.destroyed) gone.abort(); // it disconnected during authentication, and no event reports that later
  const over = AbortSignal.any([signal, gone.signal]);
  let shown = seen;
  try {
    await write(response, `retry: ${RETRY_MS}\n\n`, over);
    while (await mayStillLook()) {
      const seenNow = await view();
      const version = versionOf(seenNow);
      if (version !== shown) await write(response, eventOf('content', seenNow.content.text, version), over);
      shown = version;
      // Also the heartbeat: proxies close idle connections.
      await write(response, eventOf('checked', seenNow.checkedAt, version), over);
      await sleep(everyMs, undefined, { signal: over });
    }
  } catch {
    // The viewer disconnected or was too slow, or the view failed. The browser reconnects and then receives the reason.
    if (!signal.aborted) {
      response.destroy();
      return;
    }
  }
  response.end();
}

/** @see https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream */
function eventOf(event: string, data: string, id: string): string {
  const lines = data.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`);
  return `event: ${event}\nid: ${id}\n${lines.join('')}\n`;
}

/** Resolves when the socket has taken the text: a viewer that does not read costs the memory of one event at most. */
async function write(response: ServerResponse, text: string, over: AbortSignal): Promise<void> {
  over.throwIfAborted();
  if (response.write(text)) return;
  const signal = AbortSignal.any([over, AbortSignal.timeout(PATIENCE_MS)]);
  await new Promise<void>((resolve, reject) => {
    const stop = () => {
      reject(new Error('it takes nothing'));
    };
    signal.addEventListener('abort', stop, { once: true });
    response.once('drain', () => {
      signal.removeEventListener('abort', stop);
      resolve();
    });
  });
}

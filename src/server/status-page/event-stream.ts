/** Server-Sent Events: what has changed, to pages that are open. */
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

import { versionOf, type View } from './document.ts';

export interface EventStreamDeps {
  readonly view: () => Promise<View>;
  /** Whether the viewer still may look. */
  readonly mayStillLook: () => Promise<boolean>;
  /** The version that the page shows already. */
  readonly seen: string;
  /** From one look to the next, in milliseconds. */
  readonly everyMs: number;
}

/** A browser that takes nothing for so long is gone, or as good as gone. Milliseconds. */
const PATIENCE_MS = 30_000;

/** A browser whose connection broke comes back after so many milliseconds. */
const RETRY_MS = 3_000;

/** Writes until the viewer goes, may look no more, or `signal` aborts; then ends `response`. Never throws. */
export async function streamEvents(
  response: ServerResponse,
  { view, mayStillLook, seen, everyMs }: EventStreamDeps,
  signal: AbortSignal,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => {
    gone.abort();
  });
  if (response.destroyed) gone.abort(); // it went while somebody found out who it is, and nothing tells of that again
  const over = AbortSignal.any([signal, gone.signal]);
  let shown = seen;
  try {
    await write(response, `retry: ${RETRY_MS}\n\n`, over);
    while (await mayStillLook()) {
      const seenNow = await view();
      const version = versionOf(seenNow);
      if (version !== shown) await write(response, eventOf('content', seenNow.content.text, version), over);
      shown = version;
      // The sign of life, too: proxies cut what is silent.
      await write(response, eventOf('checked', seenNow.checkedAt, version), over);
      await sleep(everyMs, undefined, { signal: over });
    }
  } catch {
    // The viewer went, was too slow, or cannot be shown anything. It comes back by itself, and is told why then.
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

/** Resolves when it is on its way; a viewer who does not read costs no more memory than one event. */
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

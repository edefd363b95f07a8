/** What can befall watches: line by line, as the API server writes them. */
import type { IncomingMessage, ServerResponse } from 'node:http';

import { answer, pass, type Exchange } from '../api-proxy-exchange.ts';
import { statusOf, type Forward } from './request-faults.ts';

export type WatchFault =
  /** So many events are collected, or as many as come within `REORDER_MS`, and told from the last to the first. */
  | { readonly kind: 'reorder'; readonly events: number }
  | { readonly kind: 'drop-bookmarks' }
  /** Each line is told twice. */
  | { readonly kind: 'duplicate' }
  /** Each event is followed by its opposite under the resourceVersion 1: what is gone is back, what is there is gone. */
  | { readonly kind: 'go-back' }
  /** The next line ends in its middle, and the connection breaks. */
  | { readonly kind: 'cut-in-line' }
  /** Watches that are open end as they should; new ones are answered 410. */
  | { readonly kind: 'gone' }
  /** Watches, open and new, are told an ERROR event 410, and end. */
  | { readonly kind: 'error-event' }
  /** Watches, open and new, break. */
  | { readonly kind: 'break' }
  /** Watches fall silent, and stay open. */
  | { readonly kind: 'freeze' };

export interface WatchHarm {
  /** How many lines or watches it has met. */
  readonly met: () => number;
  /** Watches are as they should be again. What was held back is told now. */
  readonly end: () => void;
}

export interface WatchFaults {
  /** From now on, for watches of paths that match; default: for all. */
  readonly harm: (fault: WatchFault, matches?: (path: string) => boolean) => WatchHarm;
  /** How many are open. */
  readonly open: () => number;
}

interface Active {
  readonly fault: WatchFault;
  readonly matches: (path: string) => boolean;
  readonly onMet: () => void;
  readonly ended: Promise<unknown>;
}

/** A watch as its client sees it. */
interface Reader {
  readonly path: string;
  readonly response: ServerResponse;
  /** Held back to be told in another order. */
  readonly held: string[];
  /** Its last line was cut, and it is about to break. */
  isCut: boolean;
}

/** How long events are waited for to change places with, in milliseconds. */
const REORDER_MS = 300;

const EXPIRED = `${JSON.stringify({ type: 'ERROR', object: statusOf(410) })}\n`;

export function createWatchFaults() {
  const active = new Set<Active>();
  const readers = new Set<Reader>();
  const activeFor = (path: string) => [...active].filter(({ matches }) => matches(path));

  const harm: WatchFaults['harm'] = (fault, matches = () => true) => {
    let met = 0;
    const ended = Promise.withResolvers<undefined>();
    const one: Active = { fault, matches, onMet: () => (met += 1), ended: ended.promise };
    active.add(one);
    for (const reader of readers) if (matches(reader.path)) strike(one, reader);
    return {
      met: () => met,
      end: () => {
        active.delete(one);
        ended.resolve(undefined);
        for (const reader of readers) tellHeld(reader);
      },
    };
  };

  const follow = async (path: string, from: IncomingMessage, response: ServerResponse): Promise<void> => {
    const reader: Reader = { path, response, held: [], isCut: false };
    readers.add(reader);
    const closed = new Promise((resolve) => response.once('close', resolve));
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    for (const one of activeFor(path)) strike(one, reader);
    followLines(from, async (line) => {
      await thawed(activeFor, path);
      if (line !== undefined) {
        send(reader, line, activeFor(path));
        return;
      }
      tellHeld(reader);
      response.end();
    });
    await closed;
    readers.delete(reader);
  };

  return {
    faults: { harm, open: () => readers.size } satisfies WatchFaults,
    handle: async (path: string, exchange: Exchange, forward: Forward): Promise<void> => {
      const { response } = exchange;
      const gone = activeFor(path).find(({ fault }) => fault.kind === 'gone');
      if (gone !== undefined) {
        gone.onMet();
        answer(response, 410, statusOf(410));
        return;
      }
      const from = await forward(exchange);
      const isJson = from.headers['content-type']?.startsWith('application/json') === true;
      if (from.statusCode === 200 && isJson) await follow(path, from, response);
      else await pass(from, response);
    },
  };
}

/** What a fault does to a watch as a whole. */
function strike({ fault, onMet }: Active, { response }: Reader): void {
  if (response.writableEnded) return;
  if (fault.kind === 'gone') response.end();
  else if (fault.kind === 'error-event') response.end(EXPIRED);
  else if (fault.kind === 'break') response.socket?.destroy();
  else return;
  if (fault.kind !== 'gone') onMet(); // of those it is the next one that meets it
}

/** Freezes end one by one, and another may have begun meanwhile. */
async function thawed(activeFor: (path: string) => readonly Active[], path: string): Promise<void> {
  for (;;) {
    const frozen = activeFor(path).find(({ fault }) => fault.kind === 'freeze');
    if (frozen === undefined) return;
    frozen.onMet();
    await frozen.ended;
  }
}

/** One after another; undefined: the watch has ended. */
function followLines(from: IncomingMessage, next: (line: string | undefined) => Promise<void>): void {
  let turn: Promise<unknown> = Promise.resolve();
  let rest = '';
  const inTurn = (line: string | undefined) => {
    turn = turn.then(() => next(line));
  };
  from.setEncoding('utf8');
  from.on('data', (chunk: string) => {
    const lines = `${rest}${chunk}`.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line !== '') inTurn(`${line}\n`);
  });
  // It ends without an error, too, when the client left and so it was given up.
  from.on('error', () => undefined);
  from.on('close', () => {
    inTurn(undefined);
  });
}

/** A line meets the faults one after another, each with what the one before made of it. */
function send(reader: Reader, line: string, faults: readonly Active[]): void {
  if (reader.isCut || reader.response.writableEnded) return;
  let lines: readonly string[] = [line];
  for (const one of faults) {
    if (one.fault.kind === 'cut-in-line') {
      reader.isCut = true;
      one.onMet();
      reader.response.write(line.slice(0, line.length / 2), () => reader.response.socket?.destroy());
      return;
    }
    lines = lines.flatMap((each) => changed(one, reader, each));
  }
  for (const each of lines) reader.response.write(each);
}

function changed({ fault, onMet }: Active, reader: Reader, line: string): readonly string[] {
  switch (fault.kind) {
    case 'drop-bookmarks':
      if (typeOf(line) !== 'BOOKMARK') return [line];
      onMet();
      return [];
    case 'duplicate':
      onMet();
      return [line, line];
    case 'go-back': {
      if (typeOf(line) === 'BOOKMARK') return [line];
      onMet();
      return [line, oppositeOf(line)];
    }
    case 'reorder': {
      if (reader.held.push(line) < fault.events) {
        if (reader.held.length === 1) setTimeout(tellHeld, REORDER_MS, reader).unref();
        return [];
      }
      onMet();
      return reader.held.splice(0).toReversed();
    }
    case 'cut-in-line':
    case 'gone':
    case 'error-event':
    case 'break':
    case 'freeze':
      return [line]; // nothing that is done to a line
  }
}

function tellHeld({ held, response }: Reader): void {
  for (const line of held.splice(0).toReversed()) if (!response.writableEnded) response.write(line);
}

interface Line {
  readonly type: string;
  readonly object: { readonly metadata?: object };
}

const typeOf = (line: string): string => (JSON.parse(line) as Line).type; // the API server writes nothing else

function oppositeOf(line: string): string {
  const { type, object } = JSON.parse(line) as Line;
  const metadata = { ...object.metadata, resourceVersion: '1' };
  const opposite = { type: type === 'DELETED' ? 'ADDED' : 'DELETED', object: { ...object, metadata } };
  return `${JSON.stringify(opposite)}\n`;
}

/** Faults of watches, injected line by line into the API server's responses. */
import type { IncomingMessage, ServerResponse } from 'node:http';

import { answer, pass, type Exchange } from '../api-proxy-exchange.ts';
import { statusOf, type Forward } from './request-faults.ts';

export type WatchFault =
  /** Collects this number of events, or the events of `REORDER_MS`, and sends them in reverse order. */
  | { readonly kind: 'reorder'; readonly events: number }
  | { readonly kind: 'drop-bookmarks' }
  /** Sends each line twice. */
  | { readonly kind: 'duplicate' }
  /**
   * Adds to each event its opposite with the resourceVersion 1: deleted objects come back, existing objects disappear.
   */
  | { readonly kind: 'go-back' }
  /** Cuts the next line in the middle, and breaks the connection. */
  | { readonly kind: 'cut-in-line' }
  /** Ends open watches normally; answers new ones with 410. */
  | { readonly kind: 'gone' }
  /** Sends open and new watches an ERROR event 410, and ends them. */
  | { readonly kind: 'error-event' }
  /** Breaks open and new watches. */
  | { readonly kind: 'break' }
  /** Sends watches nothing more, and keeps them open. */
  | { readonly kind: 'freeze' };

export interface WatchHarm {
  /** Number of lines or watches that met the fault. */
  readonly met: () => number;
  /** Ends the fault, and sends all events that were held back. */
  readonly end: () => void;
}

export interface WatchFaults {
  /** Applies the fault to watches whose path matches; default: all. */
  readonly harm: (fault: WatchFault, matches?: (path: string) => boolean) => WatchHarm;
}

interface Active {
  readonly fault: WatchFault;
  readonly matches: (path: string) => boolean;
  readonly onMet: () => void;
  readonly ended: Promise<unknown>;
}

/** The client's side of a watch. */
interface Reader {
  readonly path: string;
  readonly response: ServerResponse;
  /** Events held back for reordering. */
  readonly held: string[];
  /** Its last line was cut, and the connection is about to break. */
  isCut: boolean;
}

/** Waiting time for events to reorder, in milliseconds. */
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
    faults: { harm } satisfies WatchFaults,
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

/** Applies the faults that concern a watch as a whole. */
function strike({ fault, onMet }: Active, { response }: Reader): void {
  if (response.writableEnded) return;
  if (fault.kind === 'gone') response.end();
  else if (fault.kind === 'error-event') response.end(EXPIRED);
  else if (fault.kind === 'break') response.socket?.destroy();
  else return;
  if (fault.kind !== 'gone') onMet(); // with `gone`, the next watch meets the fault, not this one
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

/** Calls `next` for each line in turn; undefined: the watch has ended. */
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
  // This error also occurs without a fault, when the client left and the proxy aborted the request.
  from.on('error', () => undefined);
  from.on('close', () => {
    inTurn(undefined);
  });
}

/** Applies the faults to a line in turn, each to the output of the previous one. */
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
      return [line]; // this fault does not change lines
  }
}

function tellHeld({ held, response }: Reader): void {
  for (const line of held.splice(0).toReversed()) if (!response.writableEnded) response.write(line);
}

interface Line {
  readonly type: string;
  readonly object: { readonly metadata?: object };
}

// the API server writes one JSON event on each line
const typeOf = (line: string): string => (JSON.parse(line) as Line).type;

function oppositeOf(line: string): string {
  const { type, object } = JSON.parse(line) as Line;
  const metadata = { ...object.metadata, resourceVersion: '1' };
  const opposite = { type: type === 'DELETED' ? 'ADDED' : 'DELETED', object: { ...object, metadata } };
  return `${JSON.stringify(opposite)}\n`;
}

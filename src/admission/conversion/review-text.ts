/** Finds the objects in the text of a ConversionReview, because parsing tens of megabytes in one step would block for a second. */
import { endOfString } from '../../json/json.ts';
import { InvalidReview } from '../review/request.ts';

export interface Span {
  readonly start: number;
  readonly end: number;
}

/** Called between two objects. Returns a promise to await, or undefined to continue immediately. */
export type Breathe = () => Promise<void> | undefined;

interface Cursor {
  readonly text: string;
  at: number;
}

interface SplitReview {
  /** The text with an empty list of objects: valid JSON if and only if the rest of the text is. */
  readonly envelope: string;
  readonly objects: readonly Span[];
}

/** @throws SyntaxError or InvalidReview */
export async function splitReview(text: string, breathe: Breathe): Promise<SplitReview> {
  const cursor: Cursor = { text, at: 0 };
  let found: SplitReview = { envelope: text, objects: [] };
  if (!startsWith(cursor, '{')) return found;
  await eachMember(cursor, async (outer) => {
    if (outer !== 'request' || !startsWith(cursor, '{')) {
      skipValue(cursor);
      return;
    }
    await eachMember(cursor, async (inner) => {
      if (inner === 'objects' && startsWith(cursor, '[')) {
        const start = cursor.at;
        const objects = await readElements(cursor, breathe);
        // The last duplicate key wins, as in JSON.parse.
        found = { envelope: `${text.slice(0, start)}[]${text.slice(cursor.at)}`, objects };
      } else {
        skipValue(cursor);
      }
    });
  });
  return found;
}

async function eachMember(cursor: Cursor, read: (key: string) => Promise<void>): Promise<void> {
  expect(cursor, '{');
  if (accept(cursor, '}')) return;
  do {
    const key = readKey(cursor);
    expect(cursor, ':');
    await read(key);
  } while (accept(cursor, ','));
  expect(cursor, '}');
}

async function readElements(cursor: Cursor, breathe: Breathe): Promise<readonly Span[]> {
  const spans: Span[] = [];
  expect(cursor, '[');
  if (accept(cursor, ']')) return spans;
  do {
    if (spans.length > FEW_OBJECTS + cursor.text.length / SHORTEST_OBJECT) throw new InvalidReview(TOO_SHORT);
    await breathe();
    skipSpace(cursor);
    const start = cursor.at;
    skipValue(cursor);
    spans.push({ start, end: cursor.at });
  } while (accept(cursor, ','));
  expect(cursor, ']');
  return spans;
}

/** A forged list of short items would use more memory than its text: about 50 bytes for each. */
const SHORTEST_OBJECT = '{"apiVersion":"a/v1","kind":"B"},'.length;
const FEW_OBJECTS = 1_000;
const TOO_SHORT =
  'request.objects: the items are too short to be objects: give each an apiVersion and a kind';

const STRUCTURE = /["[\]{}]/g;
/** Numbers and literals. JSON.parse validates them later. */
const SCALAR = /[^\s,\]}]+/y;
const SPACE = /[ \t\n\r]*/y;

/** Skips a value by counting brackets outside of strings. JSON.parse checks later that they match. */
function skipValue(cursor: Cursor): void {
  skipSpace(cursor);
  const { text } = cursor;
  const first = text[cursor.at];
  if (first === '"') {
    skipString(cursor);
  } else if (first === '{' || first === '[') {
    let depth = 0;
    do {
      STRUCTURE.lastIndex = cursor.at;
      const at = STRUCTURE.exec(text)?.index;
      if (at === undefined) throw unexpected({ text, at: text.length });
      cursor.at = at;
      if (text[at] === '"') {
        skipString(cursor);
      } else {
        depth += text[at] === '{' || text[at] === '[' ? 1 : -1;
        cursor.at += 1;
      }
    } while (depth > 0);
  } else {
    SCALAR.lastIndex = cursor.at;
    const scalar = SCALAR.exec(text)?.[0];
    if (scalar === undefined) throw unexpected(cursor);
    cursor.at += scalar.length;
  }
}

function skipString(cursor: Cursor): void {
  const { text } = cursor;
  const end = endOfString(text, cursor.at);
  if (end === text.length) throw unexpected({ text, at: end });
  cursor.at = end + 1;
}

function readKey(cursor: Cursor): string {
  if (!startsWith(cursor, '"')) throw unexpected(cursor);
  const start = cursor.at;
  skipString(cursor);
  return String(JSON.parse(cursor.text.slice(start, cursor.at)));
}

function skipSpace(cursor: Cursor): void {
  SPACE.lastIndex = cursor.at;
  cursor.at += SPACE.exec(cursor.text)?.[0].length ?? 0;
}

function startsWith(cursor: Cursor, character: string): boolean {
  skipSpace(cursor);
  return cursor.text[cursor.at] === character;
}

function accept(cursor: Cursor, character: string): boolean {
  if (!startsWith(cursor, character)) return false;
  cursor.at += 1;
  return true;
}

function expect(cursor: Cursor, character: string): void {
  if (!accept(cursor, character)) throw unexpected(cursor);
}

function unexpected({ text, at }: Cursor): SyntaxError {
  const found = at < text.length ? JSON.stringify(text[at]) : 'the end';
  return new SyntaxError(`unexpected ${found} at position ${at}`);
}

/**
 * Finds the objects in the text of a ConversionReview without parsing it as a whole: a list of all objects of a kind may have
 * tens of megabytes, and whoever parses that at once does nothing else for a second.
 */

/** A range of a text. */
export interface Span {
  readonly start: number;
  /** Behind its last character. */
  readonly end: number;
}

export interface ReviewText {
  /** The text with an empty list in the place of `request.objects`. It is JSON if and only if the text around them is. */
  readonly envelope: string;
  /** The elements of `request.objects`; each still has to be parsed. */
  readonly objects: readonly Span[];
}

/** Called between two objects: a promise to wait for, or undefined to go on at once. */
export type Breathe = () => Promise<void> | undefined;

interface Cursor {
  readonly text: string;
  at: number;
}

/** @throws SyntaxError when the text is no JSON; what is wrong within an element or around the list shows when that is parsed */
export async function splitReview(text: string, breathe: Breathe): Promise<ReviewText> {
  const cursor: Cursor = { text, at: 0 };
  let list: { readonly span: Span; readonly objects: readonly Span[] } | undefined;
  if (!startsWith(cursor, '{')) return { envelope: text, objects: [] };
  await eachMember(cursor, async (outer) => {
    if (outer !== 'request' || !startsWith(cursor, '{')) {
      skipValue(cursor);
      return;
    }
    await eachMember(cursor, async (inner) => {
      if (inner === 'objects' && startsWith(cursor, '[')) {
        const start = cursor.at;
        const objects = await readElements(cursor, breathe);
        list = { span: { start, end: cursor.at }, objects }; // of a key that is there twice the last one counts, as in JSON.parse
      } else {
        skipValue(cursor);
      }
    });
  });
  return list === undefined ? { envelope: text, objects: [] } : cutOut(text, list);
}

function cutOut(
  text: string,
  { span, objects }: { readonly span: Span; readonly objects: readonly Span[] },
): ReviewText {
  return { envelope: `${text.slice(0, span.start)}[]${text.slice(span.end)}`, objects };
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
    await breathe();
    skipSpace(cursor);
    const start = cursor.at;
    skipValue(cursor);
    spans.push({ start, end: cursor.at });
  } while (accept(cursor, ','));
  expect(cursor, ']');
  return spans;
}

const STRUCTURE = /["[\]{}]/g;
/** Numbers and words; whether they are any shows when they are parsed. */
const SCALAR = /[^\s,\]}]+/y;
const SPACE = /[ \t\n\r]*/y;

/** By counting brackets outside of strings: whether they match in kind shows when the value is parsed. */
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
  let quote = text.indexOf('"', cursor.at + 1);
  while (quote !== -1 && isEscaped(text, quote)) quote = text.indexOf('"', quote + 1);
  if (quote === -1) throw unexpected({ text, at: text.length });
  cursor.at = quote + 1;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text[at - 1 - backslashes] === '\\') backslashes += 1;
  return backslashes % 2 === 1;
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

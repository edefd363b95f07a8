import type { CelPosition } from './cel-error.ts';

/** The place of the n-th UTF-16 unit. */
export function positionOf(source: string, at: number): CelPosition {
  const before = source.slice(0, at).split('\n');
  return { line: before.length, column: Array.from(before.at(-1) ?? '').length + 1 };
}

const SPACE = /\s/;

/** The next place that is neither space nor comment nor one of the characters to skip. */
export function nextToken(source: string, from: number, skipped = ''): number {
  let at = from;
  while (at < source.length) {
    const character = source.charAt(at);
    if (SPACE.test(character) || skipped.includes(character)) at += 1;
    else if (source.startsWith('//', at)) at = endOfLine(source, at);
    else break;
  }
  return at;
}

function endOfLine(source: string, from: number): number {
  const end = source.indexOf('\n', from);
  return end === -1 ? source.length : end;
}

const QUOTES = ['"""', "'''", '"', "'"];
const WORD = /\w+/y;
const TEXT_PREFIX = /^[bBrR]{0,2}$/;

/** Something of an expression that is no space: a text with its quotes, a word or number, or a single character. */
export interface Token {
  readonly text: string;
  readonly at: number;
}

/** Cuts an expression into its tokens, as far as that takes no understanding of it. */
export function* tokensOf(source: string): Generator<Token> {
  let at = nextToken(source, 0);
  while (at < source.length) {
    const text = tokenAt(source, at);
    yield { text, at };
    at = nextToken(source, at + text.length);
  }
}

function tokenAt(source: string, at: number): string {
  WORD.lastIndex = at;
  const word = WORD.exec(source)?.[0] ?? '';
  const quotes = at + word.length;
  const quote = QUOTES.find((candidate) => source.startsWith(candidate, quotes));
  if (quote !== undefined && TEXT_PREFIX.test(word))
    return source.slice(at, endOfText(source, quotes, quote));
  return word === '' ? source.charAt(at) : word;
}

function endOfText(source: string, open: number, quote: string): number {
  let at = open + quote.length;
  while (at < source.length && !source.startsWith(quote, at)) at += source.charAt(at) === '\\' ? 2 : 1;
  return at + quote.length;
}

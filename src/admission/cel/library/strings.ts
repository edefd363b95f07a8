import { CelError, noSuchOverload } from '../cel-error.ts';
import { traversal } from '../frame.ts';
import type { CelList } from '../values.ts';
import { define } from './define.ts';
import { codePoints, quoteText, textSize, trimSpace } from './text.ts';

const once = (text: string) => traversal(text.length);
const twice = (text: string) => traversal(2 * text.length);

const outOfRange = (index: bigint) => new CelError(`index out of range: ${index}`);

/** @throws CelError when there is no such position */
function checkIndex(index: bigint, most: number): number {
  if (index < 0n || index > most) throw outOfRange(index);
  return Number(index);
}

function indexOf(text: string, part: string, offset = 0n): bigint {
  if (part === '') return offset;
  if (offset < 0n) throw outOfRange(offset);
  const before = unitsBefore(text, Number(offset));
  const found = text.indexOf(part, before);
  return found === -1 ? -1n : BigInt(textSize(text.slice(0, found)));
}

function lastIndexOf(text: string, part: string, offset?: bigint): bigint {
  const size = textSize(text);
  if (part === '') return offset ?? BigInt(size);
  if (offset === undefined) return lastIndexOf(text, part, BigInt(Math.max(size - 1, 0)));
  if (offset < 0n) throw outOfRange(offset);
  if (offset >= size) return -1n;
  const found = text.lastIndexOf(part, unitsBefore(text, Number(offset)));
  return found === -1 ? -1n : BigInt(textSize(text.slice(0, found)));
}

/** How many UTF-16 units the first characters take. */
const unitsBefore = (text: string, characters: number) =>
  textSize(text) === text.length
    ? Math.min(characters, text.length)
    : codePoints(text).slice(0, characters).join('').length;

function substring(text: string, start: bigint, end?: bigint): string {
  const characters = codePoints(text);
  if (end !== undefined && start > end) {
    throw new CelError(`invalid substring range. start: ${start}, end: ${end}`);
  }
  const from = checkIndex(start, characters.length);
  const to = end === undefined ? characters.length : checkIndex(end, characters.length);
  return characters.slice(from, to).join('');
}

/** At most `limit` times if that is not negative; an empty text stands before, between and behind all characters. */
function replace(text: string, old: string, fresh: string, limit = -1n): string {
  const parts = old === '' ? ['', ...codePoints(text), ''] : text.split(old);
  const replaced = limit < 0n || limit > parts.length - 1 ? parts.length - 1 : Number(limit);
  return [...parts.slice(0, replaced), parts.slice(replaced).join(old)].join(fresh);
}

/** Of what `replace` reads and makes. */
const replaceCost = (text: string, old: string, fresh: string) =>
  fresh.length <= old.length ? twice(text) : twice(text) + traversal((text.length / (old.length || 1)) * fresh.length);

function split(text: string, separator: string, limit = -1n): readonly string[] {
  if (limit === 0n) return [];
  const parts = separator === '' ? codePoints(text) : text.split(separator);
  if (limit < 0n || limit >= parts.length) return parts;
  const last = Number(limit) - 1;
  return [...parts.slice(0, last), parts.slice(last).join(separator)];
}

function join(list: CelList, separator = ''): string {
  if (!list.every((item) => typeof item === 'string')) throw noSuchOverload('join');
  return list.join(separator);
}

function joinCost(list: CelList, separator = ''): number {
  const sizes = list.map((item) => separator.length + (typeof item === 'string' ? item.length : 0));
  return 1 + traversal(2 * sizes.reduce((sum, size) => sum + size, 0));
}

const lower = (text: string) => text.replaceAll(/[A-Z]+/g, (run) => run.toLowerCase());
const upper = (text: string) => text.replaceAll(/[a-z]+/g, (run) => run.toUpperCase());

/** cel-go's extended strings, in the version that Kubernetes has; `format` stands apart. */
export const strings = [
  define(
    '<string>.charAt(int): string',
    (text, index) => {
      const characters = codePoints(text);
      return characters[checkIndex(index, characters.length)] ?? '';
    },
    (text) => once(text),
  ),
  define('<string>.indexOf(string): int', (text, part) => indexOf(text, part), once),
  define('<string>.indexOf(string, int): int', indexOf, once),
  define('<string>.lastIndexOf(string): int', (text, part) => lastIndexOf(text, part), once),
  define('<string>.lastIndexOf(string, int): int', lastIndexOf, once),
  define('<string>.lowerAscii(): string', lower, once),
  define('<string>.upperAscii(): string', upper, once),
  define('<string>.trim(): string', trimSpace, once),
  define('<string>.replace(string, string): string', (text, old, fresh) => replace(text, old, fresh), replaceCost),
  define('<string>.replace(string, string, int): string', replace, replaceCost),
  define('<string>.split(string): list<string>', (text, separator) => split(text, separator), twice),
  define('<string>.split(string, int): list<string>', split, twice),
  define('<string>.substring(int): string', (text, start) => substring(text, start), once),
  define('<string>.substring(int, int): string', substring, once),
  define('<list<string>>.join(): string', (list) => join(list), (list) => joinCost(list)),
  define('<list<string>>.join(string): string', join, joinCost),
  define('strings.quote(string): string', quoteText, once),
];

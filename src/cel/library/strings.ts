import { CelError, noSuchOverload } from '../cel-error.ts';
import { type CelList, charge, type Frame, matching, traversal } from '../values/values.ts';
import { compilePattern, matches } from '../regular-expression.ts';
import { messageOf } from '../../json/abort.ts';
import { pointerPart } from '../../json/json-patch.ts';
import { define, defineWithFrame } from './define.ts';
import { codePoints, quoteText, textSize, trimSpace, unitsOf, widthAt } from './text.ts';

const once = (text: string) => traversal(text.length);
const twice = (text: string) => traversal(2 * text.length);

/** The cost of a text search, which may be proportional to the product of both lengths. */
const search = (text: string, part: string) => traversal(text.length) * Math.max(1, traversal(part.length));

const outOfRange = (index: bigint) => new CelError(`index out of range: ${index}`);

function startOf(text: string, index: bigint): number {
  const start = index < 0n ? undefined : unitsOf(text, Number(index));
  if (start === undefined) throw outOfRange(index);
  return start;
}

function charAt(text: string, index: bigint): string {
  const start = startOf(text, index);
  return text.slice(start, start + widthAt(text, start));
}

const indexAt = (text: string, unit: number) => (unit === -1 ? -1n : BigInt(textSize(text.slice(0, unit))));

function indexOf(text: string, part: string, offset = 0n): bigint {
  if (offset < 0n) throw outOfRange(offset);
  if (part === '') return atMost(offset, text);
  const start = unitsOf(text, Number(offset));
  return start === undefined ? -1n : indexAt(text, text.indexOf(part, start));
}

/** An empty text is found at the offset, or at the end. */
function atMost(offset: bigint | undefined, text: string): bigint {
  const size = BigInt(textSize(text));
  return offset === undefined || offset > size ? size : offset;
}

function lastIndexOf(text: string, part: string, offset?: bigint): bigint {
  if (offset !== undefined && offset < 0n) throw outOfRange(offset);
  if (part === '') return atMost(offset, text);
  if (offset === undefined) return indexAt(text, text.lastIndexOf(part));
  const start = unitsOf(text, Number(offset));
  if (start === undefined || start === text.length) return -1n;
  return indexAt(text, text.lastIndexOf(part, start));
}

function substring(text: string, start: bigint, end?: bigint): string {
  if (end !== undefined && start > end) {
    throw new CelError(`invalid substring range. start: ${start}, end: ${end}`);
  }
  const from = startOf(text, start);
  return text.slice(from, end === undefined ? undefined : startOf(text, end));
}

/** All occurrences if `limit` is negative. An empty `old` matches before, between and after all characters. */
function replace(frame: Frame, text: string, old: string, fresh: string, limit = -1n): string {
  charge(frame, twice(text));
  const parts = old === '' ? ['', ...codePoints(text), ''] : text.split(old);
  const replaced = limit < 0n || limit > parts.length - 1 ? parts.length - 1 : Number(limit);
  charge(frame, replaced + traversal(replaced * fresh.length)); // charge first: the result may be far longer
  return [...parts.slice(0, replaced), parts.slice(replaced).join(old)].join(fresh);
}

function split(frame: Frame, text: string, separator: string, limit = -1n): readonly string[] {
  charge(frame, twice(text));
  if (limit === 0n) return [];
  const parts = separator === '' ? codePoints(text) : text.split(separator);
  charge(frame, parts.length);
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
  return 1 + list.length + traversal(2 * sizes.reduce((sum, size) => sum + size, 0));
}

const lower = (text: string) => text.replaceAll(/[A-Z]+/g, (run) => run.toLowerCase());
const upper = (text: string) => text.replaceAll(/[a-z]+/g, (run) => run.toUpperCase());

/** The extended strings of cel-go, in the version that Kubernetes uses. `format` is in `string-format.ts`. */
export const strings = [
  define('<string>.charAt(int): string', charAt, once),
  define('<string>.indexOf(string): int', indexOf, search),
  define('<string>.indexOf(string, int): int', indexOf, search),
  define('<string>.lastIndexOf(string): int', lastIndexOf, search),
  define('<string>.lastIndexOf(string, int): int', lastIndexOf, search),
  define('<string>.lowerAscii(): string', lower, once),
  define('<string>.upperAscii(): string', upper, once),
  define('<string>.trim(): string', trimSpace, once),
  defineWithFrame('<string>.replace(string, string): string', replace),
  defineWithFrame('<string>.replace(string, string, int): string', replace),
  defineWithFrame('<string>.split(string): list<string>', split),
  defineWithFrame('<string>.split(string, int): list<string>', split),
  define('<string>.substring(int): string', substring, once),
  define('<string>.substring(int, int): string', substring, once),
  define('<list<string>>.join(): string', join, joinCost),
  define('<list<string>>.join(string): string', join, joinCost),
  define('strings.quote(string): string', quoteText, once),
];

export const jsonpatch = [
  define('jsonpatch.escapeKey(string): string', (key) => pointerPart(key).slice('/'.length), once),
];

function ofPattern<Result>(run: () => Result, problem: string): Result {
  try {
    return run();
  } catch (cause) {
    throw new CelError(`${problem}${messageOf(cause)}`, { cause });
  }
}

const MATCH_COST = 10;

/** Skips an empty match directly after the previous match, as Go does. */
function findAll(frame: Frame, text: string, pattern: string, limit = -1n): readonly string[] {
  charge(frame, 1 + matching(text, pattern));
  const matcher = ofPattern(() => compilePattern(pattern), 'Illegal regex: ').matcher(text);
  const found: string[] = [];
  let end = -1;
  while ((limit < 0n || found.length < limit) && matcher.find()) {
    charge(frame, MATCH_COST);
    if (matcher.start() !== matcher.end() || matcher.start() !== end) found.push(matcher.group() ?? '');
    end = matcher.end();
  }
  return found;
}

const matchesOrFail = (text: string, pattern: string): boolean => ofPattern(() => matches(text, pattern), '');

/** Patterns are RE2: time is linear in the length of the text. `matches` finds the pattern anywhere in the text. */
export const regex = [
  defineWithFrame(
    '<string>.find(string): string',
    (frame, text, pattern) => findAll(frame, text, pattern, 1n)[0] ?? '',
  ),
  defineWithFrame('<string>.findAll(string): list<string>', findAll),
  defineWithFrame('<string>.findAll(string, int): list<string>', findAll),
  define('matches(string, string): bool', matchesOrFail, matching),
  define('<string>.matches(string): bool', matchesOrFail, matching),
];

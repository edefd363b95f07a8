import { CelError } from '../cel-error.ts';
import { CEL_TYPE, MOST_UINT, parsing, traversal } from '../values/values.ts';
import { type CelSemver, define } from './define.ts';
import { succeeds } from './text.ts';

const NUMBER = '(0|[1-9]\\d*)';
const VERSION = new RegExp(`^${NUMBER}\\.${NUMBER}\\.${NUMBER}(?:-([^+]*))?(?:\\+(.*))?$`, 's');
const PRERELEASE = /^(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)$/;
const BUILD = /^[0-9A-Za-z-]+$/;

function parseSemver(text: string): CelSemver {
  const [match, major = '', minor = '', patch = '', pre, build] = VERSION.exec(text) ?? [];
  const prerelease = pre?.split('.') ?? [];
  const numbers = [major, minor, patch].map(BigInt) as [bigint, bigint, bigint]; // three matched digits
  if (
    match === undefined ||
    numbers.some((number) => number > MOST_UINT) ||
    !prerelease.every((part) => PRERELEASE.test(part)) ||
    !(build?.split('.') ?? []).every((part) => BUILD.test(part))
  ) {
    throw new CelError(`${JSON.stringify(text)} is not a semantic version`);
  }
  const identity = [numbers.join('.'), ...(pre === undefined ? [] : [pre])].join('-');
  return { [CEL_TYPE]: 'kubernetes.Semver', identity, numbers, prerelease };
}

/** Removes a leading `v` and leading zeroes, and adds a missing minor and patch version. */
function normalise(text: string): string {
  const [major = '', minor, ...rest] = text.replace(/^v/, '').split('.');
  const parts = [major, minor, rest.length === 0 ? undefined : rest.join('.')]
    .filter((part) => part !== undefined)
    .map((part) => part.replace(/^0+(?=\d)/, ''));
  if (parts.length < 3 && /[+-]/.test(parts.at(-1) ?? '')) {
    throw new CelError('short version cannot contain PreRelease/Build meta data');
  }
  return [...parts, '0', '0'].slice(0, 3).join('.');
}

const parse = (text: string, tolerant = false) => parseSemver(tolerant ? normalise(text) : text);

function compare(left: CelSemver, right: CelSemver): number {
  for (const [index, number] of left.numbers.entries()) {
    const other = right.numbers[index] ?? 0n;
    if (number !== other) return number < other ? -1 : 1;
  }
  return comparePrereleases(left.prerelease, right.prerelease);
}

/** A release is greater than its pre-releases. A longer pre-release is greater than its own prefix. */
function comparePrereleases(left: readonly string[], right: readonly string[]): number {
  if (left.length === 0 || right.length === 0) return Math.sign(right.length - left.length);
  for (const [index, part] of left.entries()) {
    const other = right[index];
    if (other === undefined) return 1;
    const order = compareParts(part, other);
    if (order !== 0) return order;
  }
  return left.length < right.length ? -1 : 0;
}

const DIGITS = /^\d+$/;

/** Numeric identifiers are less than alphanumeric ones. */
function compareParts(left: string, right: string): number {
  if (left === right) return 0;
  const numeric = [DIGITS.test(left), DIGITS.test(right)] as const;
  if (numeric[0] !== numeric[1]) return numeric[0] ? -1 : 1;
  // There are no leading zeroes, so the longer number is greater.
  if (numeric[0] && left.length !== right.length) return left.length < right.length ? -1 : 1;
  return left < right ? -1 : 1;
}

const ofBoth = (left: CelSemver, right: CelSemver) => traversal(left.identity.length + right.identity.length);

export const semver = [
  define('semver(string): semver', (text) => parse(text), parsing),
  define('semver(string, bool): semver', parse, parsing),
  define('isSemver(string): bool', succeeds(parse), parsing),
  define(
    'isSemver(string, bool): bool',
    (text, tolerant) => succeeds((it) => parse(it, tolerant))(text),
    parsing,
  ),
  define('<semver>.major(): int', ({ numbers }) => numbers[0]),
  define('<semver>.minor(): int', ({ numbers }) => numbers[1]),
  define('<semver>.patch(): int', ({ numbers }) => numbers[2]),
  define('<semver>.isGreaterThan(semver): bool', (self, other) => compare(self, other) > 0, ofBoth),
  define('<semver>.isLessThan(semver): bool', (self, other) => compare(self, other) < 0, ofBoth),
  define('<semver>.compareTo(semver): int', (self, other) => BigInt(compare(self, other)), ofBoth),
];

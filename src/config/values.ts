/** What a setting may say, as text of the command line: each function gives its value, or throws a sentence that says what is wrong. */
import { parseBytes } from './byte-size.ts';
import { parseDuration } from './duration.ts';

export const text = (value: string): string => value;

export function port(value: string): number {
  const number = Number(value);
  if (!Number.isInteger(number) || number < 0 || number > 65_535)
    throw new Error(`"${value}" is not a port (0 to 65535)`);
  return number;
}

/** A timeout: zero would disable it. */
export function limit(value: string): number {
  const ms = parseDuration(value);
  if (ms < 1) throw new Error(`"${value}" is too short: give clients a millisecond at least`);
  return ms;
}

export function count(value: string): number {
  if (!/^[1-9]\d{0,8}$/.test(value)) throw new Error(`"${value}" is not a number of at least 1`);
  return Number(value);
}

/** A list holds one object at least, and the API server takes objects of up to 3 MiB; a JavaScript string ends before 512 MiB. */
export function bodyLimit(value: string): number {
  const bytes = parseBytes(value);
  if (bytes < 8 * 1024 ** 2) throw new Error(`"${value}" is too small: a single object may need 8MiB`);
  if (bytes > 256 * 1024 ** 2) throw new Error(`"${value}" is too large: at most 256MiB can be taken`);
  return bytes;
}

export function choice<const Choices extends readonly string[]>(
  choices: Choices,
): (value: string) => Choices[number] {
  return (value) => {
    const found = choices.find((one) => one === value);
    if (found === undefined) throw new Error(`"${value}" is none of ${choices.join(', ')}`);
    return found;
  };
}

export function yesOrNo(value: string): boolean {
  return choice(['true', 'false'])(value) === 'true';
}

/** Names out of a list, with commas between them. */
export function choices<const Choices extends readonly string[]>(
  names: Choices,
): (value: string) => readonly Choices[number][] {
  const one = choice(names);
  return (value) => {
    const parts = value.split(',').map((part) => part.trim());
    return value.trim() === '' ? [] : [...new Set(parts.map(one))];
  };
}

/** RFC 1123 labels, which names of namespaces and Services are. */
export function dnsLabel(value: string): string {
  if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(value))
    throw new Error(`"${value}" is not a DNS label (RFC 1123)`);
  return value;
}

/** Domains of two labels or more: a single one would let a Service take the short name of another, `<service>.<namespace>`. */
export function dnsSuffixes(value: string): readonly string[] {
  const suffixes = value
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  for (const suffix of suffixes) {
    if (!dnsName(suffix).includes('.')) throw new Error(`"${suffix}" is too wide: write two labels at least`);
  }
  return suffixes;
}

/** A serving cert ends an hour before its CA, and both begin before they are made. */
export function caLifetime(value: string): number {
  const ms = parseDuration(value);
  if (ms < 2 * 3_600_000) throw new Error(`"${value}" is too short: a CA needs 2h at least to sign anything`);
  return ms;
}

export function dnsName(value: string): string {
  if (!value.split('.').every((label) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(label))) {
    throw new Error(`"${value}" is not a DNS name`);
  }
  return value;
}

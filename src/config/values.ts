/** Parsers for the text of settings. Each returns the value, or throws an error whose message is a full sentence. */
import { parseRenewalPoint } from '../api/renewal-point.ts';
import { parseBytes, parseDuration } from './quantities.ts';

/** Whether Kubernetes gives such values to `<SERVICE>_PORT`. */
export const isServiceAddress = (value: string): boolean => /^(tcp|udp|sctp):\/\//.test(value);

export function text(value: string): string {
  if (isServiceAddress(value)) throw new Error(`"${value}" is not a value of this setting`);
  return value;
}

export function port(value: string): number {
  const number = Number(value);
  if (!/^\d{1,5}$/.test(value) || number > 65_535) throw new Error(`"${value}" is not a port (0 to 65535)`);
  return number;
}

/** A timeout: zero would disable it. */
export function limit(value: string): number {
  const ms = parseDuration(value);
  if (ms < 1) throw new Error(`"${value}" is too short: at least 1ms`);
  return ms;
}

export function count(value: string): number {
  if (!/^[1-9]\d{0,8}$/.test(value)) throw new Error(`"${value}" is not a number of at least 1`);
  return Number(value);
}

export const countOrZero = (value: string): number => (value === '0' ? 0 : count(value));

/** A list has at least one object of up to 3 MiB; a JavaScript string is shorter than 512 MiB. */
export function bodyLimit(value: string): number {
  const bytes = parseBytes(value);
  if (bytes < 8 * 1024 ** 2) throw new Error(`"${value}" is too small: a single object may need 8MiB`);
  if (bytes > 256 * 1024 ** 2) throw new Error(`"${value}" is too large: at most 256MiB`);
  return bytes;
}

export function choice<const Choices extends readonly string[]>(
  choices: Choices,
): (value: string) => Choices[number] {
  return (value) => {
    const found = choices.find((one) => one === value);
    if (found === undefined) throw new Error(`"${value}" is not one of ${choices.join(', ')}`);
    return found;
  };
}

export function yesOrNo(value: string): boolean {
  return choice(['true', 'false'])(value) === 'true';
}

export function choices<const Choices extends readonly string[]>(
  names: Choices,
): (value: string) => readonly Choices[number][] {
  const one = choice(names);
  return (value) => {
    const parts = value.split(',').map((part) => part.trim());
    return value.trim() === '' ? [] : [...new Set(parts.map(one))];
  };
}

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

export function dnsLabel(value: string): string {
  if (!DNS_LABEL.test(value)) throw new Error(`"${value}" is not a DNS label (RFC 1123)`);
  return value;
}

export const namespaceNames = (value: string): readonly string[] => [...new Set(listOf(value).map(dnsLabel))];

/** With a single label, a Service could request another Service's short name `<service>.<namespace>`. */
export function dnsSuffixes(value: string): readonly string[] {
  const suffixes = listOf(value);
  for (const suffix of suffixes) {
    const labels = dnsName(suffix).split('.');
    if (labels.length < 2) throw new Error(`"${suffix}" is too wide: write at least two labels`);
    if (labels.includes('svc'))
      throw new Error(
        `"${suffix}" has the label svc, which only the names of Services may have: remove the suffix`,
      );
  }
  return suffixes;
}

/** Maps each suffix to its namespace. Two namespaces must not share a suffix: each could request the other's names. */
export function namespaceSuffixes(value: string): ReadonlyMap<string, string> {
  const owners = new Map<string, string>();
  for (const pair of listOf(value)) {
    const [namespace = '', suffix, ...rest] = pair.split('=').map((part) => part.trim());
    if (suffix === undefined || suffix === '' || rest.length > 0)
      throw new Error(`"${pair}" is not a namespace and a domain, such as shop=shop.example.com`);
    const owner = owners.get(suffix);
    if (owner !== undefined && owner !== namespace)
      throw new Error(`the namespaces ${owner} and ${namespace} cannot share "${suffix}"`);
    for (const domain of dnsSuffixes(suffix)) owners.set(domain, dnsLabel(namespace));
  }
  return owners;
}

/** Names of client certificates. Rejects patterns, because names are compared literally. */
export function clientNames(value: string): readonly string[] {
  const names = new Set(listOf(value));
  for (const name of names)
    if (name.startsWith('.') || name.includes('*'))
      throw new Error(`"${name}" is a pattern; write complete names, because they are compared literally`);
  return [...names];
}

const listOf = (value: string): readonly string[] =>
  value
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');

/** A serving cert expires an hour before its CA, and both have a notBefore in the past. */
export function caLifetime(value: string): number {
  const ms = parseDuration(value);
  if (ms < 2 * 3_600_000) throw new Error(`"${value}" is too short: a CA needs at least 2h to sign anything`);
  return ms;
}

export function certLifetime(value: string): number {
  const ms = parseDuration(value);
  if (ms < 3_600_000 || ms > 365 * 86_400_000)
    throw new Error(`"${value}" is not a duration from 1h to 365d`);
  return ms;
}

export function renewalPoint(value: string): number {
  const percent = parseRenewalPoint(value);
  if (percent === undefined)
    throw new Error(`"${value}" is not a whole percentage from 20% to 90%, such as 50%`);
  return percent;
}

export function dnsName(value: string): string {
  if (!value.split('.').every((label) => DNS_LABEL.test(label)))
    throw new Error(`"${value}" is not a DNS name`);
  return value;
}

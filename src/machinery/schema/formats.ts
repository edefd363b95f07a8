import { isIP, isIPv4, isIPv6 } from 'node:net';
import { fullFormats } from 'ajv-formats/dist/formats.js';
import { matches } from '../../cel/regular-expression.ts';
import { isDnsLabel, isDnsSubdomain } from '../../json/kube-object.ts';
import type { Schema } from './schema.ts';

type TextCheck = (text: string) => boolean;

const like =
  (pattern: RegExp): TextCheck =>
  (text) =>
    pattern.test(text);

const uuid = (version: string, variant: string) =>
  like(new RegExp(`^[0-9a-f]{8}-?[0-9a-f]{4}-?${version}-?${variant}-?[0-9a-f]{12}$`, 'i'));

const LABEL = String.raw`[a-zA-Z0-9\p{S}\p{L}]`;
const HOSTNAME = String.raw`^(${LABEL}((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|(${LABEL}(([a-zA-Z0-9-\p{S}\p{L}]{0,61}${LABEL})?)(\.)){1,}(${LABEL})(-?${LABEL}){1,62})$`;

const isHostname: TextCheck = (text) =>
  text.length <= 255 && text.split('.').every((label) => label.length <= 63) && matches(text, HOSTNAME);

/** Go's net.ParseIP does not accept zones. */
const isZonelessIP: TextCheck = (text) => isIP(text) !== 0 && !text.includes('%');

const isCidr: TextCheck = (text) => {
  const [, address, bits] = /^(.*)\/(\d{1,3})$/.exec(text) ?? [];
  if (address === undefined) return false;
  return isIPv4(address)
    ? Number(bits) <= 32
    : isIPv6(address) && isZonelessIP(address) && Number(bits) <= 128;
};

const isMac: TextCheck = (text) =>
  /^[0-9a-f]{2}(?:(?::[0-9a-f]{2}){5}|(?::[0-9a-f]{2}){7}|(?::[0-9a-f]{2}){19})$/i.test(
    text.replaceAll('-', ':'),
  ) || /^[0-9a-f]{4}(?:(?:\.[0-9a-f]{4}){2}|(?:\.[0-9a-f]{4}){3}|(?:\.[0-9a-f]{4}){9})$/i.test(text);

const isDate: TextCheck = (text) => {
  const { date } = fullFormats;
  return typeof date === 'object' && 'validate' in date && date.validate instanceof Function
    ? Boolean(date.validate(text as never))
    : false;
};

const TIME = /^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:.\d+)?(?:z|[+-]\d{2}:\d{2})$/i;

const isDateTime: TextCheck = (text) => {
  return text[10]?.toLowerCase() === 't' && isDate(text.slice(0, 10)) && TIME.test(text.slice(11));
};

const UNIT = '(?:ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)';

/** A duration of Go's time.ParseDuration (`1h30m`, `-1.5s`) or of Scala (`22 ns`, `2 days`). */
const isDuration: TextCheck = (text) =>
  /^[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/.test(text) ||
  (/^\s*(?:\d+\s*[A-Za-zµ]+\s*)+$/.test(text) && new RegExp(`\\d\\s*${UNIT}`, 'i').test(text));

const ATOM = String.raw`[^\s<>@",;:\\()\[\].]+`;
const EMAIL = new RegExp(`^(?:"[^"]*"|${ATOM}(?:\\.${ATOM})*)@${ATOM}(?:\\.${ATOM})*$`);

/** As Go's mail.ParseAddress: an address, or a name with an address in angle brackets. */
const isEmail: TextCheck = (text) => EMAIL.test(/^[^<>@]*<(.*)>$/.exec(text.trim())?.[1] ?? text.trim());

/** As Go's url.ParseRequestURI: an absolute path, or a scheme followed by anything. */
const isUri: TextCheck = (text) => {
  // eslint-disable-next-line no-control-regex -- Go rejects control characters
  if (/[\u0000-\u001f\u007f]/.test(text)) return false;
  const [, rest = ''] = /^(?:[a-z][a-z0-9+.-]*:)?(\/.*)$/i.exec(text) ?? [];
  if (rest === '') return /^[a-z][a-z0-9+.-]*:[^/]*$/i.test(text);
  const [, authority = ''] = /^\/\/([^/?]*)/.exec(rest) ?? [];
  return (
    !/[ <>^`{|}"\\]|%(?![0-9a-f]{2})|\[(?![^\]]*\])/i.test(authority) &&
    !/%(?![0-9a-f]{2})/i.test(rest.split('?')[0] ?? '')
  );
};

/** The usual string formats that the API server checks (apiextensions-apiserver, validation/formats.go). */
export const TEXT_FORMATS: Readonly<Record<string, TextCheck>> = {
  uri: isUri,
  email: isEmail,
  hostname: isHostname,
  ipv4: (text) => isZonelessIP(text) && text.includes('.'),
  ipv6: (text) => isZonelessIP(text) && text.includes(':'),
  cidr: isCidr,
  mac: isMac,
  uuid: uuid('[0-9a-f]{4}', '[0-9a-f]{4}'),
  uuid3: uuid('3[0-9a-f]{3}', '[0-9a-f]{4}'),
  uuid4: uuid('4[0-9a-f]{3}', '[89ab][0-9a-f]{3}'),
  uuid5: uuid('5[0-9a-f]{3}', '[89ab][0-9a-f]{3}'),
  byte: like(/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$/),
  password: () => true,
  date: isDate,
  duration: isDuration,
  datetime: isDateTime,
  'date-time': isDateTime,
  'k8s-short-name': isDnsLabel,
  'k8s-long-name': isDnsSubdomain,
};

/** The number formats that the API server checks. Before 1.36, it ignored them. */
export const NUMBER_FORMATS: Readonly<Record<string, (number: number) => boolean>> = {
  int32: (number) => number >= -(2 ** 31) && number < 2 ** 31,
  int64: (number) => number >= -(2 ** 63) && number < 2 ** 63,
  float: (number) => Number.isFinite(Math.fround(number)),
  double: () => true,
};

/** The format to check; undefined if there is none or the API server ignores it. */
export function checkedFormat({ type, format = '' }: Schema): string | undefined {
  if (type === 'integer') return format === 'int32' || format === 'int64' ? format : undefined;
  if (type === 'number') return format === 'float' || format === 'double' ? format : undefined;
  return (type ?? 'string') === 'string' && Object.hasOwn(TEXT_FORMATS, format) ? format : undefined;
}

/** Whether a bound is a value of the field itself, in its shortest decimal form. If not, the API server rejects every number. */
export function isFitBound(bound: number, { type, format = '' }: Schema): boolean {
  if (type === 'integer') {
    const bits = format === 'int32' ? 32 : 64;
    return (
      /^-?\d+$/.test(String(bound)) && BigInt.asIntN(bits, BigInt(String(bound))) === BigInt(String(bound))
    );
  }
  return type !== 'number' || format !== 'float' || Number.isFinite(Math.fround(bound));
}

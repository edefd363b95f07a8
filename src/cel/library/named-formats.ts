import {
  dns1035LabelProblems,
  dnsLabelProblems,
  dnsSubdomainProblems,
  labelKeyProblems,
  labelValueProblems,
} from '../../json/name-problems.ts';
import { InvalidUrl, parseRequestUrl } from './url.ts';
import { parseTimestamp } from '../values/time.ts';
import { succeeds } from './text.ts';
import { CEL_TYPE, matching, NONE, optional } from '../values/values.ts';
import { type CelFormat, type CelFunction, define, type Format } from './define.ts';

/** A name prefix may end in a dash, because more characters follow. */
const prefixOf =
  (format: Format): Format =>
  (text) =>
    format(text.length > 1 && text.endsWith('-') ? `${text.slice(0, -2)}a` : text);

const when =
  (isValid: (text: string) => boolean, problem: string): Format =>
  (text) =>
    isValid(text) ? [] : [problem];

function uri(text: string): readonly string[] {
  try {
    parseRequestUrl(text, false);
    return [];
  } catch (error) {
    if (error instanceof InvalidUrl) return [error.message];
    throw error;
  }
}

const UUID = /^(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32})$/i;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$/;
const TIME = /^(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:.\d+)?(?:z|[+-]\d{2}:\d{2})$/;
const DATE = /^\d{4}-\d{2}-\d{2}$/;

const isDate = (text: string) => DATE.test(text) && succeeds(parseTimestamp)(`${text}T00:00:00Z`);

function isDatetime(text: string): boolean {
  const [date = '', time = ''] = text.toLowerCase().split('t');
  return isDate(date) && TIME.test(time);
}

const FORMATS: Readonly<Record<string, Format>> = {
  dns1123Label: dnsLabelProblems,
  dns1123Subdomain: dnsSubdomainProblems,
  dns1035Label: dns1035LabelProblems,
  qualifiedName: labelKeyProblems,
  dns1123LabelPrefix: prefixOf(dnsLabelProblems),
  dns1123SubdomainPrefix: prefixOf(dnsSubdomainProblems),
  dns1035LabelPrefix: prefixOf(dns1035LabelProblems),
  labelValue: labelValueProblems,
  uri,
  uuid: when((text) => UUID.test(text), 'does not match the UUID format'),
  byte: when((text) => BASE64.test(text), 'invalid base64'),
  date: when(isDate, 'invalid date'),
  datetime: when(isDatetime, 'invalid datetime'),
};

const named = new Map(
  Object.entries(FORMATS).map(([name, format]): [string, CelFormat] => [
    name,
    { [CEL_TYPE]: 'kubernetes.NamedFormat', identity: name, format },
  ]),
);

function validate({ format }: CelFormat, text: string) {
  const problems = format(text);
  return problems.length === 0 ? NONE : optional(problems);
}

const PATTERN = ' '.repeat(60);

export const format: readonly CelFunction[] = [
  ...[...named].map(([name, value]) => define(`format.${name}(): format`, () => value)),
  define('format.named(string): optional<format>', (name) => optional(named.get(name))),
  define('<format>.validate(string): optional<list<string>>', validate, (_self, text) =>
    matching(text, PATTERN),
  ),
];

import { InvalidUrl, parseRequestUrl } from './url.ts';
import { parseTimestamp } from '../values/time.ts';
import { succeeds } from './text.ts';
import { CEL_TYPE, matching, NONE, optional } from '../values/values.ts';
import { type CelFormat, type CelFunction, define, type Format } from './define.ts';

// Patterns and messages come from k8s.io/apimachinery/pkg/util/validation.
const LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const SUBDOMAIN = `${LABEL}(\\.${LABEL})*`;
const LABEL_1035 = '[a-z]([-a-z0-9]*[a-z0-9])?';
const NAME = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';

/** No nested repetition of the same characters, so JavaScript's own engine is linear. */
const whole = (pattern: string) => new RegExp(`^(?:${pattern})$`);
const isLabel = whole(LABEL);
const isSubdomain = whole(SUBDOMAIN);
const isLabel1035 = whole(LABEL_1035);
const isName = whole(NAME);

const because = (rule: string, pattern: string, ...examples: readonly string[]) =>
  `${rule} (e.g. ${examples.map((example) => `'${example}', `).join(' or ')}regex used for validation is '${pattern}')`;

const LABEL_PROBLEM = because(
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
  LABEL,
  'my-name',
  '123-abc',
);
const SUBDOMAIN_PROBLEM = because(
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
  SUBDOMAIN,
  'example.com',
);
const LABEL_1035_PROBLEM = because(
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
  LABEL_1035,
  'my-name',
  'abc-123',
);
const NAME_PROBLEM = because(
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
  NAME,
  'MyName',
  'my.name',
  '123-abc',
);
const VALUE_PROBLEM = because(
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
  `(${NAME})?`,
  'MyValue',
  'my_value',
  '12345',
);

const tooLong = (text: string, most: number, unit: 'bytes' | 'characters' = 'bytes') =>
  Buffer.byteLength(text) > most ? [`must be no more than ${most} ${unit}`] : [];

function dnsLabel(text: string): readonly string[] {
  const long = tooLong(text, 63, 'characters');
  if (isLabel.test(text)) return long;
  return [...long, isSubdomain.test(text) ? 'must not contain dots' : LABEL_PROBLEM];
}

const checked =
  (most: number, pattern: RegExp, problem: string): Format =>
  (text) => [...tooLong(text, most, 'characters'), ...(pattern.test(text) ? [] : [problem])];

const dnsSubdomain = checked(253, isSubdomain, SUBDOMAIN_PROBLEM);
const dns1035Label = checked(63, isLabel1035, LABEL_1035_PROBLEM);

/** A name prefix may end in a dash, because more characters follow. */
const prefixOf =
  (format: Format): Format =>
  (text) =>
    format(text.length > 1 && text.endsWith('-') ? `${text.slice(0, -2)}a` : text);

function qualifiedName(text: string): readonly string[] {
  const [first = '', second, ...more] = text.split('/');
  if (more.length > 0) {
    return [
      `a valid label key ${NAME_PROBLEM} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ];
  }
  const ofName = nameProblems(second ?? first).map((problem) => `name part ${problem}`);
  if (second === undefined) return ofName;
  const ofPrefix = first === '' ? ['must be non-empty'] : dnsSubdomain(first);
  return [...ofPrefix.map((problem) => `prefix part ${problem}`), ...ofName];
}

const nameProblems = (name: string) => [
  ...(name === '' ? ['must be non-empty'] : tooLong(name, 63)),
  ...(isName.test(name) ? [] : [NAME_PROBLEM]),
];

const labelValue: Format = (text) => [
  ...tooLong(text, 63),
  ...(text === '' || isName.test(text) ? [] : [VALUE_PROBLEM]),
];

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
  dns1123Label: dnsLabel,
  dns1123Subdomain: dnsSubdomain,
  dns1035Label,
  qualifiedName,
  dns1123LabelPrefix: prefixOf(dnsLabel),
  dns1123SubdomainPrefix: prefixOf(dnsSubdomain),
  dns1035LabelPrefix: prefixOf(dns1035Label),
  labelValue,
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

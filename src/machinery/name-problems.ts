// Checks of names, labels and ports with the messages of k8s.io/apimachinery/pkg/util/validation.

const LABEL = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/;
const LABEL_1035 = /^[a-z](?:[-a-z0-9]*[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;
const CONFIG_KEY = /^[-._a-zA-Z0-9]+$/;
/** Of a label key without its prefix, and of a label value. */
const NAME = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;

const LABEL_1035_PROBLEM =
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and " +
  "end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is " +
  "'[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_PROBLEM =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end " +
  "with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
  "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME_PROBLEM =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character " +
  "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_PROBLEM =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end " +
  "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is " +
  "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const tooLong = (name: string, most: number) =>
  name.length > most ? `must be no more than ${most} characters` : undefined;

/** Joined the way the API server joins them; undefined for an empty list. */
function joined(...problems: readonly (string | undefined)[]): string | undefined {
  const found = problems.filter((problem) => problem !== undefined);
  return found.length === 0 ? undefined : found.join(',');
}

export const label1035Problem = (name: string): string | undefined =>
  joined(tooLong(name, 63), LABEL_1035.test(name) ? undefined : LABEL_1035_PROBLEM);

/** Of a kind, which may have upper-case letters. */
export function kindProblem(kind: string): string | undefined {
  const problem = label1035Problem(kind.toLowerCase());
  return problem && `may have mixed case, but should otherwise match: ${problem}`;
}

export const subdomainProblem = (name: string): string | undefined =>
  joined(tooLong(name, 253), SUBDOMAIN.test(name) ? undefined : SUBDOMAIN_PROBLEM);

/** An RFC 1123 DNS label: the name of a Namespace or a container. */
export const labelProblem = (name: string): string | undefined =>
  tooLong(name, 63) ??
  (LABEL.test(name)
    ? undefined
    : SUBDOMAIN.test(name)
      ? 'must not contain dots'
      : "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an " +
        "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')");

/** Rejects names that cannot be a URL path segment. RBAC objects allow any other name. */
export function pathSegmentProblem(name: string): string | undefined {
  if (name === '.' || name === '..') return `may not be '${name}'`;
  const illegal = ['/', '%'].find((text) => name.includes(text));
  return illegal === undefined ? undefined : `may not contain '${illegal}'`;
}

export function configKeyProblem(key: string): string | undefined {
  const long = tooLong(key, 253);
  if (long !== undefined) return long;
  if (!CONFIG_KEY.test(key)) {
    return (
      "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or " +
      "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
    );
  }
  if (key === '.' || key === '..') return `must not be '${key}'`;
  return key.startsWith('..') ? "must not start with '..'" : undefined;
}

export const portProblem = (port: number): string | undefined =>
  Number.isInteger(port) && port >= 1 && port <= 65535 ? undefined : 'must be between 1 and 65535, inclusive';

/** The problems of a label or annotation key: an optional DNS prefix with a slash, and a name. */
export function labelKeyProblems(key: string): readonly string[] {
  const parts = key.split('/');
  if (parts.length > 2) {
    return [
      `a valid label key ${NAME_PROBLEM} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ];
  }
  const [name = '', prefix] = parts.toReversed();
  return [
    ...(prefix === undefined ? [] : prefixProblems(prefix)).map((problem) => `prefix part ${problem}`),
    ...partProblems(name, 63, NAME, NAME_PROBLEM).map((problem) => `name part ${problem}`),
  ];
}

const prefixProblems = (prefix: string) =>
  prefix === '' ? ['must be non-empty'] : partProblems(prefix, 253, SUBDOMAIN, SUBDOMAIN_PROBLEM);

export const labelValueProblems = (value: string): readonly string[] =>
  value === '' ? [] : partProblems(value, 63, NAME, VALUE_PROBLEM);

function partProblems(part: string, most: number, form: RegExp, problem: string): readonly string[] {
  return [
    ...(part === '' ? ['must be non-empty'] : []),
    ...(Buffer.byteLength(part) > most ? [`must be no more than ${most} bytes`] : []),
    ...(form.test(part) ? [] : [problem]),
  ];
}

// Patterns and messages follow k8s.io/apimachinery/pkg/api/validate/content.
const NAME = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

const NAME_PROBLEM =
  "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character " +
  "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SUBDOMAIN_PROBLEM =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end " +
  "with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
  "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const VALUE_PROBLEM =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end " +
  "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is " +
  "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/** The problems of a label or annotation key: an optional DNS prefix with a slash, and a name. */
export function labelKeyProblems(key: string): readonly string[] {
  const parts = key.split('/');
  if (parts.length > 2) {
    return [
      `a valid label key ${NAME_PROBLEM} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ];
  }
  const prefix = parts.length === 2 ? parts[0] : undefined;
  return [
    ...(prefix === undefined ? [] : prefixProblems(prefix)).map((problem) => `prefix part ${problem}`),
    ...nameProblems(parts.at(-1) ?? '').map((problem) => `name part ${problem}`),
  ];
}

/** The problems of a label value. */
export function labelValueProblems(value: string): readonly string[] {
  return [...tooLong(value, 63), ...(value === '' || NAME.test(value) ? [] : [VALUE_PROBLEM])];
}

function prefixProblems(prefix: string): readonly string[] {
  if (prefix === '') return ['must be non-empty'];
  return [...tooLong(prefix, 253), ...(SUBDOMAIN.test(prefix) ? [] : [SUBDOMAIN_PROBLEM])];
}

function nameProblems(name: string): readonly string[] {
  return [
    ...(name === '' ? ['must be non-empty'] : tooLong(name, 63)),
    ...(NAME.test(name) ? [] : [NAME_PROBLEM]),
  ];
}

const tooLong = (text: string, limit: number) =>
  Buffer.byteLength(text) > limit ? [`must be no more than ${limit} bytes`] : [];

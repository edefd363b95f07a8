// Name checks with the messages of k8s.io/apimachinery/pkg/util/validation; undefined if the name is valid.

const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const CONFIG_KEY = /^[-._a-zA-Z0-9]+$/;
const PORT_NAME = /^[-a-z0-9]+$/;

const tooLong = (name: string, most: number) =>
  name.length > most ? `must be no more than ${most} characters` : undefined;

/** An RFC 1123 DNS label: the name of a Namespace or a port. */
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

/** A key in the data of a ConfigMap or Secret. */
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

/** An IANA service name: up to 15 characters, at least one letter, single hyphens only between other characters. */
export function portNameProblems(name: string): readonly string[] {
  return [
    ...(name.length > 15 ? ['must be no more than 15 characters'] : []),
    ...(PORT_NAME.test(name)
      ? []
      : ['must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)']),
    ...(/[a-z]/.test(name) ? [] : ['must contain at least one letter (a-z)']),
    ...(name.includes('--') ? ['must not contain consecutive hyphens'] : []),
    ...(name.startsWith('-') || name.endsWith('-') ? ['must not begin or end with a hyphen'] : []),
  ];
}

export const PORT_RANGE = 'must be between 1 and 65535, inclusive';
export const isPort = (port: number): boolean => Number.isInteger(port) && port >= 1 && port <= 65535;

// Checks of names, labels and ports with the messages of k8s.io/apimachinery/pkg/util/validation.

import { dns1035LabelProblems, dnsLabelProblems, dnsSubdomainProblems } from '../json/name-problems.ts';

const CONFIG_KEY = /^[-._a-zA-Z0-9]+$/;

/** Joined the way the API server joins them; undefined for an empty list. */
const joined = (problems: readonly string[]) => (problems.length === 0 ? undefined : problems.join(','));

export const label1035Problem = (name: string): string | undefined => joined(dns1035LabelProblems(name));
export const subdomainProblem = (name: string): string | undefined => joined(dnsSubdomainProblems(name));

/** Of a kind, which may have upper-case letters. */
export function kindProblem(kind: string): string | undefined {
  const problem = label1035Problem(kind.toLowerCase());
  return problem && `may have mixed case, but should otherwise match: ${problem}`;
}

/** Of the name of a Namespace or a container. */
export const labelProblem = (name: string): string | undefined => dnsLabelProblems(name)[0];

/** Rejects names that cannot be a URL path segment. RBAC objects allow any other name. */
export function pathSegmentProblem(name: string): string | undefined {
  if (name === '.' || name === '..') return `may not be '${name}'`;
  const illegal = ['/', '%'].find((text) => name.includes(text));
  return illegal === undefined ? undefined : `may not contain '${illegal}'`;
}

export function configKeyProblem(key: string): string | undefined {
  if (key.length > 253) return 'must be no more than 253 characters';
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

import { createHash } from 'node:crypto';

import type { NormalSelector } from '../../json/label-selector.ts';

export interface MatchCondition {
  readonly name: string;
  readonly expression: string;
}

/** What one webhook entry can say only once. Policies that agree in all of it share an entry, and with it one call a request. */
export interface Scope {
  /**
   * With `matchPolicy: Equivalent` the API server sends a request once an entry, in the first version that one of its rules names.
   * Were policies for different versions to share an entry, one could take the request away from the other.
   */
  readonly apiVersions: readonly string[];
  readonly namespaceSelector: NormalSelector;
  readonly objectSelector: NormalSelector;
  readonly matchConditions: readonly MatchCondition[];
  readonly failurePolicy: 'Fail' | 'Ignore';
  /** 1 to 30. */
  readonly timeoutSeconds: number;
}

/** Ten hex digits: a collision would merge two scopes, and at 40 bits it takes a million scopes to make one likely. */
const HASH_LENGTH = 10;

/** A DNS label such as `fail-5s-3fa9c2e07b`: part of the webhook's name and of its path. Equal scopes have equal ids. */
export function entryIdOf(scope: Scope): string {
  const { apiVersions, namespaceSelector, objectSelector, matchConditions, failurePolicy, timeoutSeconds } =
    scope;
  const canonical = JSON.stringify([
    apiVersions,
    canonicalSelector(namespaceSelector),
    canonicalSelector(objectSelector),
    matchConditions.map(({ name, expression }) => [name, expression]),
    failurePolicy,
    timeoutSeconds,
  ]);
  const hash = createHash('sha256').update(canonical).digest('hex').slice(0, HASH_LENGTH);
  return `${failurePolicy.toLowerCase()}-${timeoutSeconds}s-${hash}`;
}

function canonicalSelector({ matchLabels = {}, matchExpressions = [] }: NormalSelector): unknown {
  return [
    Object.entries(matchLabels),
    matchExpressions.map(({ key, operator, values = [] }) => [key, operator, values]),
  ];
}

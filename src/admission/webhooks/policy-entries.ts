/** The webhook entries of policies: one for each scope, and one for each kind whose deletion concerns policies. */
import { createHash } from 'node:crypto';

import { toGroupResource } from '../../api/policy-match.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { uniqueBy } from '../../json/objects.ts';
import type { NormalSelector } from '../../json/label-selector.ts';
import type { CompiledMatch, CompiledPolicy, Scope } from '../policy/compiled-policy.ts';

/** Ten hex digits (40 bits): a collision would merge two scopes, and becomes likely only with a million scopes. */
const HASH_LENGTH = 10;

/** A DNS label such as `fail-5s-3fa9c2e07b`: part of the webhook's name and path. Equal scopes have equal ids. */
export function entryIdOf(scope: Scope): string {
  const { namespaceSelector, objectSelector, matchConditions, failurePolicy, timeoutSeconds } = scope;
  const canonical = JSON.stringify([
    scope.apiGroups,
    scope.apiVersions,
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

const DELETION_PREFIX = 'restrict-';

/** Whether the entry is for deletions of targets, which policies with `onTargetDelete` other than `Allow` need. */
export const isDeletionEntry = (entryId: string): boolean => entryId.startsWith(DELETION_PREFIX);

/** Whether the API server admits requests after an HTTP error: then Gatehouse refuses what it cannot decide. */
export const failsOpen = (entryId: string): boolean => /^(restrict-)?ignore-/.test(entryId);

/** One for each target kind, without selectors: the policy's selectors apply to the referring objects. */
export function deletionEntriesOf({
  match: { failurePolicy, timeoutSeconds },
  spec: { validate: { references = [] } = {} },
}: Pick<CompiledPolicy, 'match' | 'spec'>): readonly Pick<CompiledPolicy, 'entryId' | 'match'>[] {
  const targets = references
    .filter(({ onTargetDelete = 'Allow' }) => onTargetDelete !== 'Allow')
    .map(({ target }) => toGroupResource(target));
  return uniqueBy(targets, groupResourceName).map((target) => {
    const match: CompiledMatch = {
      apiGroups: [target.group],
      apiVersions: ['*'],
      resources: [target.resource],
      operations: ['DELETE'],
      namespaceSelector: {},
      objectSelector: {},
      matchConditions: [],
      conditionsOnObject: [],
      failurePolicy,
      timeoutSeconds,
    };
    return { entryId: `${DELETION_PREFIX}${entryIdOf(match)}`, match };
  });
}

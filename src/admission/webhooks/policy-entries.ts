/** The webhook entries for deletions of what references name with `onTargetDelete: Restrict`. */
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import type { CompiledMatch, CompiledPolicy, CompiledReference } from '../policy/compiled-policy.ts';
import { entryIdOf } from './scope.ts';

/** Deletions of one kind about which the API server asks, on behalf of a policy. */
export interface TargetGuard {
  readonly entryId: string;
  readonly match: CompiledMatch;
}

const PREFIX = 'restrict-';

/** Whether requests by this entry are deletions of targets; the policies behind it are those that hold on to them. */
export const isGuardEntry = (entryId: string): boolean => entryId.startsWith(PREFIX);

/** One for each kind that a policy restricts. Its selectors are about the objects that refer, not about those referred to. */
export function guardsOf({
  match,
  references,
}: Pick<CompiledPolicy, 'match' | 'references'>): readonly TargetGuard[] {
  const targets = new Map(restricting(references).map(({ target }) => [groupResourceName(target), target]));
  return [...targets.values()].map((target) => guardOf(match, target));
}

function guardOf(
  { failurePolicy, timeoutSeconds }: Pick<CompiledMatch, 'failurePolicy' | 'timeoutSeconds'>,
  { group, resource }: GroupResource,
): TargetGuard {
  const match: CompiledMatch = {
    apiGroups: [group],
    apiVersions: ['*'],
    resources: [resource],
    operations: ['DELETE'],
    namespaceSelector: {},
    objectSelector: {},
    matchConditions: [],
    failurePolicy,
    timeoutSeconds,
  };
  return { entryId: `${PREFIX}${entryIdOf(match)}`, match };
}

export function restricting(references: readonly CompiledReference[]): readonly CompiledReference[] {
  return references.filter(({ restrictsDelete }) => restrictsDelete);
}

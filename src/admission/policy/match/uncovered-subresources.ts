/** Finds subresources through which requests change a governed object without asking a policy. */
import type { CompiledPolicy } from '../compiled-policy.ts';
import { covers } from './resource-pattern.ts';

type Governing = Pick<CompiledPolicy, 'match' | 'spec'>;

interface Subresource {
  readonly pattern: string;
  readonly operation: 'CREATE' | 'UPDATE';
  /** Whether its requests carry the object itself, so that the same policy can check them. */
  readonly sameObject: boolean;
  readonly effect: string;
}

/** @param all the policies that may govern a subresource instead, because its requests carry another kind of object */
export function uncoveredSubresources(policy: Governing, all: readonly Governing[]): readonly string[] {
  if (Object.keys(policy.spec.validate ?? {}).length === 0) return [];
  return subresourcesOf(policy)
    .filter((one) => ![policy, ...(one.sameObject ? [] : all)].some((other) => governs(other, policy, one)))
    .map(({ pattern, operation, sameObject, effect }) => {
      const remedy = sameObject
        ? `add ${pattern} to match.resources and ${operation} to match.operations`
        : `write a policy for ${pattern} with the operation ${operation}`;
      return `${effect} without asking this policy: ${remedy}`;
    });
}

function governs({ match }: Governing, governed: Governing, { pattern, operation }: Subresource): boolean {
  return (
    match.operations.includes(operation) &&
    match.resources.some((own) => covers(own, pattern)) &&
    governed.match.apiGroups.every((group) => match.apiGroups.includes(group))
  );
}

function subresourcesOf({ match: { apiGroups, resources, operations }, spec }: Governing): Subresource[] {
  const hasPods = apiGroups.includes('') && resources.some((own) => covers(own, 'pods'));
  const found: Subresource[] = [];
  if (hasPods && (operations.includes('CREATE') || operations.includes('UPDATE'))) {
    const update = { operation: 'UPDATE', sameObject: true } as const;
    found.push(
      { ...update, pattern: 'pods/ephemeralcontainers', effect: 'pods/ephemeralcontainers adds containers' },
      { ...update, pattern: 'pods/resize', effect: 'pods/resize changes the resources of containers' },
    );
  }
  const other = { sameObject: false };
  if (hasPods && operations.includes('DELETE'))
    found.push({
      ...other,
      operation: 'CREATE',
      pattern: 'pods/eviction',
      effect: 'pods/eviction deletes Pods',
    });
  // Only a policy about replicas loses anything to `scale`.
  if (!operations.includes('UPDATE') || !readsReplicas(spec)) return found;
  for (const own of resources.filter((each) => !each.includes('/') && each !== '*'))
    found.push({
      ...other,
      operation: 'UPDATE',
      pattern: `${own}/scale`,
      effect: `${own}/scale changes the number of replicas`,
    });
  return found;
}

/** Whether a check names the replicas, or compares the whole spec, which contains them. */
function readsReplicas(spec: CompiledPolicy['spec']): boolean {
  const text = textOfChecks(spec);
  return (
    text.includes('replicas') ||
    COMPARES_SPEC.test(text) ||
    spec.validate?.immutable?.includes('spec') === true
  );
}

const COMPARES_SPEC = /object\.spec\s*[!=]=/i;

/** With the variables that they use, even through other variables. */
function textOfChecks({ validate, variables = [] }: CompiledPolicy['spec']): string {
  // A variable can use only the variables before it.
  return variables.reduceRight(
    (text, { name, expression }) => (text.includes(`variables.${name}`) ? `${text} ${expression}` : text),
    JSON.stringify(validate),
  );
}

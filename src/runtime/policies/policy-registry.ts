/** The policies that this replica enforces, and the problems of those that it cannot enforce. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { buildPolicySet, type PolicySet } from '../../admission/policy/policy-set.ts';
import type { AdmissionRequest } from '../../admission/review/request.ts';
import type { CompiledState } from './compiled-state.ts';
import { createListeners } from '../listeners.ts';

export type PolicyState = CompiledState<CompiledPolicy>;

export type PolicyRegistry = ReturnType<typeof createPolicyRegistry>;

/** How long the API server may send requests for a removed policy, in milliseconds. Its watch lags far less. */
const RETIRED_MS = 60_000;

export function createPolicyRegistry(now: () => number) {
  const states = new Map<string, PolicyState>();
  const listeners = createListeners<[name: string]>();
  let retired: { readonly policy: CompiledPolicy; readonly until: number }[] = [];
  let current: PolicySet = buildPolicySet([]);
  const recentlyRetired = () => retired.filter(({ until }) => until > now()).map(({ policy }) => policy);

  const inForce = (): readonly CompiledPolicy[] =>
    [...states.values()].flatMap((state) => state.inForce ?? []);
  const changed = (name: string, before: PolicyState | undefined, after: PolicyState | undefined) => {
    if (before?.inForce !== after?.inForce) {
      retired = retired.filter(({ until }) => until > now());
      if (before?.inForce !== undefined) retired.push({ policy: before.inForce, until: now() + RETIRED_MS });
      current = buildPolicySet(inForce());
    }
    listeners.tell(name);
  };

  const select: PolicySet['select'] = (entry, request) => {
    const selection = current.select(entry, request);
    if (selection.kind === 'governed') return selection;
    const superseded = recentlyRetired().filter(({ name }) => states.get(name)?.inForce !== undefined);
    if (superseded.length === 0) return selection;
    const newest = new Map(superseded.map((policy) => [`${policy.entryId} ${policy.name}`, policy]));
    const before = buildPolicySet([...newest.values()]).select(entry, request);
    return before.kind === 'governed' ? before : selection;
  };

  return {
    set: (name: string, state: PolicyState): void => {
      const before = states.get(name);
      states.set(name, state);
      changed(name, before, state);
    },
    remove: (name: string): void => {
      const before = states.get(name);
      if (states.delete(name)) changed(name, before, undefined);
    },
    get: (name: string): PolicyState | undefined => states.get(name),
    inForce,
    /**
     * The policies that decide requests. After a policy changes its scope, the API server may still send requests by the
     * old scope. The old version decides those requests: otherwise no version would.
     */
    policySet: (): PolicySet => ({ select }),
    /** Whether a policy that governed this request was removed or replaced so recently that the API server may lag. */
    wasRetired: (entry: string, request: AdmissionRequest): boolean => {
      const recent = recentlyRetired();
      return recent.length > 0 && buildPolicySet(recent).select(entry, request).kind === 'governed';
    },
    /** Called after each change of a state. */
    subscribe: listeners.add,
  };
}

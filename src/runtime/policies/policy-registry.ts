/** The policies that this replica enforces, and the problems of those that it cannot enforce. */
import { isDeepStrictEqual } from 'node:util';

import { compilePolicy, type CompileEnvironment } from '../../admission/policy/compile.ts';
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { buildPolicySet, type PolicySet } from '../../admission/policy/validate.ts';
import type { AdmissionRequest } from '../../admission/review/request.ts';
import { NO_RELEASES, type ReleaseOf } from '../../admission/native/release.ts';
import { rulesOf, type InstalledRules } from '../../admission/webhooks/webhook-configurations.ts';
import type { CompiledState } from './compiled-state.ts';
import { createListeners } from '../listeners.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { unwatched, type Watched } from '../watch.ts';
import { memoizeWeak } from '../../json/json.ts';

export interface PolicyState extends CompiledState<CompiledPolicy> {
  readonly unserved?: string | undefined;
}

export type PolicyRegistry = ReturnType<typeof createPolicyRegistry>;

export interface Policies {
  readonly registry: PolicyRegistry;
  readonly policies: Watched<AdmissionPolicy>;
}

/** A version that was removed or replaced, while the API server may still send requests for it. */
interface Retired {
  readonly policy: CompiledPolicy;
  readonly set: PolicySet;
  readonly goneAt: number | undefined;
}

/** How long an API server may follow a configuration that has been replaced, in milliseconds: its watch may stall. */
const LAG_MS = 60_000;

const includes = (all: InstalledRules, some: InstalledRules) => [...some].every((rule) => all.has(rule));

interface ReadPolicies {
  readonly policies: Pick<Watched<AdmissionPolicy>, 'store' | 'hasSynced' | 'onChange'>;
  readonly environment: Pick<CompileEnvironment, 'ownNamespace'>;
}

/** For callers that compile every policy before they ask: a review of files, for example. */
const ALL_COMPILED: ReadPolicies = {
  policies: unwatched(),
  environment: { ownNamespace: '' },
};

export function createPolicyRegistry(
  now: () => number,
  { policies, environment }: ReadPolicies = ALL_COMPILED,
) {
  const states = new Map<string, PolicyState>();
  const listeners = createListeners<[name: string]>();
  /** Policies whose newest version is read but not compiled. Kept between requests, whose cost must not depend on their number. */
  let uncompiled: readonly AdmissionPolicy[] | undefined;
  const forgetUncompiled = (): void => {
    uncompiled = undefined;
  };
  policies.onChange(forgetUncompiled);
  listeners.add(forgetUncompiled);
  let releaseOf: ReleaseOf = NO_RELEASES;
  let retired: readonly Retired[] = [];
  let installed: InstalledRules | undefined;
  let current: PolicySet = buildPolicySet([]);

  const problem = (): string | undefined => {
    if (!policies.hasSynced()) return 'AdmissionPolicies have not been listed yet: are the CRDs installed?';
    const names = policies.store.list().map(({ metadata: { name = '' } }) => name);
    const unjudged = names.filter((name) => !states.has(name));
    return unjudged.length === 0 ? undefined : `not compiled yet: ${unjudged.join(', ')}`;
  };
  const inForce = (): readonly CompiledPolicy[] =>
    [...states.values()].flatMap((state) => state.inForce ?? []);
  const isInstalled = (policy: CompiledPolicy): boolean | undefined => {
    if (installed === undefined) return undefined;
    if (includes(installed, rulesOf([policy]))) return true;
    return releaseOf(policy) !== undefined && includes(installed, rulesOf([policy], releaseOf));
  };
  const lingers = ({ goneAt }: Retired) => goneAt === undefined || goneAt + LAG_MS > now();
  const lingering = () => retired.filter(lingers);
  const settle = () => {
    if (retired.length === 0) return;
    const wanted = rulesOf(inForce());
    const isStale = (rule: string) => installed?.has(rule) !== false && !wanted.has(rule);
    const isGone = ({ policy }: Retired) => {
      const successor = states.get(policy.name)?.inForce;
      const isReplaced = successor === undefined || isInstalled(successor) === true;
      return installed !== undefined && isReplaced && ![...rulesOf([policy])].some(isStale);
    };
    retired = lingering().map((one) => ({ ...one, goneAt: isGone(one) ? (one.goneAt ?? now()) : undefined }));
  };
  const retire = (policy: CompiledPolicy, successor: CompiledPolicy | undefined) => {
    const rules = rulesOf([policy]);
    if (successor !== undefined && includes(rulesOf([successor]), rules)) return;
    const isSame = (other: CompiledPolicy) =>
      other.name === policy.name && isDeepStrictEqual(rulesOf([other]), rules);
    const others = retired.filter((one) => !isSame(one.policy));
    retired = [{ policy, set: buildPolicySet([policy]), goneAt: undefined }, ...others];
  };
  const changed = (name: string, before: PolicyState | undefined, after: PolicyState | undefined) => {
    if (before?.inForce !== after?.inForce) {
      if (before?.inForce !== undefined) retire(before.inForce, after?.inForce);
      current = buildPolicySet(inForce());
      settle();
    }
    listeners.tell(name);
  };

  const selectKnown: PolicySet['select'] = (entry, request) => {
    const selection = current.select(entry, request);
    if (retired.length === 0) return selection;
    const newest = new Map(
      selection.kind === 'governed' ? selection.policies.map((one) => [one.name, one]) : [],
    );
    const known = newest.size;
    for (const { policy, set } of lingering()) {
      const isSuperseded = states.get(policy.name)?.inForce !== undefined && !newest.has(policy.name);
      if (isSuperseded && set.select(entry, request).kind === 'governed') newest.set(policy.name, policy);
    }
    if (newest.size === known) return selection;
    return { kind: 'governed', policies: [...newest.values()].sort((a, b) => (a.name < b.name ? -1 : 1)) };
  };
  const scopeOf = memoizeWeak((policy: AdmissionPolicy): PolicySet => {
    const result = compilePolicy(policy, { ...environment, resolve: () => undefined });
    return buildPolicySet([result.kind === 'compiled' ? result.policy : result.incomplete]);
  });
  /** Whether a version that is not compiled governs a request that no version of its policy decides. */
  const isAwaited = (
    entry: string,
    request: Parameters<PolicySet['select']>[1],
    deciding: readonly CompiledPolicy[],
  ): boolean => {
    uncompiled ??= policies.store
      .list()
      .filter(({ metadata: { name = '', generation = 0 } }) => states.get(name)?.generation !== generation);
    return uncompiled.some(
      (policy) =>
        !deciding.some(({ name }) => name === policy.metadata.name) &&
        scopeOf(policy).select(entry, request).kind === 'governed',
    );
  };
  const select: PolicySet['select'] = (entry, request) => {
    const selection = selectKnown(entry, request);
    if (selection.kind !== 'governed' || !isAwaited(entry, request, selection.policies)) return selection;
    return { kind: 'unknown-entry' };
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
    problem,
    leave: (of: ReleaseOf): void => {
      releaseOf = of;
    },
    observe: (rules: InstalledRules | undefined): void => {
      installed = rules;
      settle();
    },
    /** The rules of versions that decide until their successors are installed. */
    awaited: (): InstalledRules => {
      const decides = ({ policy: { name } }: Retired) => {
        const successor = states.get(name)?.inForce;
        return successor !== undefined && isInstalled(successor) !== true;
      };
      return rulesOf(retired.filter(decides).map(({ policy }) => policy));
    },
    isInstalled,
    /** The old scope decides its requests until the webhook configurations are replaced: otherwise no version would. */
    policySet: (): PolicySet => ({ select }),
    /** Never before other policies are compiled: one of them may have taken over the webhooks. */
    wasRetired: (entry: string, request: AdmissionRequest): boolean =>
      problem() === undefined &&
      !isAwaited(entry, request, []) &&
      lingering().some(({ set }) => set.select(entry, request).kind === 'governed'),
    subscribe: listeners.add,
  };
}

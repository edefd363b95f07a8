/** Policies whose newest version this replica has read but not compiled. The API server may already follow that version. */
import {
  compilePolicy,
  type CompiledPolicy,
  type CompileEnvironment,
} from '../../admission/policy/compile.ts';
import { buildPolicySet, type PolicySet } from '../../admission/policy/policy-set.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { memoizeWeak } from '../../json/objects.ts';
import type { Store } from '../../kube/store.ts';

/** Whether such a version governs a request from this entry, and no version of its policy is among those that decide. */
type IsAwaited = (
  entry: string,
  request: Parameters<PolicySet['select']>[1],
  deciding: readonly CompiledPolicy[],
) => boolean;

/** @param compiled the generation that was compiled last, by name */
export function createUncompiled(
  policies: Pick<Store<AdmissionPolicy>, 'list'>,
  compiled: { readonly get: (name: string) => { readonly generation: number } | undefined },
  environment: Pick<CompileEnvironment, 'ownNamespace'>,
) {
  /** Kept between requests, whose cost must not depend on the number of policies. */
  let uncompiled: readonly AdmissionPolicy[] | undefined;
  const scopeOf = memoizeWeak((policy: AdmissionPolicy): PolicySet => {
    const result = compilePolicy(policy, { ...environment, resolve: () => undefined });
    return buildPolicySet([result.kind === 'compiled' ? result.policy : result.incomplete]);
  });
  const isAwaited: IsAwaited = (entry, request, deciding) => {
    uncompiled ??= policies
      .list()
      .filter(({ metadata: { name = '', generation = 0 } }) => compiled.get(name)?.generation !== generation);
    return uncompiled.some(
      (policy) =>
        !deciding.some(({ name }) => name === policy.metadata.name) &&
        scopeOf(policy).select(entry, request).kind === 'governed',
    );
  };
  return {
    isAwaited,
    /** To be called after each change of a policy, and after each compilation. */
    refresh: (): void => {
      uncompiled = undefined;
    },
  };
}

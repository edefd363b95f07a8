/** On the leader: when a compiled policy may change, because the webhook judges its checks again. */
import { versionOf, type Confirmation, type ReleaseOf } from '../../admission/native/release.ts';
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import type { StoredPair } from './stored-policies.ts';

export interface TakeoverOptions {
  /** What the status of a policy says. */
  readonly confirmed: (name: string) => Confirmation | undefined;
  readonly releaseOf: ReleaseOf;
  readonly isInstalled: PolicyRegistry['isInstalled'];
  readonly monotonic: () => number;
}

/**
 * How long the webhook must have been responsible, in milliseconds: replicas read the status, and API servers the webhook
 * configurations, by a watch that usually lags far less.
 */
const LAG_MS = 5_000;

export function createTakeover({ confirmed, releaseOf, isInstalled, monotonic }: TakeoverOptions) {
  /** Since when the webhook judges every check of this version. */
  const responsible = new Map<string, { readonly policy: CompiledPolicy; readonly since: number }>();
  /** The last confirmation that this leader has seen, by policy. */
  const last = new Map<string, Confirmation>();

  return {
    observe: (policies: readonly CompiledPolicy[]): void => {
      const names = new Set(policies.map(({ name }) => name));
      for (const known of [responsible, last])
        for (const name of known.keys()) if (!names.has(name)) known.delete(name);
      for (const policy of policies) {
        const { name } = policy;
        const confirmation = confirmed(name);
        if (confirmation !== undefined) last.set(name, confirmation);
        const isResponsible =
          confirmation === undefined && releaseOf(policy) === undefined && isInstalled(policy) === true;
        if (!isResponsible) responsible.delete(name);
        else if (responsible.get(name)?.policy !== policy)
          responsible.set(name, { policy, since: monotonic() });
      }
    },
    /**
     * Whether the stored objects may be changed or deleted. Objects that others have changed or deleted since the
     * confirmation are repaired at once: no replica relies on them.
     */
    mayChange: ({ name }: CompiledPolicy, pairName: string, stored: StoredPair | undefined): boolean => {
      if (stored?.policy === undefined || stored.binding === undefined) return true;
      const { since } = responsible.get(name) ?? {};
      if (since !== undefined && monotonic() - since >= LAG_MS) return true;
      const confirmation = last.get(name);
      // A former leader may have withdrawn a confirmation, and may not have widened the webhook entry.
      if (confirmation === undefined) return false;
      const [policy, binding] = [versionOf(stored.policy), versionOf(stored.binding)];
      return !confirmation.pairs.some(
        (one) => one.name === pairName && one.policy === policy && one.binding === binding,
      );
    },
  };
}

/**
 * On every replica, with --compile-policies: which checks the webhook leaves to the API server. The leader confirms that the
 * API server enforces a compiled policy, in the status of the AdmissionPolicy. A replica compiles the policy itself and relies
 * on that only while the API server stores exactly the confirmed objects, compiled from the version that the replica enforces.
 * Otherwise it judges every check.
 */
import {
  compileNative,
  oncePerVersion,
  type NativeOptions,
  type NativePolicy,
} from '../../admission/native/native-policy.ts';
import { INSTALLED_SELECTOR, installedOf, type Installed } from '../../admission/native/installed-policy.ts';
import {
  NO_RELEASES,
  versionOf,
  withoutNative,
  type Confirmation,
  type Release,
  type ReleaseOf,
} from '../../admission/native/release.ts';
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import {
  validatingAdmissionPolicies as POLICIES,
  validatingAdmissionPolicyBindings as BINDINGS,
} from '../../kube/well-known.ts';
import { createListeners, type Listeners } from '../listeners.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import { watch, type WatchContext, type Watched } from '../watch.ts';
import { restorersOf } from '../webhooks/restorers.ts';

export interface Releases {
  /** Undefined: the webhook judges every check of this version. */
  readonly of: ReleaseOf;
  readonly onChange: Listeners<[]>['add'];
}

const NONE: Releases = { of: NO_RELEASES, onChange: () => undefined };

interface Parts {
  readonly registry: Pick<PolicyRegistry, 'inForce' | 'subscribe'>;
  readonly policies: Pick<Watched<AdmissionPolicy>, 'store' | 'onChange' | 'failure'>;
  readonly detectors: Pick<Watched<RestoreDetector>, 'store' | 'onChange' | 'hasSynced' | 'failure'>;
}

export function startReleases(
  context: WatchContext & {
    readonly config: { readonly namespace: string; readonly compilePolicies: boolean };
  },
  parts: Parts,
  signal: AbortSignal,
): Releases {
  const { namespace, compilePolicies } = context.config;
  if (!compilePolicies) return NONE;
  const { registry, policies, detectors } = parts;
  const listeners = createListeners<[]>();
  let releases: ReadonlyMap<string, Release> = new Map();
  let stored: ReturnType<typeof watchStored> | undefined;
  const compile = oncePerVersion(compileReleasable);

  const refresh = (): void => {
    const confirmed = registry
      .inForce()
      .filter(({ name }) => policies.store.get(name)?.status?.confirmed !== undefined);
    // An API server that does not serve these kinds has never confirmed one.
    if (confirmed.length > 0) stored ??= watchStored(context, refresh, listeners.tell, signal);
    const restorers = restorersOf(detectors.store);
    const next = confirmed.flatMap((policy): readonly (readonly [string, Release])[] => {
      const confirmation = policies.store.get(policy.name)?.status?.confirmed;
      const compiled = compile(policy, { ownNamespace: namespace, restorers });
      const release = stored && compiled && releaseOf(policy, compiled, confirmation, stored);
      return release === undefined ? [] : [[policy.name, release]];
    });
    const isSame =
      next.length === releases.size &&
      next.every(([name, one]) => {
        const before = releases.get(name);
        return before?.policy === one.policy && before.digest === one.digest;
      });
    releases = new Map(next);
    if (!isSame) listeners.tell();
  };
  policies.onChange(refresh);
  detectors.onChange(refresh);
  registry.subscribe(refresh);
  const isCurrent = () =>
    detectors.hasSynced() &&
    [policies, detectors, ...(stored ?? [])].every((one) => one.failure() === undefined);
  return {
    of: (policy) => {
      const release = releases.get(policy.name);
      return release?.policy === policy && isCurrent() ? release : undefined;
    },
    onChange: listeners.add,
  };
}

/** @param onFailure what is stored may be out of date, or is known again */
function watchStored(
  context: WatchContext,
  onChange: () => void,
  onFailure: () => void,
  signal: AbortSignal,
) {
  const watches = [POLICIES, BINDINGS].map((resource) =>
    watch<KubeObject>(context, { resource, labelSelector: INSTALLED_SELECTOR, onChange, onFailure }, signal),
  );
  for (const { whenSynced } of watches) whenSynced(signal).then(onChange, () => undefined); // rejects when the signal aborts
  return watches;
}

interface Compiled extends Pick<Release, 'restorers'>, Pick<NativePolicy, 'checks'> {
  readonly pairs: readonly Installed[];
}

function compileReleasable(policy: CompiledPolicy, options: NativeOptions): Compiled | undefined {
  const { name, undecidable, spec } = policy;
  if (undecidable !== undefined || spec.compile === 'Never') return undefined;
  const { checks, pairs } = compileNative(policy, options);
  const installed = pairs.map((pair) => installedOf(pair, { name, uid: '' }));
  return { checks, pairs: installed, restorers: options.restorers };
}

function releaseOf(
  policy: CompiledPolicy,
  { checks, pairs, restorers }: Compiled,
  confirmed: Confirmation | undefined,
  [policies, bindings]: readonly Watched<KubeObject>[],
): Release | undefined {
  if (confirmed?.generation !== policy.generation) return undefined;
  const isStored = (object: KubeObject | undefined, version: string) =>
    object !== undefined && object.metadata?.deletionTimestamp === undefined && versionOf(object) === version;
  const enforced = pairs.filter(({ name, digest }) =>
    confirmed.pairs.some(
      (one) =>
        one.name === name &&
        one.digest === digest &&
        isStored(policies?.store.get(name), one.policy) &&
        isStored(bindings?.store.get(name), one.binding),
    ),
  );
  if (enforced.length === 0) return undefined;
  return {
    ...{ policy, restorers, digest: enforced.map(({ digest }) => digest).join(' ') },
    remaining: withoutNative(policy, checks, new Set(enforced.map(({ part }) => part))),
  };
}

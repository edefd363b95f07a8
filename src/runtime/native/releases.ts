/**
 * Which checks the webhook leaves to the API server: only while that stores exactly the confirmed objects, compiled
 * from the version that this replica enforces.
 */
import { changesObjects } from '../../admission/native/changes/change-order.ts';
import {
  compileNative,
  isMutating,
  oncePerVersion,
  type NativeOptions,
  type NativePolicy,
} from '../../admission/native/native-policy.ts';
import { INSTALLED_SELECTOR, installedOf, type Installed } from '../../admission/native/installed-policy.ts';
import {
  NO_RELEASES,
  versionOf,
  warnedIn,
  withoutNative,
  type Confirmation,
  type Release,
  type ReleaseOf,
} from '../../admission/native/release.ts';
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { Resource } from '../../kube/object.ts';
import { createListeners } from '../listeners.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import { watch, type WatchContext, type Watched } from '../watch.ts';
import { restorersOf } from '../restores/restore-kinds.ts';
import { MUTATING, VALIDATING } from './stored-policies.ts';

export type Releases = ReturnType<typeof startReleases>;

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
) {
  const { namespace, compilePolicies } = context.config;
  if (!compilePolicies) return { of: NO_RELEASES, onChange: () => undefined };
  const { registry, policies, detectors } = parts;
  const listeners = createListeners<[]>();
  let releases: ReadonlyMap<string, Release> = new Map();
  let validating: StoredKinds | undefined;
  let mutating: StoredKinds | undefined;
  const compile = oncePerVersion(compileReleasable);

  const refresh = (): void => {
    const inForce = registry.inForce();
    const statusOf = ({ name }: CompiledPolicy) => policies.store.get(name)?.status;
    const confirmationOf = (policy: CompiledPolicy) => statusOf(policy)?.confirmed;
    const confirmed = inForce.filter((policy) => confirmationOf(policy) !== undefined);
    // An API server that does not serve these kinds has never confirmed one.
    if (confirmed.length > 0) validating ??= watchStored(context, VALIDATING, refresh, onFailure, signal);
    if (confirmed.some((policy) => confirmationOf(policy)?.pairs.some(({ name }) => isMutating(name))))
      mutating ??= watchStored(context, MUTATING, refresh, onFailure, signal);
    const restorers = restorersOf(detectors.store);
    const others = inForce.filter(changesObjects);
    const next = confirmed.flatMap((policy): readonly (readonly [string, Release])[] => {
      const warned = warnedIn(policy.generation, statusOf(policy));
      const compiled = compile(policy, { ownNamespace: namespace, restorers, others, warned });
      const release =
        compiled &&
        releaseOf(policy, compiled, confirmationOf(policy), (name) =>
          currentOf(isMutating(name) ? mutating : validating),
        );
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
  const onFailure = (): void => {
    refresh();
    listeners.tell();
  };
  policies.onChange(refresh);
  detectors.onChange(refresh);
  registry.subscribe(refresh);
  const isCurrent = () =>
    detectors.hasSynced() && [policies, detectors].every((one) => one.failure() === undefined);
  return {
    /** Undefined: the webhook judges every check of this version. */
    of: ((policy) => {
      const release = releases.get(policy.name);
      return release?.policy === policy && isCurrent() ? release : undefined;
    }) satisfies ReleaseOf,
    onChange: listeners.add,
  };
}

type StoredKinds = ReturnType<typeof watchStored>;

function watchStored(
  context: WatchContext,
  kinds: typeof VALIDATING,
  onChange: () => void,
  onFailure: () => void,
  signal: AbortSignal,
) {
  const start = (resource: Resource) => {
    const options = { resource, labelSelector: INSTALLED_SELECTOR, onChange, onFailure };
    const watched = watch<KubeObject>(context, options, signal);
    watched.whenSynced(signal).then(onChange, () => undefined); // rejects when the signal aborts
    return watched;
  };
  return { policies: start(kinds.policy), bindings: start(kinds.binding) };
}

const currentOf = (stored: StoredKinds | undefined): StoredKinds | undefined =>
  stored?.policies.failure() === undefined && stored?.bindings.failure() === undefined ? stored : undefined;

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
  storedFor: (name: string) => StoredKinds | undefined,
): Release | undefined {
  if (confirmed?.generation !== policy.generation) return undefined;
  const isStored = (object: KubeObject | undefined, version: string) =>
    object !== undefined && object.metadata?.deletionTimestamp === undefined && versionOf(object) === version;
  const enforced = pairs.filter(({ name, digest }) =>
    confirmed.pairs.some(
      (one) =>
        one.name === name &&
        one.digest === digest &&
        isStored(storedFor(name)?.policies.store.get(name), one.policy) &&
        isStored(storedFor(name)?.bindings.store.get(name), one.binding),
    ),
  );
  if (enforced.length === 0) return undefined;
  return {
    policy,
    restorers,
    digest: enforced.map(({ digest }) => digest).join(' '),
    remaining: withoutNative(policy, checks, new Set(enforced.map(({ part }) => part))),
  };
}

/**
 * On the leader, with --compile-policies: installs the checks that the API server can enforce itself. Every check has
 * a judge at every moment: before a confirmed policy changes, the leader withdraws the confirmation and waits until
 * the webhook judges again.
 */
import { isDeepStrictEqual } from 'node:util';

import { changesObjects } from '../../admission/native/changes/change-order.ts';
import { inWebhook, type NativePart, type WebhookCheck } from '../../admission/native/native-check.ts';
import {
  compileNative,
  keepWarned,
  nativeNames,
  oncePerVersion,
  withoutMutating,
  type NativePolicy,
} from '../../admission/native/native-policy.ts';
import {
  enforcersOf,
  enforcesAsWanted,
  installedOf,
  TYPES_UNCHECKED,
  warnedBy,
  type Enforcer,
  type Installed,
} from '../../admission/native/installed-policy.ts';
import {
  versionOf,
  warnedIn,
  type Confirmation,
  type ConfirmedPair,
  type ReleaseOf,
} from '../../admission/native/release.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { messageOf } from '../../json/abort.ts';
import { textIn } from '../../json/json.ts';
import type { KubeObject, OwnerReference } from '../../json/kube-object.ts';
import { insteadOf, isConflict, isNotFound } from '../../kube/api-error.ts';
import type { Store } from '../../kube/store.ts';
import { apiServices } from '../../kube/well-known.ts';
import { requeueIn, startController, type LeaderContext, type Reconcile } from '../controller.ts';
import type { Installation } from '../webhooks/installation.ts';
import { restorersOf, type RestoreKinds } from '../restores/restore-kinds.ts';
import { refusable, WriteRefused } from '../write-refused.ts';
import { createConfirmer, PENDING, type ProbeOptions } from './confirm.ts';
import {
  BeingRemoved,
  ForeignObject,
  install,
  readStored,
  remove,
  type StoredPair,
  type StoredPoliciesOptions,
} from './stored-policies.ts';
import type { Releases } from './releases.ts';
import type { Policies, PolicyRegistry } from '../policies/policy-registry.ts';

export interface Enforcement {
  readonly enforcedBy: readonly Enforcer[];
  readonly confirmed: Confirmation | undefined;
}

interface NativePoliciesOptions
  extends StoredPoliciesOptions, Omit<ProbeOptions, 'client'>, Omit<TakeoverOptions, 'confirmed'> {
  readonly inForce: () => readonly CompiledPolicy[];
  readonly policies: Pick<Store<AdmissionPolicy>, 'get'>;
  readonly detectors: Pick<Store<RestoreDetector>, 'list'>;
  readonly ownNamespace: string;
  readonly installation: Pick<Installation, 'owner' | 'obstacle' | 'isChanging'>;
  readonly report: (name: string, enforcement: Enforcement) => void;
}

const CONFIRM_MS = 1_000;
const RETRY_MS = 10_000;
/** How often to compare: others can edit and delete the objects, and Kubernetes can be upgraded. */
const COMPARE_MS = 60_000;

interface Settled {
  readonly obstacle: (part: NativePart) => string | undefined;
  readonly confirmed: Confirmation | undefined;
  /** The next pass removes them from the policy of the API server, once the status contains them. */
  readonly warned: readonly WebhookCheck[];
}

const UNCONFIRMED = { confirmed: undefined, warned: [] };

const unsettled = (reason: string): Settled => ({ obstacle: () => reason, ...UNCONFIRMED });

const TAKING_OVER = 'the webhook takes over before the policy of the API server changes';

export function createNativePoliciesReconciler(options: NativePoliciesOptions): Reconcile {
  const { detectors, ownNamespace, installation, report, now, policies } = options;
  const confirmed = (name: string) => policies.get(name)?.status?.confirmed;
  const confirmer = createConfirmer(options);
  const takeover = createTakeover({ ...options, confirmed });
  const aggregatedGroups = createAggregatedGroups(options);
  // A pass compares all policies, every second while one is not confirmed.
  const compile = oncePerVersion(compileNative);

  const settle = async (
    wanted: Wanted,
    stored: ReadonlyMap<string, StoredPair>,
    signal: AbortSignal,
  ): Promise<Settled> => {
    const { policy, pairs } = wanted;
    const changes = changesOf(policy, pairs, stored);
    if (!changes.every(({ name }) => takeover.mayChange(policy, name, stored.get(name))))
      return unsettled(TAKING_OVER);
    for (const { name, isWanted } of changes) {
      const found = stored.get(name);
      if (!isWanted && found !== undefined) await remove(name, found, options, signal);
    }
    const obstacles = new Map<NativePart, string | undefined>();
    const enforced: ConfirmedPair[] = [];
    const warned: WebhookCheck[] = [];
    for (const pair of pairs) {
      const failed = (error: unknown) => ({ obstacle: explain(error, signal), ...UNCONFIRMED });
      const found = await enforce(wanted, pair, stored.get(pair.name), signal).catch(failed);
      obstacles.set(pair.part, found.obstacle);
      warned.push(...found.warned);
      if (found.obstacle === undefined && found.confirmed !== undefined) enforced.push(found.confirmed);
    }
    const { generation } = policy;
    const confirmed = enforced.length === 0 ? undefined : { generation, pairs: enforced };
    const remembered = warned.map((check) => ({ ...check, warnedGeneration: generation }));
    return { obstacle: (part) => obstacles.get(part), confirmed, warned: remembered };
  };

  const enforce = async (
    { policy, checks }: Wanted,
    { name, digest, ...wanted }: Installed,
    stored: StoredPair | undefined,
    signal: AbortSignal,
  ) => {
    const live = await install(wanted, stored, options, signal);
    const warned = warnedBy(live.policy, wanted, checks);
    if (warned.length > 0) return { obstacle: TAKING_OVER, confirmed: undefined, warned };
    const pair = { name, digest, policy: versionOf(live.policy), binding: versionOf(live.binding) };
    const { answersProbes: answers } = wanted;
    const subject = { pair, policy: live.policy, answers };
    const known = confirmed(policy.name)?.pairs.find((one) => one.name === name);
    const { objectSelector } = policy.match;
    const obstacle = await confirmer.obstacle({ ...subject, objectSelector }, known, signal);
    return { obstacle, confirmed: pair, warned };
  };

  return async (_key, signal) => {
    const owner = await installation.owner(signal);
    // What the role owned keeps its references, so that the garbage collector deletes it.
    if (owner === undefined && installation.isChanging()) return requeueIn(CONFIRM_MS, now());
    const restorers = restorersOf(detectors);
    const inForce = options.inForce();
    takeover.observe(inForce);
    const others = inForce.filter(changesObjects);
    const aggregated = await aggregatedGroups(signal);
    const possible = inForce.flatMap((policy) => {
      const { metadata, status } = policies.get(policy.name) ?? {};
      const warned = warnedIn(policy.generation, status);
      const settings = { ownNamespace, restorers, others, warned };
      const compileNow = (one: CompiledPolicy) => compile(one, settings);
      return wantedOf(policy, metadata?.uid, { owner, aggregated, compile: compileNow });
    });
    const found = await readStored(options, signal);
    if (typeof found === 'string') {
      confirmer.keepOnly(new Set());
      for (const { policy, checks } of possible)
        report(policy.name, { enforcedBy: enforcersOf(checks, () => found), confirmed: undefined });
      return requeueIn(COMPARE_MS, now());
    }
    const { pairs: stored, mutatingProblem } = found;
    const wanted =
      mutatingProblem === undefined ? possible : possible.map((one) => withoutMutating(one, mutatingProblem));
    confirmer.keepOnly(new Set(wanted.flatMap(({ pairs }) => pairs.map(({ name }) => name))));
    let again = COMPARE_MS;
    for (const one of wanted) {
      const state = await settle(one, stored, signal).catch((error: unknown) =>
        unsettled(explain(error, signal)),
      );
      if (one.pairs.length === 0 && changesOf(one.policy, [], stored).length > 0) again = CONFIRM_MS;
      again = Math.min(again, ...one.pairs.map(({ part }) => retryAfter(state.obstacle(part))));
      const enforcedBy = enforcersOf(keepWarned(one.checks, state.warned), state.obstacle);
      report(one.policy.name, { enforcedBy, confirmed: state.confirmed });
    }
    // What is installed for policies that cannot be evaluated at the moment stays.
    const kept = new Set(inForce.flatMap(({ name }) => nativeNames(name)));
    for (const [name, pair] of stored) if (!kept.has(name)) await remove(name, pair, options, signal);
    return requeueIn(again, now());
  };
}

function retryAfter(obstacle: string | undefined): number {
  if (obstacle === undefined) return COMPARE_MS;
  return [PENDING, TAKING_OVER, TYPES_UNCHECKED].includes(obstacle) ? CONFIRM_MS : RETRY_MS;
}

function changesOf(
  policy: CompiledPolicy,
  pairs: readonly Installed[],
  stored: ReadonlyMap<string, StoredPair>,
): readonly { readonly name: string; readonly isWanted: boolean }[] {
  return nativeNames(policy.name).flatMap((name) => {
    const found = stored.get(name);
    const wanted = pairs.find((pair) => pair.name === name);
    const isDone =
      wanted === undefined
        ? found === undefined
        : found?.policy !== undefined &&
          found.binding !== undefined &&
          enforcesAsWanted(found.policy, wanted.policy) &&
          enforcesAsWanted(found.binding, wanted.binding);
    return isDone ? [] : [{ name, isWanted: wanted !== undefined }];
  });
}

function explain(error: unknown, signal: AbortSignal): string {
  signal.throwIfAborted();
  if ([BeingRemoved, ForeignObject, WriteRefused].some((kind) => error instanceof kind))
    return messageOf(error);
  if (isConflict(error)) return 'another client has just changed it';
  throw error;
}

interface Wanted extends Pick<NativePolicy, 'checks'> {
  readonly policy: CompiledPolicy;
  readonly pairs: readonly Installed[];
}

interface Wanting {
  readonly owner: OwnerReference | undefined;
  readonly aggregated: readonly string[] | string;
  readonly compile: (policy: CompiledPolicy) => NativePolicy;
}

/** Nothing for a policy that cannot be evaluated: the webhook refuses everything in its scope. */
function wantedOf(
  policy: CompiledPolicy,
  uid: string | undefined,
  { owner, aggregated, compile }: Wanting,
): readonly Wanted[] {
  const { name, undecidable } = policy;
  if (undecidable !== undefined || uid === undefined) return [];
  const { checks, pairs } = compile(policy);
  const reason = reasonForWebhook(policy, aggregated);
  if (reason === undefined)
    return [{ policy, checks, pairs: pairs.map((pair) => installedOf(pair, { name, uid }, owner)) }];
  return [{ policy, checks: checks.map(({ check }) => inWebhook(check, reason)), pairs: [] }];
}

function reasonForWebhook(
  { spec, match }: CompiledPolicy,
  aggregated: Wanting['aggregated'],
): string | undefined {
  if (spec.compile === 'Never') return 'spec.compile is Never';
  if (typeof aggregated === 'string') return aggregated;
  const group = aggregated.find((one) => match.apiGroups.some((own) => own === one || own.includes('*')));
  return group === undefined
    ? undefined
    : `an aggregated API server serves ${group}, and whether it enforces compiled policies is unknown`;
}

/** Their objects cannot be written, and almost every cluster has one of them. */
const METRICS = ['metrics.k8s.io', 'custom.metrics.k8s.io', 'external.metrics.k8s.io'];

/** Probes reach the API servers of Kubernetes only, and those don't check what they forward. @returns or why it is unknown */
function createAggregatedGroups({ client, monotonic }: Pick<NativePoliciesOptions, 'client' | 'monotonic'>) {
  let known: { readonly groups: readonly string[]; readonly at: number } | undefined;
  return async (signal: AbortSignal): Promise<readonly string[] | string> => {
    if (known !== undefined && monotonic() - known.at < RETRY_MS) return known.groups;
    known = undefined;
    const at = monotonic();
    const listing = refusable(() => client.listAll<KubeObject>(apiServices, { signal }));
    const listed = await listing.catch((error: unknown) => {
      if (error instanceof WriteRefused) return error.message;
      return insteadOf(isNotFound, { items: [] })(error);
    });
    if (typeof listed === 'string') return listed;
    const groups = listed.items
      .filter((service) => textIn(service, 'spec', 'service', 'name') !== '')
      .map((service) => textIn(service, 'spec', 'group'))
      .filter((group) => !METRICS.includes(group));
    known = { groups, at };
    return groups;
  };
}

export function startNativePolicies(
  context: LeaderContext,
  {
    registry,
    policies,
    releases,
    detectors,
  }: Policies & Pick<RestoreKinds, 'detectors'> & { readonly releases: Releases },
  installation: Installation,
  onChange: (name: string) => void,
  signal: AbortSignal,
) {
  const { client, discovery, config, log } = context;
  const enforcements = new Map<string, Enforcement>();
  const reconcile = createNativePoliciesReconciler({
    client,
    discovery,
    installation,
    log,
    policies: policies.store,
    detectors: detectors.store,
    inForce: registry.inForce,
    isInstalled: registry.isInstalled,
    releaseOf: releases.of,
    ownNamespace: config.namespace,
    report: (name, next) => {
      if (isDeepStrictEqual(enforcements.get(name), next)) return;
      enforcements.set(name, next);
      onChange(name);
    },
    now: () => new Date(),
    monotonic: () => performance.now(),
  });
  registry.subscribe((name) => {
    if (registry.get(name) === undefined) enforcements.delete(name);
  }, signal);
  const others = [policies, detectors, releases, installation];
  const on = [registry.subscribe, ...others.map((one) => one.onChange)];
  const options = { name: 'native-policies', key: 'all', on, reconcile };
  const { stopped } = startController(context, options, signal);
  return { enforcementOf: (name: string): Enforcement | undefined => enforcements.get(name), stopped };
}

interface TakeoverOptions {
  readonly confirmed: (name: string) => Confirmation | undefined;
  readonly releaseOf: ReleaseOf;
  readonly isInstalled: PolicyRegistry['isInstalled'];
  readonly monotonic: () => number;
}

/** In milliseconds: replicas and API servers read by watches that usually lag far less. */
const LAG_MS = 5_000;

interface KnownPolicy {
  readonly policy: CompiledPolicy;
  /** Since when the webhook judges every check of this version; undefined: it does not. */
  readonly since: number | undefined;
  readonly last: Confirmation | undefined;
}

/** When a compiled policy may change, because the webhook judges its checks again. */
export function createTakeover({ confirmed, releaseOf, isInstalled, monotonic }: TakeoverOptions) {
  const known = new Map<string, KnownPolicy>();
  return {
    observe: (policies: readonly CompiledPolicy[]): void => {
      const names = new Set(policies.map(({ name }) => name));
      for (const name of known.keys()) if (!names.has(name)) known.delete(name);
      for (const policy of policies) {
        const { name } = policy;
        const before = known.get(name);
        const confirmation = confirmed(name);
        const isResponsible =
          confirmation === undefined && releaseOf(policy) === undefined && isInstalled(policy) === true;
        const earlier = before?.policy === policy ? before.since : undefined;
        const since = isResponsible ? (earlier ?? monotonic()) : undefined;
        known.set(name, { policy, last: confirmation ?? before?.last, since });
      }
    },
    /** Objects that others have changed since the confirmation are repaired immediately: no replica relies on them. */
    mayChange: ({ name }: CompiledPolicy, pairName: string, stored: StoredPair | undefined): boolean => {
      if (stored?.policy === undefined || stored.binding === undefined) return true;
      const { since, last } = known.get(name) ?? {};
      if (since !== undefined && monotonic() - since >= LAG_MS) return true;
      // A former leader may have withdrawn a confirmation without widening the webhook entry.
      if (last === undefined) return false;
      const [policy, binding] = [versionOf(stored.policy), versionOf(stored.binding)];
      return !last.pairs.some(
        (one) => one.name === pairName && one.policy === policy && one.binding === binding,
      );
    },
  };
}

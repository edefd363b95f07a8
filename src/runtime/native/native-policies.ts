/**
 * On the leader, with --compile-policies: installs the checks that the API server can enforce itself, as
 * ValidatingAdmissionPolicies, confirms that it enforces them, and removes those that no AdmissionPolicy needs any more.
 *
 * Every check has a judge at every moment. The webhook lets go only after the confirmation, which stands in the status of the
 * AdmissionPolicy. Before a confirmed policy of the API server changes, the leader withdraws the confirmation, and waits until
 * the webhook judges again.
 */
import { isDeepStrictEqual } from 'node:util';

import { compileNative } from '../../admission/native/native-policy.ts';
import {
  enforcersOf,
  installedOf,
  isAsWanted,
  type Enforcer,
  type Installed,
} from '../../admission/native/installed-policy.ts';
import { versionOf, type Confirmation } from '../../admission/native/release.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { Store } from '../../kube/store.ts';
import {
  validatingAdmissionPolicies as POLICIES,
  validatingAdmissionPolicyBindings as BINDINGS,
} from '../../kube/well-known.ts';
import { requeueIn, startController, type LeaderContext, type Reconcile } from '../controller.ts';
import type { Replica } from '../webhook-process.ts';
import { restorersOf } from '../webhooks/restorers.ts';
import { WriteRefused } from '../write-refused.ts';
import { createConfirmer, type ProbeOptions } from './confirm.ts';
import {
  ForeignObject,
  install,
  listInstalled,
  remove,
  type StoredPair,
  type StoredPoliciesOptions,
} from './stored-policies.ts';
import { createTakeover, type TakeoverOptions } from './takeover.ts';

/** Who enforces a policy, for its status. */
export interface Enforcement {
  readonly enforcedBy: readonly Enforcer[];
  /** Undefined: the webhook judges every check. */
  readonly confirmed: Confirmation | undefined;
}

export interface NativePoliciesOptions
  extends StoredPoliciesOptions, Omit<ProbeOptions, 'client'>, Omit<TakeoverOptions, 'confirmed'> {
  readonly discovery: Pick<Discovery, 'servedIn'>;
  /** The versions in force. */
  readonly inForce: () => readonly CompiledPolicy[];
  readonly policies: Pick<Store<AdmissionPolicy>, 'get'>;
  readonly detectors: Pick<Store<RestoreDetector>, 'list'>;
  readonly ownNamespace: string;
  /** Called when who enforces a policy changes. */
  readonly report: (name: string, enforcement: Enforcement) => void;
}

/** How soon to look again whether a new policy is confirmed, in milliseconds. */
const CONFIRM_MS = 1_000;
/** How often to compare: others can edit and delete the objects, and Kubernetes can be upgraded. */
const COMPARE_MS = 60_000;
const UNSERVED = 'the API server serves no ValidatingAdmissionPolicies: it does from Kubernetes 1.30 on';

/** What a pass found out about a policy. */
interface Settled {
  /** Why the API server enforces none of its checks; undefined: it enforces those that it can. */
  readonly obstacle: string | undefined;
  readonly confirmation?: Confirmation;
}

const TAKING_OVER = 'the webhook takes over before the policy of the API server changes';

export function createNativePoliciesReconciler(options: NativePoliciesOptions): Reconcile {
  const { detectors, ownNamespace, report, now, policies } = options;
  const confirmed = (name: string) => policies.get(name)?.status?.confirmed;
  const confirmer = createConfirmer(options);
  const takeover = createTakeover({ ...options, confirmed });

  const settle = async (
    { policy, installed }: Wanted,
    stored: StoredPair | undefined,
    signal: AbortSignal,
  ): Promise<Settled> => {
    if (installed === undefined) return { obstacle: undefined };
    const isWanted =
      stored?.policy !== undefined &&
      stored.binding !== undefined &&
      isAsWanted(stored.policy, installed.policy) &&
      isAsWanted(stored.binding, installed.binding);
    if (!isWanted && !takeover.mayChange(policy, stored)) return { obstacle: TAKING_OVER };
    const live = await install(installed, stored, options, signal);
    const confirmation = {
      ...{ generation: policy.generation, digest: installed.digest },
      ...{ policy: versionOf(live.policy), binding: versionOf(live.binding) },
    };
    const { objectSelector } = policy.match;
    const subject = { name: policy.name, confirmation, policy: live.policy, objectSelector };
    const obstacle = await confirmer.obstacle(
      { ...subject, enforcement: policy.enforcement },
      confirmed(policy.name),
      signal,
    );
    return { obstacle, confirmation };
  };

  return async (_key, signal) => {
    const restorers = restorersOf(detectors);
    const inForce = options.inForce();
    takeover.observe(inForce);
    const wanted = inForce.flatMap((policy) => wantedOf(policy, policies, { ownNamespace, restorers }));
    const stored = await readStored(options, signal);
    if (stored === undefined) {
      for (const { policy, checks } of wanted)
        report(policy.name, { enforcedBy: enforcersOf(checks, UNSERVED), confirmed: undefined });
      return requeueIn(COMPARE_MS, now());
    }
    let isSettled = true;
    for (const one of wanted) {
      const { policy, checks, name } = one;
      const { obstacle, confirmation } = await settle(one, stored.get(name), signal).catch(
        (error: unknown): Settled => ({ obstacle: explain(error, signal) }),
      );
      if (obstacle !== undefined) isSettled = false;
      report(policy.name, {
        enforcedBy: enforcersOf(checks, obstacle),
        confirmed: obstacle === undefined ? confirmation : undefined,
      });
    }
    for (const [name, pair] of stored) {
      const policy = inForce.find((one) => nameOf(one) === name);
      // Also what is installed for policies that cannot be evaluated at the moment stays.
      if (policy?.undecidable !== undefined || wanted.some((one) => one.name === name && one.installed))
        continue;
      if (policy === undefined || takeover.mayChange(policy, pair)) await remove(name, pair, options, signal);
      else isSettled = false;
    }
    return requeueIn(isSettled ? COMPARE_MS : CONFIRM_MS, now());
  };
}

/** Undefined: the API server does not serve the kinds. */
async function readStored(
  options: NativePoliciesOptions,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, StoredPair> | undefined> {
  const served = await options.discovery.servedIn(POLICIES.group, signal);
  if (![POLICIES, BINDINGS].every((kind) => served.some((one) => isDeepStrictEqual(one, kind))))
    return undefined;
  try {
    return await listInstalled(options, signal);
  } catch (error) {
    if (isNotFound(error)) return undefined; // discovery is cached
    throw error;
  }
}

/** Of the compiled policy and its binding. */
const nameOf = ({ name }: CompiledPolicy): string => `${name}.policies.gatehouse.dev`;

/** @throws errors that are no obstacle of one policy */
function explain(error: unknown, signal: AbortSignal): string {
  signal.throwIfAborted();
  if (error instanceof ForeignObject || error instanceof WriteRefused) return error.message;
  if (isConflict(error)) return 'another client has just changed it';
  throw error;
}

interface Wanted extends Pick<ReturnType<typeof compileNative>, 'checks'> {
  readonly policy: CompiledPolicy;
  /** Of the compiled policy. */
  readonly name: string;
  /** Undefined: the webhook judges every check. */
  readonly installed: Installed | undefined;
}

/** Nothing for a policy that cannot be evaluated: the webhook refuses everything in its scope. */
function wantedOf(
  policy: CompiledPolicy,
  policies: NativePoliciesOptions['policies'],
  options: Parameters<typeof compileNative>[1],
): readonly Wanted[] {
  const uid = policies.get(policy.name)?.metadata.uid;
  if (policy.undecidable !== undefined || uid === undefined) return [];
  const { checks, objects } = compileNative(policy, options);
  const common = { policy, name: nameOf(policy) };
  if (policy.spec.compile !== 'Never')
    return [{ ...common, checks, installed: installedOf(objects, { name: policy.name, uid }) }];
  const reason = 'spec.compile is Never';
  const left = checks.map(({ check }) => ({ check, by: 'Webhook' as const, reason }));
  return [{ ...common, checks: left, installed: undefined }];
}

const KEY = 'all';

/** @param onChange called with the name of a policy when who enforces it changes */
export function startNativePolicies(
  context: LeaderContext,
  {
    registry,
    releases,
    policies,
    detectors,
  }: Pick<Replica, 'registry' | 'releases' | 'policies' | 'detectors'>,
  onChange: (name: string) => void,
  signal: AbortSignal,
) {
  const { client, discovery, config, log } = context;
  const enforcements = new Map<string, Enforcement>();
  const reconcile = createNativePoliciesReconciler({
    ...{ client, discovery, log, policies: policies.store, detectors: detectors.store },
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
  const controller = startController(context, { name: 'native-policies', reconcile }, signal);
  const refresh = () => controller.add(KEY);
  registry.subscribe((name) => {
    if (registry.get(name) === undefined) enforcements.delete(name);
    refresh();
  }, signal);
  policies.onChange(refresh, signal);
  detectors.onChange(refresh, signal);
  releases.onChange(refresh, signal);
  refresh();
  return {
    enforcementOf: (name: string): Enforcement | undefined => enforcements.get(name),
    stopped: controller.stopped,
  };
}

/**
 * On the leader, with --compile-policies: installs the checks that the API server can enforce itself, as
 * ValidatingAdmissionPolicies, and removes those that no AdmissionPolicy needs any more. The webhook keeps judging every
 * check: what both refuse is refused twice, and what only one of them knows yet is refused too.
 */
import { isDeepStrictEqual } from 'node:util';

import { compileNative, nativeNames } from '../../admission/native/native-policy.ts';
import {
  enforcersOf,
  INSTALLED_SELECTOR,
  isAsWanted,
  isInstalledByUs,
  obstacleOf,
  toInstalled,
  type Enforcer,
} from '../../admission/native/installed-policy.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { messageOf } from '../../json/error-message.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { isConflict } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { Resource } from '../../kube/object.ts';
import type { Store } from '../../kube/store.ts';
import {
  validatingAdmissionPolicies as POLICIES,
  validatingAdmissionPolicyBindings as BINDINGS,
} from '../../kube/well-known.ts';
import type { Log } from '../../log.ts';
import { requeueIn, startController, type LeaderContext, type Reconcile } from '../controller.ts';
import type { Replica } from '../webhook-process.ts';
import { restorersOf } from '../webhooks/webhook-configurations.ts';
import { refusable, WriteRefused } from '../write-refused.ts';

export interface NativePoliciesOptions {
  readonly client: Pick<KubeClient, 'listAll' | 'get' | 'create' | 'replace' | 'delete'>;
  readonly discovery: Pick<Discovery, 'servedIn'>;
  /** The versions in force. */
  readonly inForce: () => readonly CompiledPolicy[];
  readonly policies: Pick<Store<AdmissionPolicy>, 'get'>;
  readonly detectors: Pick<Store<RestoreDetector>, 'list'>;
  readonly ownNamespace: string;
  /** Called when who enforces a policy changes. */
  readonly report: (name: string, enforcers: readonly Enforcer[]) => void;
  readonly now: () => Date;
  readonly log: Log;
}

/** The manifest that grants all permissions for compiled policies. */
const ROLE = 'deploy/components/compile-policies/role.yaml';
/** How soon to look again whether a new policy is confirmed, in milliseconds. */
const CONFIRM_MS = 2_000;
/** How often to compare: others can edit and delete the objects, and Kubernetes can be upgraded. */
const COMPARE_MS = 60_000;
const UNSERVED = 'the API server serves no ValidatingAdmissionPolicies: it does from Kubernetes 1.30 on';

export function createNativePoliciesReconciler(options: NativePoliciesOptions): Reconcile {
  const { client, discovery, detectors, ownNamespace, report, now } = options;
  return async (_key, signal) => {
    const restorers = restorersOf(detectors);
    const wanted = options
      .inForce()
      .flatMap((policy) => wantedOf(policy, options.policies, { ownNamespace, restorers }));
    const served = await discovery.servedIn(POLICIES.group, signal);
    if (![POLICIES, BINDINGS].every((kind) => served.some((one) => isDeepStrictEqual(one, kind)))) {
      for (const { name, checks } of wanted) report(name, enforcersOf(checks, UNSERVED));
      return requeueIn(COMPARE_MS, now());
    }
    const list = async (kind: Resource) =>
      (await client.listAll(kind, { labelSelector: INSTALLED_SELECTOR, signal })).items.filter(
        isInstalledByUs,
      );
    const stored = await refusable(ROLE, async () => ({
      policies: byName(await list(POLICIES)),
      bindings: byName(await list(BINDINGS)),
    }));
    let isConfirmed = true;
    for (const { name, checks, objects } of wanted) {
      const obstacle = await install(objects, stored, options, signal);
      if (objects.length > 0 && obstacle !== undefined) isConfirmed = false;
      report(name, enforcersOf(checks, obstacle));
    }
    await prune(stored, new Set(keptNames(wanted, options)), options, signal);
    return requeueIn(isConfirmed ? COMPARE_MS : CONFIRM_MS, now());
  };
}

type Stored = Readonly<Record<'policies' | 'bindings', ReadonlyMap<string, KubeObject>>>;
interface Wanted {
  readonly name: string;
  readonly checks: ReturnType<typeof compileNative>['checks'];
  readonly objects: readonly KubeObject[];
}

const byName = (objects: readonly KubeObject[]): ReadonlyMap<string, KubeObject> =>
  new Map(objects.map((object) => [object.metadata?.name ?? '', object]));

/** Nothing for a policy that cannot be evaluated: the webhook refuses everything in its scope. */
function wantedOf(
  policy: CompiledPolicy,
  policies: NativePoliciesOptions['policies'],
  options: Parameters<typeof compileNative>[1],
): readonly Wanted[] {
  const { name } = policy;
  const uid = policies.get(name)?.metadata.uid;
  if (policy.undecidable !== undefined || uid === undefined) return [];
  const { checks, pairs } = compileNative(policy, options);
  const objects = pairs.flatMap((pair) => [pair.policy, pair.binding]);
  if (policy.spec.compile !== 'Never')
    return [{ name, checks, objects: objects.map((object) => toInstalled(object, { name, uid })) }];
  const reason = 'spec.compile is Never';
  return [{ name, checks: checks.map(({ check }) => ({ check, by: 'Webhook', reason })), objects: [] }];
}

/** Also what is installed for policies that cannot be evaluated at the moment. */
const keptNames = (wanted: readonly Wanted[], { inForce }: NativePoliciesOptions): readonly string[] => [
  ...wanted.flatMap(({ objects }) => objects.map(({ metadata }) => metadata?.name ?? '')),
  ...inForce().flatMap(({ name, undecidable }) => (undecidable === undefined ? [] : nativeNames(name))),
];

/** A policy first: without it, its binding has no effect. @returns why the API server does not enforce them yet */
async function install(
  objects: readonly KubeObject[],
  stored: Stored,
  options: NativePoliciesOptions,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    let obstacle: string | undefined;
    for (const object of objects) {
      const isPolicy = object.kind === POLICIES.kind;
      const kind = isPolicy ? POLICIES : BINDINGS;
      const live = await ensure(kind, object, stored[isPolicy ? 'policies' : 'bindings'], options, signal);
      if (isPolicy) obstacle ??= obstacleOf(live);
    }
    return obstacle;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof ForeignObject || error instanceof WriteRefused) return error.message;
    if (isConflict(error)) return 'another client has just changed it';
    throw error;
  }
}

/** Another client made an object with our name, such as `gatehouse manifests --vap` in a GitOps repository. */
class ForeignObject extends Error {}

/** @returns the object as the API server stores it. @throws ForeignObject, WriteRefused */
async function ensure(
  kind: Resource,
  wanted: KubeObject,
  known: ReadonlyMap<string, KubeObject>,
  { client, log }: NativePoliciesOptions,
  signal: AbortSignal,
): Promise<KubeObject> {
  const name = wanted.metadata?.name ?? '';
  const stored = known.get(name) ?? (await client.get<KubeObject>(kind, { name }, { signal }));
  if (stored !== undefined && !isInstalledByUs(stored))
    throw new ForeignObject(`there is a ${kind.kind} ${name} that Gatehouse has not installed`);
  if (stored !== undefined && isAsWanted(stored, wanted)) return stored;
  log.info({ kind: kind.kind, name }, 'wrote a compiled policy');
  return await refusable(ROLE, async () => {
    if (stored === undefined) return await client.create(kind, wanted, { signal });
    const labels = { ...stored.metadata?.labels, ...wanted.metadata?.labels };
    const { ownerReferences = [] } = wanted.metadata ?? {};
    const metadata = { ...stored.metadata, labels, ownerReferences };
    return await client.replace(kind, { ...stored, ...wanted, metadata }, { signal });
  });
}

/** The binding first: then the policy has no effect. */
async function prune(
  { policies, bindings }: Stored,
  kept: ReadonlySet<string>,
  { client, log }: NativePoliciesOptions,
  signal: AbortSignal,
): Promise<void> {
  for (const [kind, objects] of [
    [BINDINGS, bindings],
    [POLICIES, policies],
  ] as const) {
    for (const [name, { metadata = {} }] of objects) {
      if (kept.has(name)) continue;
      const { uid, resourceVersion } = metadata;
      try {
        await client.delete(kind, { name }, { preconditions: { uid, resourceVersion }, signal });
        log.info({ kind: kind.kind, name }, 'removed a compiled policy');
      } catch (error) {
        if (!isConflict(error)) throw error;
        log.debug({ kind: kind.kind, name, reason: messageOf(error) }, 'a compiled policy has just changed');
      }
    }
  }
}

const KEY = 'all';

/** @param onChange called with the name of a policy when who enforces it changes */
export function startNativePolicies(
  context: LeaderContext,
  { registry, policies, detectors }: Pick<Replica, 'registry' | 'policies' | 'detectors'>,
  onChange: (name: string) => void,
  signal: AbortSignal,
) {
  const { client, discovery, config, log } = context;
  const enforcers = new Map<string, readonly Enforcer[]>();
  const reconcile = createNativePoliciesReconciler({
    ...{ client, discovery, log, policies: policies.store, detectors: detectors.store },
    inForce: registry.inForce,
    ownNamespace: config.namespace,
    report: (name, next) => {
      if (isDeepStrictEqual(enforcers.get(name), next)) return;
      enforcers.set(name, next);
      onChange(name);
    },
    now: () => new Date(),
  });
  const controller = startController(context, { name: 'native-policies', reconcile }, signal);
  const refresh = () => controller.add(KEY);
  registry.subscribe((name) => {
    if (registry.get(name) === undefined) enforcers.delete(name);
    refresh();
  }, signal);
  policies.onChange(refresh, signal);
  detectors.onChange(refresh, signal);
  refresh();
  return {
    enforcersOf: (name: string): readonly Enforcer[] | undefined => enforcers.get(name),
    stopped: controller.stopped,
  };
}

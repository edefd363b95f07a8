/** On the leader: pauses what open RestoreWindows name, and undoes it after their final sweep. */
import { someOf } from '../../../json/counted.ts';

import type { RestoreWindow } from '../../../api/restore-window.ts';
import { groupResourceName, keyOf, type GroupResource, type KubeObject } from '../../../json/kube-object.ts';
import { secrets } from '../../../kube/well-known.ts';
import {
  type Sign,
  planQuiesce,
  undoOrder,
  type Undoable,
  QUIESCE_LABEL,
  type QuiescePlan,
  activeRules,
  appliesTo,
  kindOf,
  placesOfRule,
  type ActiveRule,
} from '../../../restore/quiesce/plan.ts';
import type { Secret } from '../../../pki/serving-certs/secret.ts';
import {
  AWAIT_CHANGE,
  requeueIn,
  startController,
  type LeaderContext,
  type Reconcile,
} from '../../controller.ts';
import { listIn } from '../../namespaces.ts';
import { RESTORE_WINDOWS } from '../../resources.ts';
import { served } from '../../policies/world.ts';
import { createReadRecords, READS_SECRET } from '../../policies/read-records.ts';
import { updateStatus, condition, type ConditionUpdate } from '../window-status.ts';
import type { RestoreKinds } from '../restore-kinds.ts';
import type { QuiesceRule } from '../../../api/quiesce.ts';
import { counted } from '../../../json/counted.ts';
import { messageOf } from '../../../json/abort.ts';
import { mapConcurrent } from '../../../json/map-concurrent.ts';
import { verifiedDiff } from '../../../json/json-diff.ts';
import { uniqueBy, type JsonObject } from '../../../json/json.ts';
import { unchanged } from '../../../restore/owner-links.ts';
import { mayBePaused, QUIESCED, UNDONE } from '../../../restore/window.ts';
import { isForbidden } from '../../../kube/api-error.ts';
import { createPatch } from '../relink-owners.ts';

/** While a window is open: objects may be created, restored or changed. In milliseconds. */
const OPEN_MS = 2_000;
const RETRY_MS = 1_000;
/** While no window is open: a paused object may come from a backup. In milliseconds. */
const IDLE_MS = 10 * 60_000;
const FIELD_MANAGER = 'gatehouse-quiesce';

export type QuiesceWorld = ReturnType<typeof createWorld>;

function createWorld(
  context: LeaderContext,
  { windows, detectors }: RestoreKinds,
  settleMs: (window: RestoreWindow) => number,
  user: () => string,
) {
  const { client, discovery, config, serverClock, namespaces } = context;
  const { now } = serverClock;
  return {
    windows: windows.store.list,
    liveWindows: async (stop: AbortSignal) =>
      (await client.listAll<RestoreWindow>(RESTORE_WINDOWS, { signal: stop })).items,
    /** Of all detectors: an object in a backup may be paused without a window that names its kind. */
    rules: (): readonly QuiesceRule[] => detectors.store.list().flatMap(({ spec }) => spec.quiesce ?? []),
    list: async (
      kind: GroupResource,
      labels: Readonly<Record<string, string>>,
      places: readonly string[] | undefined,
      stop: AbortSignal,
    ) => {
      const resource = await served(discovery, kind, stop);
      const labelSelector = Object.entries(labels)
        .map(([key, value]) => `${key}=${value}`)
        .join(',');
      const covered = places?.filter((one) => namespaces?.includes(one) ?? true) ?? namespaces;
      return await listIn<KubeObject>(client, resource, covered, { labelSelector, signal: stop });
    },
    patch: createPatch(client, discovery, FIELD_MANAGER),
    sign: async (stop: AbortSignal) => await signWith(client, config.namespace, stop),
    /** Writes the condition if it differs. @throws if the window has changed */
    report: async (window: RestoreWindow, update: ConditionUpdate, stop: AbortSignal) => {
      // `Ready` repeats the message of this condition.
      const verified = window.status?.conditions?.find(({ type }) => type === 'IntegrityVerified');
      const updates = verified === undefined ? [update] : [update, verified];
      await updateStatus(window, {}, updates, { client, now }, stop);
    },
    settleMs,
    ownNamespace: config.namespace,
    now,
    permissionsFor: (kinds: readonly GroupResource[]) => permissionsFor(kinds, user()),
  };
}

export function startQuiesce(
  context: LeaderContext,
  kinds: RestoreKinds,
  settleMs: (window: RestoreWindow) => number,
  signal: AbortSignal,
) {
  let user: string | undefined;
  const defaultUser = `system:serviceaccount:${context.config.namespace}:gatehouse-controllers`;
  const world = createWorld(context, kinds, settleMs, () => user ?? defaultUser);
  const { now } = context.serverClock;
  const reconcile: Reconcile = async (_key, stop) => {
    user ??= await context.userName(stop);
    switch (await quiescePass(world, stop)) {
      case 'open':
        return requeueIn(OPEN_MS, now());
      case 'failed':
        return requeueIn(RETRY_MS, now());
      case 'idle':
        return world.rules().length === 0 ? AWAIT_CHANGE : requeueIn(IDLE_MS, now());
    }
  };
  const on = [kinds.windows.onChange, kinds.detectors.onChange];
  return startController(context, { name: 'restore-quiesce', key: 'all', on, reconcile }, signal);
}

/** @throws while the Secret with the key does not exist */
async function signWith(
  client: Pick<LeaderContext['client'], 'get'>,
  namespace: string,
  signal: AbortSignal,
): Promise<Sign> {
  const found = await client.get<Secret>(secrets, { namespace, name: READS_SECRET }, { signal });
  const sign = createReadRecords(() => found?.data).quiesce();
  if (sign === undefined)
    throw new Error(`Secret ${READS_SECRET}: the key is missing, so nothing is paused or undone`);
  return sign;
}

/** For the account of the leader only: the webhook replicas pause nothing. @param user the name of that account */
export function permissionsFor(kinds: readonly GroupResource[], user: string): string {
  const rules = kinds.flatMap(({ group, resource }) => [
    `  - apiGroups: [${JSON.stringify(group)}]`,
    `    resources: [${resource}]`,
    '    verbs: [list, patch]',
    // The backstop (deploy/components/backstop) lets Gatehouse pause only these workloads.
    '  - apiGroups: [gatehouse.dev]',
    '    resources: [quiescedkinds]',
    `    resourceNames: [${groupResourceName({ group, resource })}]`,
    '    verbs: [pause]',
  ]);
  const [, namespace, name] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(user) ?? [];
  const subject =
    namespace === undefined || name === undefined
      ? `{ kind: User, apiGroup: rbac.authorization.k8s.io, name: ${JSON.stringify(user)} }`
      : `{ kind: ServiceAccount, namespace: ${namespace}, name: ${name} }`;
  return [
    `Gatehouse lacks permission to list, patch and pause ${kinds.map(groupResourceName).join(', ')}. Apply:`,
    'apiVersion: rbac.authorization.k8s.io/v1',
    'kind: ClusterRole',
    'metadata: { name: gatehouse-quiesce }',
    'rules:',
    ...rules,
    '---',
    'apiVersion: rbac.authorization.k8s.io/v1',
    'kind: ClusterRoleBinding',
    'metadata: { name: gatehouse-quiesce }',
    'roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gatehouse-quiesce }',
    `subjects: [${subject}]`,
  ].join('\n');
}

const AT_ONCE = 16;

interface Outcome {
  paused: number;
  readonly overridden: string[];
  readonly foreign: string[];
  readonly failures: string[];
  readonly forbidden: GroupResource[];
}

interface Pass {
  readonly world: QuiesceWorld;
  readonly active: readonly ActiveRule[];
  readonly sign: Sign;
  readonly signal: AbortSignal;
}

/** `open`: a window pauses. `failed`: something is left. @throws the first failed write of a status, after all windows */
export async function quiescePass(world: QuiesceWorld, signal: AbortSignal) {
  const windows = world.windows();
  const active = activeIn(windows, world);
  if (world.rules().length === 0 && windows.every(({ spec }) => spec.quiesce === undefined)) return 'idle';
  const pass: Pass = { world, active, sign: await world.sign(signal), signal };
  const ended = windows.filter(
    (window) => mayBePaused(window) && !active.some((one) => one.window === window),
  );
  const undone = await undoAll(ended, pass);
  const outcomes = [undone];
  const errors: unknown[] = [];
  const each = async (some: readonly RestoreWindow[], act: (window: RestoreWindow) => Promise<void>) => {
    for (const window of some)
      await act(window).catch((error: unknown) => {
        signal.throwIfAborted();
        errors.push(error);
      });
  };
  await each(ended, (window) => world.report(window, undoCondition(undone, world), signal));
  const pausing = windows.filter((window) => active.some((one) => one.window === window && one.pauses));
  await each(pausing, async (window) => {
    if (window.status?.conditions?.some(({ type }) => type === QUIESCED) !== true) {
      // Before the first write: a deleted window then stays until it is undone. The written window arrives as a change.
      const begun = condition(QUIESCED, 'Unknown', 'Pausing', 'objects are being paused');
      await world.report(window, begun, signal);
      outcomes.push({ ...emptyOutcome(), failures: ['not started'] });
      return;
    }
    const outcome = emptyOutcome();
    outcomes.push(outcome);
    for (const rule of active.filter((one) => one.window === window)) await pauseRule(rule, outcome, pass);
    await world.report(window, pauseCondition(outcome, world), signal);
  });
  if (errors.length > 0) throw errors[0];
  const isFailed = outcomes.some(({ failures, forbidden }) => failures.length + forbidden.length > 0);
  return isFailed ? 'failed' : active.length > 0 ? 'open' : 'idle';
}

const emptyOutcome = (): Outcome => ({ paused: 0, overridden: [], foreign: [], failures: [], forbidden: [] });

interface Selection {
  readonly kind: GroupResource;
  readonly labels: Readonly<Record<string, string>>;
  readonly places: readonly string[] | undefined;
}

/** Owners before their dependents, then in reverse order of the rules. */
async function undoAll(ended: readonly RestoreWindow[], pass: Pass): Promise<Outcome> {
  const { world, signal } = pass;
  const outcome = emptyOutcome();
  const rulesOf = (window: RestoreWindow) =>
    (window.spec.quiesce ?? []).map((rule) => ({ rule, places: placesOfRule({ rule, window }) }));
  // By their labels, because a user may have removed ours.
  const selected = ended
    .flatMap(rulesOf)
    .map(({ rule, places }) => ({ kind: kindOf(rule), labels: rule.matchLabels ?? {}, places }));
  const named = [
    ...world.windows().flatMap(rulesOf),
    ...world.rules().map((rule) => ({ rule, places: rule.namespaces })),
  ].map(({ rule, places }) => ({ kind: kindOf(rule), labels: { [QUIESCE_LABEL]: 'true' }, places }));
  const all = [
    ...selected.toReversed(),
    ...uniqueBy(named.toReversed(), ({ kind, places }) => JSON.stringify([kind, places])),
  ];
  const found: Undoable[] = [];
  for (const [rank, selection] of all.entries())
    for (const object of await listed(selection, outcome, pass)) {
      const plan = planOf({ kind: selection.kind, object }, pass);
      if (plan.kind === 'undo') found.push({ kind: selection.kind, object, rank });
      if (plan.kind === 'none' && plan.state === 'foreign') note(plan.state, object, outcome);
    }
  if (found.length === 0) return outcome;
  // A webhook replica may have paused an object for a window that this process has not seen yet.
  const current = { ...pass, active: activeIn(await world.liveWindows(signal), world) };
  const kept = new Set<string>();
  for (const level of undoOrder(found))
    await mapConcurrent(level, AT_ONCE, async (one) => {
      const { metadata: { uid = '', ownerReferences = [] } = {} } = one.object;
      const plan = planOf(one, current);
      const waits = ownerReferences.some((owner) => kept.has(owner.uid));
      if (plan.kind !== 'undo') return;
      if (waits || !(await apply(one.kind, one.object, plan, outcome, pass))) kept.add(uid);
    });
  return outcome;
}

const planOf = ({ kind, object }: Omit<Undoable, 'rank'>, pass: Pass): QuiescePlan =>
  planQuiesce(kind, object, rulesFor(kind, object, pass), pass.sign);

async function pauseRule(rule: ActiveRule, outcome: Outcome, pass: Pass): Promise<void> {
  const { group, resource } = rule;
  const kind = { group, resource };
  const selection = { kind, labels: rule.rule.matchLabels ?? {}, places: placesOfRule(rule) };
  const objects = await listed(selection, outcome, pass);
  const own = objects.filter((object) => appliesTo(rule, object, pass.world.ownNamespace));
  await mapConcurrent(own, AT_ONCE, async (object) => {
    // This rule first, then those that other windows have paused the object with.
    const plan = planQuiesce(kind, object, [rule, ...rulesFor(kind, object, pass)], pass.sign);
    if (plan.kind === 'pause') {
      if (await apply(kind, object, plan, outcome, pass)) outcome.paused += 1;
    } else if (plan.kind === 'none') note(plan.state, object, outcome);
  });
}

function note(
  state: Extract<QuiescePlan, { kind: 'none' }>['state'],
  object: KubeObject,
  outcome: Outcome,
): void {
  const name = keyOf(object);
  if (state === 'paused') outcome.paused += 1;
  else if (state === 'overridden') outcome.overridden.push(name);
  else if (state === 'foreign') outcome.foreign.push(name);
  else if (state === 'too-long')
    outcome.failures.push(`${name}: the previous value is too long to record, so the object is not paused`);
}

const activeIn = (
  windows: readonly RestoreWindow[],
  { now, settleMs }: Pick<QuiesceWorld, 'now' | 'settleMs'>,
): readonly ActiveRule[] => windows.flatMap((window) => activeRules(window, now(), settleMs(window)));

const rulesFor = (
  { group, resource }: GroupResource,
  object: KubeObject,
  { active, world }: Pass,
): readonly ActiveRule[] =>
  active.filter(
    (rule) =>
      rule.group === group && rule.resource === resource && appliesTo(rule, object, world.ownNamespace),
  );

async function listed(
  { kind, labels, places }: Selection,
  outcome: Outcome,
  { world, signal }: Pass,
): Promise<readonly KubeObject[]> {
  try {
    return await world.list(kind, labels, places, signal);
  } catch (error) {
    signal.throwIfAborted();
    if (isForbidden(error)) outcome.forbidden.push(kind);
    outcome.failures.push(`${groupResourceName(kind)}: ${messageOf(error)}`);
    return [];
  }
}

async function apply(
  kind: GroupResource,
  object: KubeObject,
  { after }: Extract<QuiescePlan, { kind: 'pause' | 'undo' }>,
  outcome: Outcome,
  { world, signal }: Pass,
): Promise<boolean> {
  const { namespace, name = '' } = object.metadata ?? {};
  const self = `${groupResourceName(kind)} ${keyOf(object)}`;
  // Otherwise the record could contain a wrong previous value.
  const operations = [...unchanged(object), ...verifiedDiff(object as JsonObject, after)]; // JSON, as received
  try {
    const written = await world.patch({ ...kind, namespace, name }, operations, signal);
    if (written.kind === 'patched') return true;
    if (written.kind === 'forbidden') outcome.forbidden.push(kind);
    outcome.failures.push(`${self}: ${written.message}`);
  } catch (error) {
    signal.throwIfAborted();
    outcome.failures.push(`${self}: ${messageOf(error)}`);
  }
  return false;
}

function problemOf(
  outcome: Outcome,
  world: QuiesceWorld,
): readonly [reason: string, message: string] | undefined {
  const kinds = uniqueBy(outcome.forbidden, groupResourceName);
  const answers = someOf(outcome.failures);
  // Not only RBAC refuses: the answers of the API server come first.
  if (kinds.length > 0) return ['Forbidden', `${answers}\n${world.permissionsFor(kinds)}`];
  return outcome.failures.length > 0 ? ['Failed', answers] : undefined;
}

function pauseCondition(outcome: Outcome, world: QuiesceWorld): ConditionUpdate {
  const problem = problemOf(outcome, world);
  if (problem !== undefined) return condition(QUIESCED, 'False', ...problem);
  const { paused, overridden, foreign } = outcome;
  if (overridden.length > 0) {
    const message = `others have changed the field again: ${someOf(overridden)}`;
    return condition(QUIESCED, 'False', 'Overridden', message);
  }
  if (foreign.length > 0) {
    return condition(QUIESCED, 'False', 'ForeignRecord', foreignMessage(foreign));
  }
  const message = `${counted(paused, 'object')} ${paused === 1 ? 'is' : 'are'} paused`;
  return condition(QUIESCED, 'True', 'Paused', message);
}

const foreignMessage = (objects: readonly string[]): string =>
  `${someOf([...new Set(objects)])}: another installation has paused them, or their record was changed or removed: after the restore, set the field and remove ${QUIESCE_LABEL}`;

function undoCondition(outcome: Outcome, world: QuiesceWorld): ConditionUpdate {
  const problem = problemOf(outcome, world);
  if (problem !== undefined) return condition(QUIESCED, 'Unknown', `Undo${problem[0]}`, problem[1]);
  const { foreign } = outcome;
  const message =
    foreign.length > 0 ? foreignMessage(foreign) : 'all objects have their previous values again';
  return condition(QUIESCED, 'False', UNDONE, message);
}

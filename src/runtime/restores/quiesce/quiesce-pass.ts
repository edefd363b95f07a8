/**
 * One pass over everything that open RestoreWindows pause. It compares before each write, so it may end anywhere: the
 * next pass, also of another leader, goes on from what the objects say.
 */
import type { QuiesceRule } from '../../../api/quiesce.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { counted } from '../../../json/counted.ts';
import { messageOf } from '../../../json/error-message.ts';
import {
  groupResourceName,
  objectKey,
  type GroupResource,
  type KubeObject,
} from '../../../json/kube-object.ts';
import { mapConcurrent } from '../../../json/map-concurrent.ts';
import { uniqueBy } from '../../../json/objects.ts';
import { planQuiesce, QUIESCE_LABEL, type QuiescePlan, type Sign } from '../../../restore/quiesce/plan.ts';
import {
  activeRules,
  appliesTo,
  kindOf,
  placesOfRule,
  type ActiveRule,
} from '../../../restore/quiesce/rules.ts';
import { isPaused, QUIESCED, UNDONE } from '../../../restore/window.ts';
import { isForbidden } from '../../../kube/api-error.ts';
import type { PatchGuarded } from '../relink.ts';
import { condition, type ConditionUpdate } from '../window-status.ts';

export interface QuiesceWorld {
  readonly windows: () => readonly RestoreWindow[];
  /** The rules of all detectors: an object in a backup may be paused without a window that names its kind. */
  readonly rules: () => readonly QuiesceRule[];
  /** Live. @param places undefined: all namespaces */
  readonly list: (
    kind: GroupResource,
    labels: Readonly<Record<string, string>>,
    places: readonly string[] | undefined,
    signal: AbortSignal,
  ) => Promise<readonly KubeObject[]>;
  readonly patch: PatchGuarded;
  readonly sign: (signal: AbortSignal) => Promise<Sign>;
  /** Writes the condition if it differs. @throws if the window has changed */
  readonly report: (window: RestoreWindow, update: ConditionUpdate, signal: AbortSignal) => Promise<void>;
  readonly settleMs: (window: RestoreWindow) => number;
  readonly ownNamespace: string;
  readonly now: () => Date;
  /** The permissions to grant for these kinds. @param refusal what the API server answered */
  readonly permissionsFor: (kinds: readonly GroupResource[]) => string;
}

/** `open`: a window pauses. `failed`: something is left to do. */
export type PassResult = 'idle' | 'open' | 'failed';

/** Limit for objects that are written at the same time. */
const AT_ONCE = 16;

/** What happened to the objects of one rule. */
interface Outcome {
  paused: number;
  readonly overridden: string[];
  readonly foreign: string[];
  readonly failures: string[];
  readonly forbidden: GroupResource[];
}

interface Pass {
  readonly world: QuiesceWorld;
  /** The rules of open windows. */
  readonly active: readonly ActiveRule[];
  readonly sign: Sign;
  readonly signal: AbortSignal;
}

/** @throws the first failed write of a status, after all windows */
export async function quiescePass(world: QuiesceWorld, signal: AbortSignal): Promise<PassResult> {
  const windows = world.windows();
  const active = windows.flatMap((window) => activeRules(window, world.now(), world.settleMs(window)));
  if (world.rules().length === 0 && windows.every(({ spec }) => spec.quiesce === undefined)) return 'idle';
  const pass: Pass = { world, active, sign: await world.sign(signal), signal };
  const ended = windows.filter((window) => isPaused(window) && !active.some((one) => one.window === window));
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
    if (!isPaused(window)) {
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

/** Objects to look at: of one kind, with these labels, in these namespaces (undefined: in all). */
interface Selection {
  readonly kind: GroupResource;
  readonly labels: Readonly<Record<string, string>>;
  readonly places: readonly string[] | undefined;
}

/** In reverse order: the last rule that paused is undone first. */
async function undoAll(ended: readonly RestoreWindow[], pass: Pass): Promise<Outcome> {
  const { world } = pass;
  const outcome = emptyOutcome();
  const rulesOf = (window: RestoreWindow) =>
    (window.spec.quiesce ?? []).map((rule) => ({ rule, places: placesOfRule({ rule, window }) }));
  // By their labels, because a user may have removed ours.
  for (const { rule, places } of ended.flatMap(rulesOf).toReversed())
    await undoSelected({ kind: kindOf(rule), labels: rule.matchLabels, places }, outcome, pass);
  const named = [
    ...world.windows().flatMap(rulesOf),
    ...world.rules().map((rule) => ({ rule, places: rule.namespaces })),
  ].map(({ rule, places }) => ({ kind: kindOf(rule), labels: { [QUIESCE_LABEL]: 'true' }, places }));
  for (const one of uniqueBy(named.toReversed(), ({ kind, places }) => JSON.stringify([kind, places])))
    await undoSelected(one, outcome, pass);
  return outcome;
}

async function undoSelected(selection: Selection, outcome: Outcome, pass: Pass): Promise<void> {
  const { kind } = selection;
  await mapConcurrent(await listed(selection, outcome, pass), AT_ONCE, async (object) => {
    const plan = planQuiesce(kind, object, rulesFor(kind, object, pass), pass.sign);
    if (plan.kind === 'undo') await apply(kind, object, plan, outcome, pass);
  });
}

async function pauseRule(rule: ActiveRule, outcome: Outcome, pass: Pass): Promise<void> {
  const { group, resource } = rule;
  const kind = { group, resource };
  const selection = { kind, labels: rule.rule.matchLabels, places: placesOfRule(rule) };
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
  const name = objectKey(object.metadata ?? {});
  if (state === 'paused') outcome.paused += 1;
  else if (state === 'overridden') outcome.overridden.push(name);
  else if (state === 'foreign') outcome.foreign.push(name);
}

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

/** Whether the plan was written. A conflict is left to the next pass. */
async function apply(
  kind: GroupResource,
  object: KubeObject,
  { operations }: Extract<QuiescePlan, { kind: 'pause' | 'undo' }>,
  outcome: Outcome,
  { world, signal }: Pass,
): Promise<boolean> {
  const { namespace, name = '' } = object.metadata ?? {};
  const self = `${groupResourceName(kind)} ${objectKey({ namespace, name })}`;
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

const MOST_NAMES = 5;
const some = (names: readonly string[]): string =>
  `${names.slice(0, MOST_NAMES).join(', ')}${names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : ''}`;

function problemOf(
  outcome: Outcome,
  world: QuiesceWorld,
): readonly [reason: string, message: string] | undefined {
  const kinds = uniqueBy(outcome.forbidden, groupResourceName);
  const answers = some(outcome.failures);
  // Not only RBAC refuses: the answers of the API server come first.
  if (kinds.length > 0) return ['Forbidden', `${answers}\n${world.permissionsFor(kinds)}`];
  return outcome.failures.length > 0 ? ['Failed', answers] : undefined;
}

function pauseCondition(outcome: Outcome, world: QuiesceWorld): ConditionUpdate {
  const problem = problemOf(outcome, world);
  if (problem !== undefined) return condition(QUIESCED, 'False', ...problem);
  const { paused, overridden, foreign } = outcome;
  if (overridden.length > 0)
    return condition(
      QUIESCED,
      'False',
      'Overridden',
      `others have changed the field again: ${some(overridden)}`,
    );
  if (foreign.length > 0) {
    const message = `another installation has paused ${some(foreign)}: set the field there after the restore`;
    return condition(QUIESCED, 'False', 'ForeignRecord', message);
  }
  return condition(
    QUIESCED,
    'True',
    'Paused',
    `${counted(paused, 'object')} ${paused === 1 ? 'is' : 'are'} paused`,
  );
}

function undoCondition(outcome: Outcome, world: QuiesceWorld): ConditionUpdate {
  const problem = problemOf(outcome, world);
  return problem === undefined
    ? condition(QUIESCED, 'False', UNDONE, 'all objects have their previous values again')
    : condition(QUIESCED, 'Unknown', `Undo${problem[0]}`, problem[1]);
}

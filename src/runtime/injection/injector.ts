/** On the leader: injects the CA bundle into the objects of one kind that ask for it. Changes nothing else in them. */
import { pick } from '../../json/json.ts';
import { guardedJsonPatch, type KubeClient } from '../../kube/client.ts';
import { withKind, type Resource } from '../../kube/object.ts';
import { INJECTION_MANAGER } from '../../pki/annotations.ts';
import {
  handBackOperations,
  planInjection,
  textIn,
  wantedSlots,
  type InjectionPlan,
} from '../../pki/injection/plan.ts';
import { originName, type BundleSource } from '../../pki/injection/request.ts';
import type { BundleState } from '../../pki/injection/source.ts';
import type { InjectionTarget, TargetFields, TargetKind } from '../../pki/injection/target.ts';
import { isContended, nextAttempt, settledAt, type RevertHistory } from '../../pki/revert-backoff.ts';
import {
  AWAIT_CHANGE,
  createReminders,
  GONE,
  regarding,
  requeueIn,
  type Reconcile,
  type ReconcileResult,
  type RecordEvent,
  type Reminders,
} from '../controller.ts';
import type { Log } from '../../log.ts';
import { BUNDLE_REPAIRED, isDamaged } from '../certificates/ca-bundle.ts';
import { createRefusedWrites, refusable, REFUSED_RECHECK_MS, WriteRefused } from '../write-refused.ts';
import type { TargetRecords, TargetState, TargetStore } from './target-store.ts';

export interface InjectorContext {
  readonly client: Pick<KubeClient, 'apply' | 'patchMerge' | 'patchJson'>;
  readonly kind: TargetKind;
  readonly resource: Resource;
  readonly targets: Pick<TargetStore, 'read'>;
  readonly bundle: (source: BundleSource) => BundleState;
  readonly records: Pick<TargetRecords, 'report'>;
  readonly record: RecordEvent;
  readonly now: () => Date;
  readonly log: Log;
}

/** In-memory state of a target: a new leader finds everything that matters in the object. */
interface Memory {
  readonly problem?: string | undefined;
  /** The bundle of the latest `Injected` Event. */
  readonly announced?: string | undefined;
  /** The slots that hold the bundle. */
  readonly filled?: readonly string[];
  readonly reverts?: RevertHistory | undefined;
}

interface Task extends InjectorContext {
  readonly key: string;
  readonly object: InjectionTarget;
  readonly memory: Memory;
  readonly remember: (change: Memory) => void;
  readonly report: (state: TargetState) => void;
  readonly recordEvent: (type: 'Normal' | 'Warning', reason: string, message: string) => void;
  readonly reminders: Reminders;
  readonly signal: AbortSignal;
}

export function createInjector(context: InjectorContext): Reconcile {
  const { targets, kind, resource, records, record, now, log } = context;
  const memories = new Map<string, Memory>();
  const reminders = createReminders();
  const refusedWrites = createRefusedWrites(now);
  const tell = (object: InjectionTarget, type: 'Normal' | 'Warning', reason: string, message: string) => {
    record({ regarding: regarding(withKind(resource, object)), type, reason, message });
  };
  return async (key, signal) => {
    const object = await targets.read(key, signal);
    const { request } = object ?? {};
    const source = request?.kind === 'wanted' ? request.source : undefined;
    const bundle = source === undefined ? ({ kind: 'unknown' } as const) : context.bundle(source);
    const plan = object === undefined ? undefined : planInjection(kind, object, bundle);
    const released = object === undefined ? [] : releasedSlots(kind, object, memories.get(key));
    if (object !== undefined && released.length > 0) {
      log.info({ kind: kind.kind, key, slots: released }, 'released the CA bundle');
      tell(object, 'Normal', 'Released', releasedMessage(released));
      memories.set(key, { reverts: memories.get(key)?.reverts });
    }
    const memory = memories.get(key) ?? {};
    if (object === undefined || plan === undefined || plan.kind === 'none') {
      memories.delete(key);
      reminders.clear(key);
      refusedWrites.over(key);
      records.report(kind.kind, key, undefined);
      return GONE;
    }
    const task: Task = {
      ...context,
      key,
      object,
      memory,
      remember: (change) => memories.set(key, { ...memories.get(key), ...change }),
      report: (state) => records.report(kind.kind, key, state),
      recordEvent: (...event) => tell(object, ...event),
      reminders,
      signal,
    };
    const result = await refusedWrites.attempt(key, () => carryOut(plan, task));
    if (!(result instanceof WriteRefused)) return result;
    const { message } = result;
    if (reminders.isDue(key, message, now())) {
      task.recordEvent('Warning', 'InjectionRefused', `the CA bundle is not written: ${message}`);
      log.warn({ kind: kind.kind, key, problem: message }, 'the CA bundle of an object is not written');
    }
    return requeueIn(REFUSED_RECHECK_MS, now());
  };
}

async function carryOut(
  plan: Exclude<InjectionPlan, { kind: 'none' }>,
  task: Task,
): Promise<ReconcileResult> {
  switch (plan.kind) {
    case 'wait':
      task.report('stale');
      return AWAIT_CHANGE;
    case 'invalid':
      recordProblem(plan.problem, task);
      task.report('invalid');
      return AWAIT_CHANGE;
    case 'hand-back':
      await handBack(task);
      return AWAIT_CHANGE; // the watch reports the write as a change
    case 'current':
      recordProblem(plan.problem, task);
      return current(plan, task);
    case 'inject':
      recordProblem(plan.problem, task);
      return await inject(plan, task);
  }
}

async function inject(
  { stale, bundle, routine, problem }: Extract<InjectionPlan, { kind: 'inject' }>,
  task: Task,
): Promise<ReconcileResult> {
  const { key, object, memory, kind, now, log } = task;
  const attempt = nextAttempt(memory.reverts, contentOf(object, bundle), now());
  task.report(isContended(attempt.history) ? 'contended' : 'stale');
  if (attempt.kind === 'wait') {
    task.remember({ reverts: attempt.history });
    if (attempt.begins) {
      const message =
        'another client keeps removing the CA bundle, or its source keeps changing: Gatehouse restores it with increasing delays';
      task.recordEvent('Warning', 'CABundleContended', message);
      log.warn({ kind: kind.kind, key }, 'the CA bundle of an object is contended');
    }
    return { kind: 'requeue', at: attempt.until };
  }
  await refusable(() => write(task, kind.configuration(stale, bundle)));
  task.remember({ reverts: attempt.history, announced: bundle, filled: wantedNames(object) });
  task.reminders.clear(key);
  log.info({ kind: kind.kind, key, slots: stale }, 'injected the CA bundle');
  // Routine, even for a new leader: a rotation changes thousands of objects, and putting back a removed bundle is not news.
  if (!routine && memory.announced !== bundle)
    task.recordEvent('Normal', 'Injected', injectedMessage(object, stale));
  else if (object.slots.some((slot) => stale.includes(slot.name) && isDamaged(textIn(kind, slot))))
    task.recordEvent('Warning', 'BundleRepaired', BUNDLE_REPAIRED + inParentheses(stale));
  if (!isContended(attempt.history)) task.report(stateOf(problem));
  return AWAIT_CHANGE;
}

/** The owner of a source must not cause endless writes of objects that name it: all its bundles count as one content. */
function contentOf({ request }: InjectionTarget, bundle: string): string {
  const isForeign = request.kind === 'wanted' && request.source.kind === 'object';
  return isForeign ? originName(request.source) : bundle;
}

/** Applies only to the version that was read: a webhook that was removed since would come back as a name and a bundle. */
async function write(
  { client, resource, object, signal }: Task,
  { metadata, ...configuration }: TargetFields,
): Promise<void> {
  const options = { fieldManager: INJECTION_MANAGER, signal };
  const identity = pick(object.metadata ?? {}, 'name', 'namespace', 'resourceVersion');
  await client.apply(
    resource,
    { metadata: { ...metadata, ...identity }, ...configuration },
    { ...options, force: true },
  );
}

function current(
  { problem, until }: Extract<InjectionPlan, { kind: 'current' }>,
  task: Task,
): ReconcileResult {
  const { memory, now, report, remember, object } = task;
  const { reverts } = memory;
  remember({ filled: wantedNames(object) });
  if (isContended(reverts)) {
    const at = settledAt(reverts);
    if (now() < at) {
      report('contended');
      return { kind: 'requeue', at };
    }
    remember({ reverts: undefined });
  }
  report(stateOf(problem));
  return until === undefined ? AWAIT_CHANGE : { kind: 'requeue', at: until };
}

async function handBack({ client, resource, object, signal }: Task): Promise<void> {
  const { namespace, name = '' } = object.metadata ?? {};
  const operations = guardedJsonPatch(object, handBackOperations(object));
  await refusable(() =>
    client.patchJson(resource, { namespace, name }, operations, { fieldManager: INJECTION_MANAGER, signal }),
  );
}

const wantedNames = (target: InjectionTarget): readonly string[] =>
  wantedSlots(target).map(({ name }) => name);

function releasedSlots({ kind }: TargetKind, target: InjectionTarget, { filled = [] }: Memory = {}) {
  if (target.request.kind === 'invalid' || target.metadata?.deletionTimestamp !== undefined) return [];
  const wanted = wantedNames(target);
  const isThere = (name: string) => kind === 'ConfigMap' || target.slots.some((slot) => slot.name === name);
  return filled.filter((name) => !wanted.includes(name) && isThere(name));
}

const stateOf = (problem: string | undefined): TargetState => (problem === undefined ? 'current' : 'invalid');

/** Records an Event once for each problem, not once for each reconcile. */
function recordProblem(
  problem: string | undefined,
  { memory, recordEvent, remember, log, kind, key }: Task,
): void {
  if (problem === memory.problem) return;
  remember({ problem });
  if (problem === undefined) return;
  recordEvent('Warning', 'InvalidInjection', problem);
  log.warn({ kind: kind.kind, key, problem }, 'cannot inject a CA bundle');
}

const releasedMessage = (slots: readonly string[]): string =>
  `Gatehouse stopped updating the CA bundle${inParentheses(slots)}, and its current value remains`;

function injectedMessage({ request }: InjectionTarget, slots: readonly string[]): string {
  const source = request.kind === 'wanted' ? request.source : ({ kind: 'authority' } as const);
  return `the CA bundle of ${originName(source)} was injected${inParentheses(slots)}`;
}

const inParentheses = (slots: readonly string[]): string =>
  slots.length === 0 ? '' : ` (${slots.join(', ')})`;

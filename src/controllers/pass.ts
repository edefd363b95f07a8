/** One pass of a controller over one object: finalizer, the author's code, pruning, status. */
import { toError } from '../admission/handlers/errors.ts';
import { messageWithCauses, orAborted } from '../json/abort.ts';
import { keyOf, type KubeObject } from '../json/kube-object.ts';
import type { ControllerFunction } from './compile-controller.ts';
import { FIGHT_MS } from './brake.ts';
import { createContext } from './context.ts';
import { deleteProven } from './delete-proven.ts';
import { isOwned, nameOf, ownerMark } from './owned-objects.ts';
import type { Owned } from './world.ts';
import { desiredStatus, isUpToDate, prunedField, type Unready } from './status.ts';
import {
  addFinalizer,
  appliedKey,
  isOrphaning,
  later,
  noteOrphaning,
  WAITING_SECONDS,
  type Pass,
  type PassState,
} from './pass-state.ts';

export type PassResult =
  /** The object does not exist, or this controller is done with it. */
  | { readonly kind: 'gone' }
  | {
      readonly kind: 'done';
      readonly requeueAt: Date | undefined;
      readonly unready?: Unready | undefined;
      /** Nothing was done, because the passes of this object are delayed. */
      readonly isHeld?: boolean;
    }
  /** The pass failed; a retry follows. */
  | { readonly kind: 'failed'; readonly error: Error; readonly reason: string };

export async function runPass(pass: Pass, object: KubeObject | undefined): Promise<PassResult> {
  if (object === undefined) return { kind: 'gone' };
  const { controller, world } = pass;
  const { finalizers = [], deletionTimestamp } = object.metadata ?? {};
  const isEnding = deletionTimestamp !== undefined;
  if (isEnding && !finalizers.includes(controller.finalizer)) return { kind: 'gone' };
  const kinds = await world.served();
  const [kind] = kinds;
  if (kind === undefined) throw new Error('a controller watches a kind');
  const state: PassState = {
    pass,
    kind,
    kinds,
    object,
    mark: ownerMark(controller, keyOf(object)),
    applied: new Map(),
    written: new Map(),
    conditions: [],
    fields: {},
    ending: [],
    isOver: false,
    requeueAt: undefined,
    unready: undefined,
    isFinished: false,
  };
  return isEnding ? await finish(state) : await reconcile(state);
}

async function reconcile(state: PassState): Promise<PassResult> {
  const { pass, mark, object } = state;
  const { brake, controller, world } = pass;
  const heldUntil = brake.heldUntil(object, world.now());
  if (heldUntil !== undefined) return { kind: 'done', requeueAt: heldUntil, isHeld: true };
  try {
    if (controller.finalize !== undefined) await addFinalizer(state);
    await call(state, controller.reconcile);
    if (state.unready === undefined) await prune(state, await world.owned(mark));
    applyBrake(state, object);
  } catch (error) {
    return await failed(state, toError(error), 'ReconcileFailed');
  }
  try {
    await writeStatus(state, state.unready);
  } catch (error) {
    // What the author's code set may be the reason. Without its result, the operation in `progress` is not over.
    Object.assign(state, { conditions: [], fields: {}, isFinished: false });
    return await failed(state, toError(error), 'StatusRefused');
  }
  return { kind: 'done', requeueAt: state.requeueAt, unready: state.unready };
}

async function call(state: PassState, work: ControllerFunction): Promise<void> {
  const { deadline } = state.pass;
  const running = (async () => {
    await work(state.object, createContext(state));
  })();
  state.running = running;
  try {
    await orAborted(running, deadline, ({ reason }) => toError(reason));
  } finally {
    state.isOver = true;
  }
}

async function finish(state: PassState): Promise<PassResult> {
  const { pass, kind, object, mark } = state;
  const { controller, settled, world, signal } = pass;
  noteOrphaning(settled, object);
  try {
    if (controller.finalize !== undefined) await call(state, controller.finalize);
    if (state.unready === undefined) {
      // `kubectl delete --cascade=orphan` keeps what the object owns.
      if (!isOrphaning(settled, object)) {
        const left = await world.ownedLive(mark, signal);
        await prune(
          state,
          left.filter((one) => !isOwned(one.object, object)),
        );
      }
    }
  } catch (error) {
    return await failed(state, toError(error), 'FinalizeFailed');
  }
  if (state.unready !== undefined || state.ending.length > 0) {
    const unready = state.unready ?? {
      why: 'Reconciling',
      reason: 'Finalizing',
      message: `waits for the end of ${state.ending.join(', ')}`,
    };
    await writeStatus(state, blocked(state, unready));
    return { kind: 'done', requeueAt: state.requeueAt ?? later(world, WAITING_SECONDS) };
  }
  const left = (state.object.metadata?.finalizers ?? []).filter((one) => one !== controller.finalizer);
  await world.setFinalizers(kind, state.object, left, signal);
  return { kind: 'gone' };
}

/** After a time, what delays a deletion has to be found by those who look only at conditions, Events or metrics. */
function blocked(state: PassState, unready: Unready): Unready {
  const { pass, object } = state;
  const { blocked: keys, controller, world } = pass;
  const since = Date.parse(object.metadata?.deletionTimestamp ?? '');
  if (!(world.now().getTime() - since >= controller.finalizeTimeoutMs)) return unready;
  keys.add(keyOf(object));
  const reason = 'FinalizeBlocked';
  const text = `not deleted since ${object.metadata?.deletionTimestamp ?? ''}: ${unready.reason}: ${unready.message}`;
  const message = text.slice(0, LONGEST).toWellFormed();
  world.event(object, 'Warning', reason, message);
  return { ...unready, reason, message };
}

/** The end of an object is not awaited: a tenant could add a finalizer that stays. */
async function prune(state: PassState, all: readonly Owned[]): Promise<void> {
  for (const owned of all) {
    if (state.applied.has(appliedKey(owned.kind, owned.object))) continue;
    await deleteProven(state, owned, 'the controller does not apply it any more');
  }
}

function applyBrake(state: PassState, object: KubeObject): void {
  const { brake, world } = state.pass;
  const braked = brake.passed(object, state.written, world.now());
  if (braked === undefined) return;
  const { changed, until } = braked;
  const reason = 'KeepsChanging';
  const message = oneLine(changed.length === 0 ? TOO_MANY : describeChanges(changed, state.written));
  if (state.pass.controller.leaderOnly) world.event(object, 'Warning', reason, message);
  world.log.warn('passes keep changing the same', { object: nameOf(object), message });
  // Passes that change nothing may have a good cause, such as a rollout.
  if (changed.length === 0) return;
  state.unready = { why: 'Reconciling', reason, message };
  state.requeueAt = until ?? state.requeueAt ?? new Date(world.now().getTime() + FIGHT_MS);
}

const TOO_MANY =
  'many passes follow each other within 2 s, and the spec does not change: look for a client that writes labels, annotations, or objects of owns and watches all the time';

function describeChanges(names: readonly string[], written: PassState['written']): string {
  const parts = names.map((name) => {
    const { fields = [], by } = written.get(name) ?? {};
    const what = fields.length === 0 ? name : `${fields.join(', ')} of ${name}`;
    return by === undefined ? what : `${what}, and so does ${by}`;
  });
  const isFight = names.some((name) => written.get(name)?.by !== undefined);
  const advice = isFight
    ? 'leave the field to one of them'
    : 'apply the same in each pass, or look for another writer in metadata.managedFields';
  return `each pass changes ${parts.join('; ')}: ${advice}`;
}

async function failed(state: PassState, error: Error, reason: string): Promise<PassResult> {
  const { world, signal } = state.pass;
  try {
    if (!signal.aborted && !world.isPassing(error)) {
      const message = describeFailure(error);
      if (state.pass.controller.leaderOnly) world.event(state.object, 'Warning', reason, message);
      await writeStatus(state, blocked(state, { why: 'Reconciling', reason, message }));
    }
  } finally {
    // One key at a time: code that ignores its signal still works on this object.
    await state.running?.catch(() => undefined);
  }
  return { kind: 'failed', error, reason };
}

/** Conditions hold 32 KiB, but readers need a few lines. */
const LONGEST = 1_024;

/** Errors of HTTP clients quote credentials, and many users can read conditions and Events. */
const CREDENTIALS = /(?<=\b(?:Bearer|Basic) )\S+|(?<=:\/\/)[^/\s:@]+:[^/\s@]+(?=@)/gi;

/** For conditions, Events and the published state. */
export const describeFailure = (error: Error): string => oneLine(explainRefusal(messageWithCauses(error)));

const oneLine = (text: string): string =>
  text.replace(CREDENTIALS, '…').replace(/\s+/g, ' ').slice(0, LONGEST).toWellFormed();

async function writeStatus(state: PassState, unready: Unready | undefined): Promise<void> {
  const { pass, kind, conditions, fields } = state;
  const { controller, world, signal } = pass;
  if (!controller.writesStatus) return;
  // In one write: a crash must not separate the end of an operation from its result.
  const all = state.isFinished ? { ...fields, progress: null } : fields;
  const wanted = desiredStatus(state.object, { conditions, fields: all }, unready, world.now());
  if (!isUpToDate(state.object, wanted)) {
    state.object = await world.patchStatus(kind, state.object, wanted, signal);
    const field = prunedField(state.object, wanted);
    if (field !== undefined)
      world.log.warn(
        `the schema of ${kind.kind} drops status.${field}: add it to its CustomResourceDefinition, otherwise each pass writes the status`,
      );
  }
}

/** As the authorizer of Kubernetes says it: `User "x" cannot patch resource "users/status" in API group "example.com" …` */
const FORBIDDEN = / cannot (\w+) resource "([^"]+)" in API group "([^"]*)"/;
/** As Kubernetes refuses a RoleBinding whose role has permissions that the writer lacks. */
const ESCALATION = 'is attempting to grant RBAC permissions not currently held';

export function explainRefusal(message: string): string {
  const [, verb, resource, group] = FORBIDDEN.exec(message) ?? [];
  if (verb !== undefined) {
    const rule = JSON.stringify({ apiGroups: [group], resources: [resource], verbs: [verb] });
    return `Gatehouse needs the rule ${rule}: apply the output of "gatehouse manifests --handlers", or add it to "rules" of the controller: ${message}`;
  }
  if (message.includes(ESCALATION))
    return `Gatehouse needs the verb "bind" for the role, or its permissions: add it to "rules" of the controller: ${message}`;
  return message;
}

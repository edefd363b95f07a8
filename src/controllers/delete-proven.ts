/** Deletes what a controller applied, with a log line and an Event. */
import { appliedOf, belongsTo, CONTROLLER_LABEL, isProven, nameOf } from './owned-objects.ts';
import { appliedKey, type PassState } from './pass-state.ts';
import type { Owned } from './world.ts';

export const isEnding = ({ object }: PassState): boolean => object.metadata?.deletionTimestamp !== undefined;

/**
 * False: it belongs to something else, is a copy, was restored, or a crash came between its creation and its proof. Another apply
 * would take it over if it has the same name.
 */
export async function deleteProven(state: PassState, owned: Owned, reason: string): Promise<boolean> {
  const { kind, object } = owned;
  const { controller, signal, world } = state.pass;
  const whose = belongsTo(object, state, controller);
  if (whose === 'free') return false;
  if (whose !== 'ours' || !isProven(object, state)) {
    reportKept(state, owned, reason, typeof whose === 'object' ? whose.other : undefined);
    return false;
  }
  if (object.metadata?.deletionTimestamp !== undefined) return true;
  // Another leader may have seen a later version of the owner, and applied the object for it.
  if (!isEnding(state)) await world.expectCurrent(state.kind, state.object, signal);
  await world.remove(kind, object, signal);
  state.written.set(nameOf(object), { fields: [] });
  const fields = { object: nameOf(object), for: nameOf(state.object), reason };
  world.log.info('deleted an object', fields);
  world.event(state.object, 'Normal', 'Deleted', `deleted ${nameOf(object)}: ${reason}`);
  return true;
}

/** Once for each object. Only objects with the annotation: Endpoints have the labels of their Service, but not its annotation. */
function reportKept(
  { object: owner, pass: { settled, world } }: PassState,
  { kind, object }: Owned,
  reason: string,
  other: string | undefined,
): void {
  const { deletionTimestamp, uid = '' } = object.metadata ?? {};
  const key = appliedKey(kind, object);
  const known = `not deleted ${uid}`;
  if (deletionTimestamp !== undefined || appliedOf(object) === undefined || settled.get(key) === known)
    return;
  settled.set(key, known);
  const fields = { object: nameOf(object), for: nameOf(owner), reason };
  world.log.warn('did not delete an object that has no valid proof of its creation', fields);
  const name = nameOf(object);
  const message =
    other === undefined
      ? `${name} is a copy, was restored, or a crash interrupted its creation, so it is not deleted: delete it, or remove the label ${CONTROLLER_LABEL}`
      : `${name} belongs to ${other}, so it is not deleted: if it is a copy, delete it or remove the label ${CONTROLLER_LABEL}`;
  world.event(owner, 'Warning', 'NotDeleted', message);
}

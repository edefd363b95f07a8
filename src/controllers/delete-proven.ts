/** Deletes what a controller applied, with a log line and an Event. */
import { appliedOf, CONTROLLER_LABEL, isProven, nameOf } from './owned-objects.ts';
import { appliedKey, type PassState } from './pass-state.ts';
import type { Owned } from './world.ts';

/** False: a copy, a restored object, or a crash came between its creation and its proof. Another apply would take it over if it has the same name. */
export async function deleteProven(
  state: PassState,
  { kind, object }: Owned,
  reason: string,
): Promise<boolean> {
  const { settled, signal, world } = state.pass;
  const { deletionTimestamp, uid = '' } = object.metadata ?? {};
  if (deletionTimestamp !== undefined) return true;
  const fields = { object: nameOf(object), for: nameOf(state.object), reason };
  if (isProven(object, state)) {
    await world.remove(kind, object, signal);
    state.written.add(nameOf(object));
    world.log.info('deleted an object', fields);
    world.event(state.object, 'Normal', 'Deleted', `deleted ${nameOf(object)}: ${reason}`);
    return true;
  }
  const key = appliedKey(kind, object);
  const known = `not deleted ${uid}`;
  // Endpoints have the labels of their Service, but not its annotation.
  if (appliedOf(object) === undefined || settled.get(key) === known) return false;
  settled.set(key, known);
  world.log.warn('did not delete an object that has no valid proof of its creation', fields);
  const message = `${nameOf(object)} is a copy, was restored, or a crash interrupted its creation, so it is not deleted: delete it, or remove the label ${CONTROLLER_LABEL}`;
  world.event(state.object, 'Warning', 'NotDeleted', message);
  return false;
}

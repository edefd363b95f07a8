/** `apply` and `remove`, which never take an object of another owner. */
import { textIn, listIn } from '../json/json.ts';
import { guessPlural, splitApiVersion, type KubeObject } from '../json/kube-object.ts';
import type { AppliedObject, ApplyOptions } from './controller.ts';
import {
  appliedOf,
  belongsTo,
  canOwn,
  contains,
  contentOf,
  desiredObject,
  fingerprint,
  isProven,
  nameOf,
  withProof,
} from './owned-objects.ts';
import { deleteProven, isEnding } from './delete-proven.ts';
import type { Written } from './brake.ts';
import { differingFields, lastWriter, showFields } from './field-owners.ts';
import { addFinalizer, appliedKey, type PassState } from './pass-state.ts';
import type { VersionedKind } from './compile-controller.ts';
import type { ApplyMode, ServedKind } from './world.ts';

function servedKind({ kinds, pass }: PassState, { apiVersion, kind }: AppliedObject): ServedKind {
  const { group, version } = splitApiVersion(apiVersion);
  const isOfGroup = (one: VersionedKind) => one.group === group && one.version === version;
  const owned = kinds.slice(1).filter(isOfGroup);
  const found = owned.find((one) =>
    one.kind === '' ? one.resource === guessPlural(kind) : one.kind === kind,
  );
  if (found !== undefined) return found;
  if (owned.length < pass.controller.owns.filter(isOfGroup).length)
    throw new Error(
      pass.world.unreadable.find((one) => one.group === group && one.kind === kind)?.problem ??
        `the API server does not serve ${kind} ${apiVersion}: create its CustomResourceDefinition`,
    );
  throw new TypeError(`${kind} ${apiVersion} is not in owns: add its plural there`);
}

/** With `generateName`, each pass would create one more object. @throws TypeError */
function checked(given: object): AppliedObject {
  const [apiVersion, kind] = [textIn(given, 'apiVersion'), textIn(given, 'kind')];
  if (apiVersion === '' || kind === '')
    throw new TypeError(
      `the object ${textIn(given, 'metadata', 'name')} needs apiVersion and kind: types of client-node do not set them`,
    );
  if (textIn(given, 'metadata', 'name') === '')
    throw new TypeError(
      `${kind}: metadata.name is missing: use a name that follows from the reconciled object`,
    );
  return given as AppliedObject;
}

/** @throws Error if the object belongs to something else */
export async function applyObject(
  state: PassState,
  object: object,
  options: ApplyOptions = {},
): Promise<KubeObject> {
  const given = checked(object);
  const kind = servedKind(state, given);
  const { name, namespace } = given.metadata;
  if (kind.namespaced && namespace === undefined)
    throw new TypeError(`${kind.kind} ${name} needs metadata.namespace`);
  const desired = desiredObject(given, state, state.pass.controller);
  const key = appliedKey(kind, desired);
  const before = state.applied.get(key);
  if (before !== undefined && before !== appliedOf(desired))
    throw new TypeError(
      `${nameOf(desired)} is applied twice in this pass with different content: apply it once`,
    );
  state.applied.set(key, appliedOf(desired));
  try {
    return await bringAbout(state, kind, desired, options);
  } catch (error) {
    // Not stored, but wanted: it must not be pruned if the author catches the error.
    state.applied.set(key, undefined);
    throw error;
  }
}

async function bringAbout(
  state: PassState,
  kind: ServedKind,
  desired: KubeObject,
  { adopt = false }: ApplyOptions,
): Promise<KubeObject> {
  const { controller, world, settled, deadline } = state.pass;
  // Nothing else would delete it.
  if (!canOwn(state.object, desired)) await addFinalizer(state);
  const { name = '', namespace } = desired.metadata ?? {};
  const found = await world.get({ ...kind, metadataOnly: false }, { namespace, name }, deadline);
  if (found !== undefined) {
    const whose = belongsTo(found, state, controller);
    if (typeof whose === 'object')
      throw new Error(`${nameOf(found)} belongs to ${whose.other}: use another name, or delete it`);
    if (whose === 'free' && !adopt)
      throw new Error(
        `${nameOf(found)} exists and was not created for ${nameOf(state.object)}: delete it, or apply it with adopt`,
      );
    if (found.metadata?.deletionTimestamp !== undefined)
      throw new Error(`${nameOf(found)} is being deleted: it is applied again when it is gone`);
    const wanted = withProof(desired, state, found);
    const isEqual =
      contains(found, wanted) ||
      settled.get(appliedKey(kind, wanted)) === fingerprint(wanted, contentOf(found));
    if (whose === 'ours' && isEqual) return found;
    if (!isProven(found, state)) {
      const fields = { object: nameOf(found), for: nameOf(state.object) };
      world.log.info('takes over an object that has no valid proof of its creation', fields);
    }
    return await send(state, kind, wanted, 'change', await changesOf(state, kind, wanted, found));
  }
  return await create(state, kind, desired);
}

async function send(
  state: PassState,
  served: ServedKind,
  wanted: KubeObject,
  how: ApplyMode,
  written: Written,
): Promise<KubeObject> {
  const { world, settled, deadline } = state.pass;
  const stored = await world.apply(served, wanted, how, deadline);
  state.written.set(nameOf(wanted), written);
  settled.set(appliedKey(served, wanted), fingerprint(wanted, contentOf(stored)));
  return stored;
}

/** Before the write, which takes the fields. A live read, but only if a pass before has changed the object, too. */
async function changesOf(
  { pass, object }: PassState,
  kind: ServedKind,
  wanted: KubeObject,
  found: KubeObject,
): Promise<Written> {
  const { brake, controller, world, deadline } = pass;
  const paths = differingFields(found, wanted);
  const fields = showFields(paths);
  if (paths.length === 0 || !brake.isRepeated(object, nameOf(wanted), world.now())) return { fields };
  const live = await world.withManagers(kind, found, deadline);
  return { fields, by: live && lastWriter(live, paths, controller.fieldManager) };
}

async function create(state: PassState, served: ServedKind, desired: KubeObject): Promise<KubeObject> {
  const { controller, world, deadline } = state.pass;
  const stored = await world.apply(served, desired, 'create', deadline);
  if (wasThere(stored, controller.fieldManager)) {
    // Another client was faster. Without fields, the API server takes back all that this controller set.
    const { apiVersion, kind, metadata } = desired;
    const { name, namespace } = metadata ?? {};
    const bare = { apiVersion, kind, metadata: { name, namespace } } as KubeObject;
    await world.apply(served, bare, 'create', deadline);
    throw new Error(`${nameOf(stored)} exists and was not created for ${nameOf(state.object)}`);
  }
  return await send(state, served, withProof(desired, state, stored), 'prove', {
    fields: [],
  });
}

/** Who only wrote a subresource did not create it: the controller of ResourceQuotas sets their status early. */
function wasThere(stored: KubeObject, fieldManager: string): boolean {
  return listIn(stored, 'metadata', 'managedFields').some(
    (one) => textIn(one, 'manager') !== fieldManager && textIn(one, 'subresource') === '',
  );
}

export async function removeObject(state: PassState, object: object): Promise<boolean> {
  const { controller, world, deadline } = state.pass;
  const given = checked(object);
  const kind = servedKind(state, given);
  const read = { ...kind, metadataOnly: false };
  const { name, namespace } = given.metadata;
  if (state.applied.get(appliedKey(kind, given)) !== undefined)
    throw new TypeError(
      `${nameOf(given)} was applied in this pass: a pass must not apply and remove the same object`,
    );
  const found = await world.get(read, { namespace, name }, deadline);
  if (found === undefined) return true;
  // It still exists. But a tenant's copy must not keep the owner from going.
  if (!(await deleteProven(state, { kind, object: found }, 'the controller removes it')))
    return isEnding(state) || belongsTo(found, state, controller) !== 'ours';
  const left = await world.get(read, { namespace, name }, deadline);
  if (left === undefined || left.metadata?.uid !== found.metadata?.uid) return true;
  const { finalizers = [] } = left.metadata ?? {};
  state.ending.push(
    `${nameOf(left)}${finalizers.length === 0 ? '' : ` (finalizers ${finalizers.join(', ')})`}`,
  );
  return false;
}

export function keepObject(state: PassState, object: object): void {
  const given = checked(object);
  const key = appliedKey(servedKind(state, given), given);
  if (!state.applied.has(key)) state.applied.set(key, undefined);
}

/** What the leader does to an object that references a deleted target. */
import type { KubeObject, ObjectRef } from '../../../json/kube-object.ts';
import { type ConcretePath, siblingPath, valueAt } from '../../../json/field-path.ts';
import { isJsonObject, uniqueBy } from '../../../json/json.ts';
import { pointerOf } from '../../../json/json-patch.ts';
import type { CompiledReference } from '../compiled-policy.ts';
import { hasDeletionTimestamp } from '../object-metadata.ts';
import { targetKey } from '../object-ref.ts';
import type { DeletionRecord } from './deletion-record.ts';
import { type FoundReference, referencesOf } from './read-references.ts';

type ReferrerOperation =
  | { readonly op: 'replace' | 'test'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

export type ReferrerPlan =
  | { readonly kind: 'leave' }
  | { readonly kind: 'blocked'; readonly message: string }
  | { readonly kind: 'delete'; readonly uid: string; readonly resourceVersion: string }
  | { readonly kind: 'patch'; readonly operations: readonly ReferrerOperation[] };

const LEAVE: ReferrerPlan = { kind: 'leave' };
/** In milliseconds. An object that was created later after its target was gone comes from a restore or an exempt user. */
export const LATE_MS = 10_000;

/** @param object from a live read; undefined: it does not exist */
export function planReferrer(
  { action, target, uid, goneAt = 0 }: Pick<DeletionRecord, 'action' | 'target' | 'uid' | 'goneAt'>,
  reference: CompiledReference,
  { namespace }: ObjectRef,
  object: KubeObject | undefined,
): ReferrerPlan {
  const { metadata = {} } = object ?? {};
  if (!isJsonObject(object) || hasDeletionTimestamp(object)) return LEAVE;
  if (metadata.uid === undefined || metadata.resourceVersion === undefined) return LEAVE;
  if (!(Date.parse(metadata.creationTimestamp ?? '') <= goneAt + LATE_MS)) return LEAVE;
  const naming = referencesOf({ references: [reference] }, object, namespace).filter(
    (found) => targetKey(found.target) === targetKey(target) && namesUid(found, object, uid),
  );
  if (naming.length === 0) return LEAVE;
  if (action === 'Cascade')
    return { kind: 'delete', uid: metadata.uid, resourceVersion: metadata.resourceVersion };
  const written = action === 'SetDefault' ? reference.defaultTarget : undefined;
  if (written === target.name)
    return {
      kind: 'blocked',
      message: 'defaultTarget of the reference is the deleted object: create it again, or name another one',
    };
  return {
    kind: 'patch',
    operations: [
      { op: 'test', path: '/metadata/uid', value: metadata.uid },
      { op: 'test', path: '/metadata/resourceVersion', value: metadata.resourceVersion },
      ...changes(naming, object, written),
    ],
  };
}

function namesUid({ reference: { uidPath }, keys }: FoundReference, object: object, uid: string): boolean {
  const named = uidPath === undefined ? undefined : valueAt(object, siblingPath(keys, uidPath));
  return named === undefined || named === null || named === '' || named === uid;
}

/** From the end of each list, so that no removal moves an element that is still to be changed. */
function changes(
  naming: readonly FoundReference[],
  object: object,
  written: string | undefined,
): readonly ReferrerOperation[] {
  const uids = naming.flatMap(({ reference: { uidPath }, keys }): readonly ConcretePath[] => {
    const place = uidPath && siblingPath(keys, uidPath);
    return place === undefined || valueAt(object, place) === undefined ? [] : [place];
  });
  return [
    ...uniqueBy(uids, pointerOf)
      .toReversed()
      .map((place) => ({ op: 'remove' as const, path: pointerOf(place) })),
    ...naming.toReversed().map(({ keys }): ReferrerOperation => {
      const path = pointerOf(keys);
      return written === undefined ? { op: 'remove', path } : { op: 'replace', path, value: written };
    }),
  ];
}

/** Corrects stale uids of restored targets, such as `spec.claimRef.uid`, in the writes of restorers only. */
import { type ConcretePath, formatPath, siblingPath, valueAt } from '../../../json/field-path.ts';
import {
  isJsonArray,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  textIn,
  uniqueBy,
} from '../../../json/json.ts';
import type { KubeObject, ObjectMeta, ObjectRef } from '../../../json/kube-object.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import type { CompiledPolicy, CompiledReference } from '../compiled-policy.ts';
import { createRestoreLookup, windowsFor } from '../deferral/deferral.ts';
import type { AdmissionContext } from '../world.ts';
import { readReferences } from './read-references.ts';

export interface TargetUid {
  readonly reference: CompiledReference;
  readonly target: ObjectRef;
  readonly field: string;
  readonly keys: ConcretePath;
  readonly uid: string;
}

type References = Pick<CompiledPolicy, 'references'>;

export const namesUids = ({ references }: References): boolean =>
  references.some(({ uidPath }) => uidPath !== undefined);

export function targetUids(
  policies: readonly References[],
  object: JsonObject | KubeObject,
  namespace?: string,
): readonly TargetUid[] {
  const found = policies.filter(namesUids).flatMap((policy) => {
    const references = policy.references.filter(({ uidPath }) => uidPath !== undefined);
    return readReferences({ references }, object, namespace).found;
  });
  const uids = found.flatMap(({ reference, target, keys }): readonly TargetUid[] => {
    if (reference.uidPath === undefined) return [];
    const place = siblingPath(keys, reference.uidPath);
    const uid = valueAt(object, place);
    return typeof uid === 'string' && uid !== ''
      ? [{ reference, target, field: formatPath(place), keys: place, uid }]
      : [];
  });
  return uniqueBy(uids, ({ field }) => field);
}

/** Limit for live reads of one review. The sweep corrects the rest. */
const MOST_READS = 8;

/** After a failure, the sweep corrects the uids. */
export async function correctUids(
  request: AdmissionRequest,
  object: JsonObject,
  uids: readonly TargetUid[],
  { world, signal }: Pick<AdmissionContext, 'world' | 'signal'>,
): Promise<JsonObject> {
  const stale = uids.filter(({ target, uid }) => world.find(target)?.metadata?.uid !== uid);
  if (stale.length === 0 || stale.length > MOST_READS) return object;
  const restore = await createRestoreLookup(request, { world, signal })();
  const windows = windowsFor(restore, request.operation);
  if (windows.length === 0 || !windows.every(({ links }) => links)) return object;
  const corrected = await Promise.all(
    stale.map(async (one) => {
      const target = await world.confirm(one.target, signal).catch(() => undefined);
      return { ...one, now: currentUid(request, one, target?.metadata) };
    }),
  );
  return corrected.reduce(
    (before, { keys, now }) => (now === undefined ? before : replaceAt(before, keys, now)),
    object,
  );
}

/** Undefined: the target does not exist, is being deleted, or may be a different object with the same name. */
function currentUid(
  { operation, oldObject, object }: AdmissionRequest,
  { keys, uid }: TargetUid,
  target: ObjectMeta | undefined,
): string | undefined {
  if (target?.uid === undefined || target.deletionTimestamp !== undefined || target.uid === uid)
    return undefined;
  if (operation === 'CREATE') return target.uid;
  const isKnown = oldObject !== undefined && valueAt(oldObject, keys) === target.uid;
  const created = textIn(object, 'metadata', 'creationTimestamp');
  const isOlder = Date.parse(target.creationTimestamp ?? '') <= Date.parse(created);
  return isKnown || isOlder ? target.uid : undefined;
}

function replaceAt(object: JsonObject, keys: ConcretePath, value: JsonValue): JsonObject {
  const replace = (node: JsonValue | undefined, depth: number): JsonValue => {
    const key = keys[depth];
    if (key === undefined) return value;
    if (isJsonArray(node)) return node.with(Number(key), replace(node[Number(key)], depth + 1));
    if (!isJsonObject(node)) return node ?? null;
    return { ...node, [key]: replace(node[key], depth + 1) };
  };
  const replaced = replace(object, 0);
  return isJsonObject(replaced) ? replaced : object;
}

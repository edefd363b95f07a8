/** Uids in the fields of restored objects (`uidPath`): replaced if the target has another uid now. */
import { groupResourceName, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import { unchanged } from '../../restore/owner-links.ts';
import { messageOf } from '../../json/abort.ts';
import { type StoredObjects, storedRef } from '../policies/stored-objects.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { targetUids, type TargetUid } from '../../admission/policy/references/target-uids.ts';
import { pointerOf } from '../../json/json-patch.ts';
import { type RelinkOptions, ATTEMPTS, isYounger, instead, heldBack, toItem } from './relink-owners.ts';
import type { PatchGuarded } from './guarded-patch.ts';

/** One item for each stale uid; none for an object that no restore has created. */
export type RelinkUids = (
  resource: GroupResource,
  object: KubeObject,
  governing: readonly Pick<CompiledPolicy, 'references'>[],
  options: RelinkOptions,
  signal: AbortSignal,
) => Promise<readonly RelinkItem[]>;

interface Verdict {
  readonly place: TargetUid;
  readonly result: RelinkItem['result'] | 'Current';
  readonly message?: string;
  readonly now?: string;
  readonly apiVersion?: string | undefined;
}

export function createUidRelinker(stored: Pick<StoredObjects, 'read'>, patch: PatchGuarded): RelinkUids {
  return async (resource, listed, governing, options, signal) => {
    const { metadata = {} } = listed;
    if (metadata.deletionTimestamp !== undefined || targetUids(governing, listed).length === 0) return [];
    if (!options.isRestored({ creationTimestamp: metadata.creationTimestamp, labels: metadata.labels }))
      return [];
    const self = storedRef(resource, listed);
    const judge = async (object: KubeObject) =>
      await Promise.all(
        targetUids(governing, object).map((place) => judgeUid(place, object, stored, options, signal)),
      );

    const linked = new Map<string, RelinkItem>();
    let trouble = '';
    let object: KubeObject | undefined = listed;
    for (let attempt = 0; attempt <= ATTEMPTS; attempt += 1) {
      if (object === undefined || object.metadata?.uid !== metadata.uid) return [];
      const verdicts: readonly Verdict[] = (await judge(object)).filter(({ result }) => result !== 'Current');
      const stale = verdicts.filter(({ result }) => result === 'Linked');
      const conclude = (adjust = (verdict: Verdict): Verdict => verdict) => [
        ...linked.values(),
        ...verdicts.map((verdict) => toUidItem(listed, adjust(verdict))),
      ];
      if (options.mode === 'Report') return conclude(heldBack(options, 'change'));
      if (stale.length === 0) return conclude();
      if (attempt === ATTEMPTS) return conclude(instead('Failed', trouble));
      const outcome = await patch(self, uidPatch(object, stale), signal);
      switch (outcome.kind) {
        case 'forbidden':
          return conclude(
            instead(
              'Failed',
              `${outcome.message}; grant Gatehouse get and patch on ${groupResourceName(resource)}`,
            ),
          );
        case 'changed':
          trouble = outcome.message;
          object = await stored.read(self, signal);
          break;
        case 'patched':
          // The next attempt reads the targets again: one may have been replaced in the meantime.
          for (const verdict of stale) linked.set(verdict.place.field, toUidItem(listed, verdict));
          trouble = 'its target was replaced again and again';
          object = outcome.object;
      }
    }
    return [];
  };
}

async function judgeUid(
  place: TargetUid,
  object: KubeObject,
  stored: Pick<StoredObjects, 'read'>,
  { isRestored }: RelinkOptions,
  signal: AbortSignal,
): Promise<Verdict> {
  const target = `${place.reference.targetKind} "${place.target.name}"`;
  try {
    const live = await stored.read(place.target, signal);
    if (live === undefined) {
      const message = `${target} not found; restore it as well, and the next sweep writes its uid`;
      return { place, result: 'OwnerMissing', message };
    }
    const { uid, creationTimestamp, deletionTimestamp, labels, namespace } = live.metadata ?? {};
    if (uid === undefined || uid === place.uid) return { place, result: 'Current' };
    if (deletionTimestamp !== undefined)
      return { place, result: 'OwnerTerminating', message: `${target} is being deleted` };
    if (
      isYounger({ creationTimestamp }, object.metadata ?? {}) &&
      !isRestored({ creationTimestamp, labels, namespace })
    ) {
      const message = `${target} is younger than the object and no restore has made it; write its uid if it is the target`;
      return { place, result: 'OwnerAmbiguous', message };
    }
    return { place, result: 'Linked', now: uid, apiVersion: live.apiVersion };
  } catch (error) {
    signal.throwIfAborted();
    return { place, result: 'Failed', message: `could not read ${target}: ${messageOf(error)}` };
  }
}

const uidPatch = (object: KubeObject, stale: readonly Verdict[]) => [
  ...unchanged(object),
  ...stale.map(({ place: { keys }, now }) => ({ op: 'replace', path: pointerOf(keys), value: now }) as const),
];

function toUidItem(object: KubeObject, { place, result, message, apiVersion }: Verdict): RelinkItem {
  const { target, reference, field } = place;
  const ref = { apiVersion: apiVersion ?? target.group, kind: reference.targetKind, name: target.name };
  return { ...toItem(object, { ref, result: result === 'Current' ? 'Linked' : result, message }), field };
}

/** In a sweep: replaces stale uids of restored targets inside objects (`references[].uidPath`). */
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { pointerOf, targetUids, type TargetUid } from '../../admission/policy/references/target-uids.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import { messageOf } from '../../json/error-message.ts';
import {
  groupResourceName,
  type GroupResource,
  type KubeObject,
  type ObjectRef,
} from '../../json/kube-object.ts';
import type { LinkOperation } from '../../restore/owner-links.ts';
import { subjectOf } from '../../restore/report.ts';
import type { StoredObjects } from '../policies/stored-objects.ts';
import type { PatchGuarded, RelinkOptions } from './relink.ts';

/** One item for each stale uid; none for an object that no restore has created. */
export type RelinkUids = (
  resource: GroupResource,
  object: KubeObject,
  governing: readonly Pick<CompiledPolicy, 'references'>[],
  options: RelinkOptions,
  signal: AbortSignal,
) => Promise<readonly RelinkItem[]>;

/** Attempts after a conflict. */
const ATTEMPTS = 5;

interface Verdict {
  readonly place: TargetUid;
  readonly result: RelinkItem['result'] | 'Current';
  readonly message?: string;
  /** The uid to write. */
  readonly now?: string;
  /** The version of the target, if it exists. */
  readonly apiVersion?: string | undefined;
}

/** Both functions read live. */
export function createUidRelinker(stored: Pick<StoredObjects, 'read'>, patch: PatchGuarded): RelinkUids {
  return async (resource, listed, governing, options, signal) => {
    const { metadata = {} } = listed;
    if (metadata.deletionTimestamp !== undefined || targetUids(governing, listed).length === 0) return [];
    if (!options.isRestored({ creationTimestamp: metadata.creationTimestamp, labels: metadata.labels }))
      return [];
    const { name = '', namespace, uid } = metadata;
    const self: ObjectRef = { ...resource, namespace, name };
    const judge = async (object: KubeObject) =>
      await Promise.all(
        targetUids(governing, object).map((place) => judgeUid(place, object, stored, options, signal)),
      );

    const linked = new Map<string, RelinkItem>();
    let trouble = '';
    let object: KubeObject | undefined = listed;
    for (let attempt = 0; attempt <= ATTEMPTS; attempt += 1) {
      if (object === undefined || object.metadata?.uid !== uid) return [];
      const verdicts: readonly Verdict[] = (await judge(object)).filter(({ result }) => result !== 'Current');
      const stale = verdicts.filter(({ result }) => result === 'Linked');
      const conclude = (adjust = (verdict: Verdict): Verdict => verdict) => [
        ...linked.values(),
        ...verdicts.map((verdict) => toItem(listed, adjust(verdict))),
      ];
      if (options.mode === 'Report') return conclude(asReport(options));
      if (stale.length === 0) return conclude();
      if (attempt === ATTEMPTS) return conclude(failed(trouble));
      const outcome = await patch(self, uidPatch(object, stale), signal);
      switch (outcome.kind) {
        case 'forbidden':
          return conclude(
            failed(`${outcome.message}; grant Gatehouse get and patch on ${groupResourceName(resource)}`),
          );
        case 'changed':
          trouble = outcome.message;
          object = await stored.read(self, signal);
          break;
        case 'patched':
          // The next attempt reads the targets again: one may have been replaced in the meantime.
          for (const verdict of stale) linked.set(verdict.place.field, toItem(listed, verdict));
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
      const message = `there is no ${target}; restore it too, and the next sweep writes its uid`;
      return { place, result: 'OwnerMissing', message };
    }
    const { uid, creationTimestamp = '', deletionTimestamp, labels, namespace } = live.metadata ?? {};
    if (uid === undefined || uid === place.uid) return { place, result: 'Current' };
    if (deletionTimestamp !== undefined)
      return { place, result: 'OwnerTerminating', message: `${target} is being deleted` };
    // creationTimestamp has whole seconds: a target of the same second does not count as younger.
    const isYounger = Date.parse(creationTimestamp) > Date.parse(object.metadata?.creationTimestamp ?? '');
    if (isYounger && !isRestored({ creationTimestamp, labels, namespace })) {
      const message = `${target} is younger than the object and no restore has made it; write its uid if it is the target`;
      return { place, result: 'OwnerAmbiguous', message };
    }
    return { place, result: 'Linked', now: uid, apiVersion: live.apiVersion };
  } catch (error) {
    signal.throwIfAborted();
    return { place, result: 'Failed', message: `could not read ${target}: ${messageOf(error)}` };
  }
}

function uidPatch({ metadata = {} }: KubeObject, stale: readonly Verdict[]): readonly LinkOperation[] {
  const { uid, resourceVersion } = metadata;
  return [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path: '/metadata/resourceVersion', value: resourceVersion },
    ...stale.map(({ place: { keys }, now }) => ({
      op: 'replace' as const,
      path: pointerOf(keys),
      value: now,
    })),
  ];
}

const asReport =
  ({ heldBy }: RelinkOptions) =>
  (verdict: Verdict): Verdict => {
    if (verdict.result !== 'Linked') return verdict;
    const message = `RestoreWindow "${heldBy ?? ''}" restored the object too, and holds the change back: approve the links of that window`;
    return { ...verdict, result: 'WouldLink', ...(heldBy === undefined ? {} : { message }) };
  };

const failed =
  (message: string) =>
  (verdict: Verdict): Verdict =>
    verdict.result === 'Linked' ? { ...verdict, result: 'Failed', message } : verdict;

function toItem(object: KubeObject, { place, result, message, apiVersion }: Verdict): RelinkItem {
  const { target, reference, field } = place;
  return {
    object: subjectOf(object),
    field,
    owner: { apiVersion: apiVersion ?? target.group, kind: reference.targetKind, name: target.name },
    result: result === 'Current' ? 'Linked' : result,
    ...(message === undefined ? {} : { message }),
  };
}

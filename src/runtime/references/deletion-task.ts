/** The work after one deletion of a target, and what it needs. */
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { hasDeletionTimestamp } from '../../admission/policy/object-metadata.ts';
import type { DeletionRecord, Prove } from '../../admission/policy/references/deletion-record.ts';
import type { ClaimStore, GovernedIndex, RequestWorld } from '../../admission/policy/world.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { isJsonObject } from '../../json/json.ts';
import type { KubeObject, ObjectRef } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Log } from '../../log.ts';
import type { ReferrerPlan } from '../../admission/policy/references/plan-referrer.ts';
import { ApiError, isConflict, isNotFound } from '../../kube/api-error.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { served, versionAmong } from '../policies/world.ts';

export interface DeletionActionsOptions {
  /** The policies in force. */
  readonly policies: () => readonly CompiledPolicy[];
  readonly client: Pick<KubeClient, 'get'>;
  readonly claims: ClaimStore;
  readonly prove: Prove;
  readonly governed: Pick<GovernedIndex, 'referrers'>;
  readonly world: Pick<RequestWorld, 'read' | 'confirm' | 'readGrants'>;
  /** Reads live which restore is not over; undefined: there is none. */
  readonly restoreInProgress: (signal: AbortSignal) => Promise<string | undefined>;
  readonly write: WriteReferrer;
  readonly onProgress: (progress: Progress) => void;
  /** By the clock of the API server. */
  readonly now: () => Date;
  readonly log: Log;
}

/** What the leader did, or why it waits. */
export interface Progress {
  readonly claim: string;
  readonly record: DeletionRecord;
  readonly state: 'waiting' | 'working' | 'stuck' | 'finished' | 'abandoned';
  /** Empty if nothing is wrong. */
  readonly message: string;
  readonly done: number;
  /** Objects that could not be deleted or changed. */
  readonly stuck: readonly Stuck[];
}

export interface Stuck {
  /** Undefined: it could not be read. */
  readonly object: KubeObject | undefined;
  readonly message: string;
}

export interface Task extends DeletionActionsOptions {
  readonly claim: UniqueClaim;
  readonly record: DeletionRecord;
  /** When a live read last showed the target, by the name of the record. */
  readonly seen: Map<string, number>;
  readonly signal: AbortSignal;
}

/** From a live read. @throws if the API server gives no definite answer */
export async function targetState({
  world,
  record,
  signal,
}: Task): Promise<'present' | 'terminating' | 'recreated' | 'gone'> {
  const live = await world.confirm(record.target, signal);
  if (live === undefined) return 'gone';
  if (live.metadata?.uid !== record.uid) return 'recreated';
  return isJsonObject(live) && hasDeletionTimestamp(live) ? 'terminating' : 'present';
}

export function report(
  { claim, record, onProgress }: Task,
  progress: Partial<Progress> & Pick<Progress, 'state'>,
): void {
  const { name = '' } = claim.metadata;
  onProgress({ claim: name, record, message: '', done: 0, stuck: [], ...progress });
}

type WriteOutcome =
  | { readonly kind: 'deleted' }
  | { readonly kind: 'patched'; readonly object: KubeObject }
  /** The object has changed in the meantime. */
  | { readonly kind: 'changed' }
  /** The API server refuses the write. */
  | { readonly kind: 'refused'; readonly message: string };

/** @throws if the outcome is unknown */
type WriteReferrer = (
  ref: ObjectRef,
  object: KubeObject,
  plan: Extract<ReferrerPlan, { kind: 'delete' | 'patch' }>,
  policy: CompiledPolicy,
  signal: AbortSignal,
) => Promise<WriteOutcome>;

const FIELD_MANAGER = 'gatehouse-references';

/** Deletes or changes one version of an object that names a deleted target. */
export function createWriteReferrer(
  client: Pick<KubeClient, 'delete' | 'patchJson' | 'getMetadata'>,
  discovery: Pick<Discovery, 'resolve'>,
): WriteReferrer {
  return async (ref, object, plan, policy, signal) => {
    const kind = await served(discovery, ref, signal);
    try {
      if (plan.kind === 'delete') {
        const { uid, resourceVersion } = plan;
        const preconditions = { uid, resourceVersion };
        await client.delete(kind, ref, { preconditions, propagationPolicy: 'Background', signal });
        return { kind: 'deleted' };
      }
      const versioned = { ...kind, version: versionAmong(policy.match.apiVersions, kind.version) };
      const options = { fieldManager: FIELD_MANAGER, signal };
      const patched = await client.patchJson<KubeObject>(versioned, ref, plan.operations, options);
      return { kind: 'patched', object: patched };
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) return { kind: 'changed' };
      if (!(error instanceof ApiError) || (error.code !== 403 && error.code !== 422)) throw error;
      // 422 is a failed `test`, or a value that the API server rejects.
      const live = error.code === 422 ? await client.getMetadata(kind, ref, { signal }) : object;
      const isCurrent = live?.metadata?.resourceVersion === object.metadata?.resourceVersion;
      return isCurrent ? { kind: 'refused', message: error.message } : { kind: 'changed' };
    }
  };
}

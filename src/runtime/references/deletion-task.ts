/** The work after one deletion of a target, and what it needs. */
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { hasDeletionTimestamp } from '../../admission/policy/object-metadata.ts';
import type { DeletionRecord, Prove } from '../../admission/policy/references/deletion-record.ts';
import type { ClaimStore, GovernedIndex, World } from '../../admission/policy/world.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { isJsonObject } from '../../json/json.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Log } from '../../log.ts';
import type { WriteReferrer } from './write-referrer.ts';

export interface DeletionActionsOptions {
  /** The policies in force. */
  readonly policies: () => readonly CompiledPolicy[];
  readonly client: Pick<KubeClient, 'get'>;
  readonly claims: ClaimStore;
  readonly prove: Prove;
  readonly governed: Pick<GovernedIndex, 'referrers'>;
  readonly world: Pick<World, 'read' | 'confirm' | 'readGrants'>;
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

/** Status and Events of a RestoreWindow. */
import type { RestoreWindow, RestoreWindowStatus } from '../../api/restore-window.ts';
import type { Condition } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import { setCondition } from '../../kube/conditions.ts';
import { withKind } from '../../kube/object.ts';
import type { Log } from '../../log.ts';
import { regarding, type RecordEvent } from '../controller.ts';
import { RESTORE_WINDOWS } from '../resources.ts';

/** How a reconcile of restores writes. */
export interface RestoreWriter {
  readonly client: Pick<KubeClient, 'listAll' | 'create' | 'replace' | 'replaceStatus' | 'delete'>;
  readonly record: RecordEvent;
  readonly now: () => Date;
  readonly log: Log;
}

export type ConditionUpdate = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

export const condition = (
  type: string,
  status: Condition['status'],
  reason: string,
  message: string,
): ConditionUpdate => ({ type, status, reason, message });

/** `before` with the updates; the same array when they change nothing. */
export function withConditions(
  before: readonly Condition[],
  updates: readonly ConditionUpdate[],
  generation: number | undefined,
  now: Date,
): readonly Condition[] {
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  return updates.reduce((all, next) => setCondition(all, { ...next, ...observed }, now), before);
}

/** Writes the status if it differs. The write fails if the window has changed since it was read. */
export async function updateStatus(
  window: RestoreWindow,
  change: RestoreWindowStatus,
  updates: readonly ConditionUpdate[],
  { client, now }: Pick<RestoreWriter, 'client' | 'now'>,
  signal: AbortSignal,
): Promise<void> {
  const before = window.status?.conditions ?? [];
  const after = withConditions(before, updates, window.metadata.generation, now());
  // Only plain values are compared: a new sweep always counts as a change.
  const current = new Map<string, unknown>(Object.entries(window.status ?? {}));
  const isSame = Object.entries(change).every(([key, value]) => current.get(key) === value);
  if (after === before && isSame) return;
  const status = { ...window.status, ...change, conditions: [...after] };
  delete status.currentSweep; // every other status ends the progress of a sweep
  await client.replaceStatus(RESTORE_WINDOWS, { ...window, status }, { signal });
}

export function announce(
  window: RestoreWindow,
  type: 'Normal' | 'Warning',
  reason: string,
  message: string,
  record: RecordEvent,
): void {
  record({ regarding: regarding(withKind(RESTORE_WINDOWS, window)), type, reason, message });
}

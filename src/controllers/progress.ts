/** Operations in external systems: recorded before they start, so that a crash repeats none of them. */
import { createHash } from 'node:crypto';

import { objectIn, textIn } from '../json/json.ts';
import { toTimestamp, type KubeObject } from '../json/kube-object.ts';
import type { Progress, ProgressRecord } from './controller.ts';
import type { PassState } from './pass-state.ts';

/** 32 hexadecimal digits. */
export const keyFor = ({ metadata }: KubeObject, ...parts: readonly string[]): string =>
  createHash('sha256')
    .update(JSON.stringify([metadata?.uid, ...parts]))
    .digest('hex')
    .slice(0, 32);

/** @param check throws if the pass may not write its status */
export function progressOf(state: PassState, check: () => void): Progress {
  const { world, signal } = state.pass;
  const current = (): ProgressRecord | undefined => {
    if (state.isFinished) return undefined;
    const record = objectIn(state.object, 'status', 'progress');
    return textIn(record, 'id') === '' ? undefined : (record as unknown as ProgressRecord);
  };
  return {
    get current() {
      return current();
    },
    start: async (operation) => {
      check();
      const before = current();
      if (before !== undefined && before.operation !== operation)
        throw new Error(`${before.operation} is not finished: finish it before ${operation}`);
      const { resourceVersion = '' } = state.object.metadata ?? {}; // another one after each write
      const startedAt = before?.startedAt ?? toTimestamp(world.now());
      const record: ProgressRecord = {
        operation,
        id: before?.id ?? keyFor(state.object, operation, world.now().toISOString(), resourceVersion),
        startedAt,
        attempt: (before?.attempt ?? 0) + 1,
      };
      // With the result of the operation before: its record goes with this write.
      const status = { ...state.fields, progress: record };
      state.object = await world.patchStatus(state.kind, state.object, status, signal);
      if (textIn(state.object, 'status', 'progress', 'id') !== record.id)
        throw new Error(
          `the schema of ${state.kind.kind} drops status.progress: add it to its CustomResourceDefinition`,
        );
      state.isFinished = false;
      return record;
    },
    finish: () => {
      check();
      if (current() !== undefined) state.isFinished = true;
    },
  };
}

/** What the leader reports about deletions of targets: Events, and one message for each policy. */
import { describeRef, targetKey } from '../../admission/policy/object-ref.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { counted } from '../../json/counted.ts';
import type { Log } from '../../log.ts';
import { ADMISSION_POLICIES } from '../resources.ts';
import { createReminders, regarding, type RecordEvent } from '../controller.ts';
import type { Progress } from './deletion-task.ts';

/** Limit for Events about objects of one deletion: the message of the policy says the rest. */
const MOST_EVENTS = 5;

const DONE = {
  Cascade: 'deleted',
  SetNull: 'removed the name from',
  SetDefault: 'wrote another name into',
} as const;

/** @param onMessage called with the name of a policy whose message has changed */
export function createDeletionProgress(
  record: RecordEvent,
  now: () => Date,
  log: Log,
  onMessage: (policy: string) => void,
) {
  const open = new Map<string, Progress>();
  const done = new Map<string, number>();
  const reminders = createReminders();
  const aboutPolicy = (policy: string): KubeObject => ({
    apiVersion: `${ADMISSION_POLICIES.group}/${ADMISSION_POLICIES.version}`,
    kind: ADMISSION_POLICIES.kind,
    metadata: { name: policy },
  });

  /** Empty if no deletion of the policy is stuck or waits for something. */
  const message = (policy: string): string => {
    const held = [...open.values()].filter((one) => one.record.policy === policy && one.message !== '');
    const [first] = held;
    if (first === undefined) return '';
    const more = held.length > 1 ? ` (and ${counted(held.length - 1, 'more deletion')})` : '';
    return `${describeRef(first.record.target)} was deleted, and objects still name it: ${first.message}${more}`;
  };

  return {
    message,
    note: (progress: Progress): void => {
      const { claim, record: order, state, stuck } = progress;
      const before = message(order.policy);
      const total = (done.get(claim) ?? 0) + progress.done;
      if (state === 'finished' || state === 'abandoned') {
        if (total > 0) {
          const text = `${DONE[order.action]} ${counted(total, 'object')} after the deletion of ${describeRef(order.target)} (reference ${order.reference})`;
          record({
            regarding: regarding(aboutPolicy(order.policy)),
            type: 'Normal',
            reason: 'ReferrersHandled',
            message: text,
          });
          log.info({ policy: order.policy, target: targetKey(order.target), objects: total }, text);
        }
        open.delete(claim);
        done.delete(claim);
        if (state === 'abandoned' && progress.message !== '')
          log.info({ policy: order.policy, target: targetKey(order.target) }, progress.message);
      } else {
        open.set(claim, progress);
        if (total > 0) done.set(claim, total);
      }
      for (const one of stuck.slice(0, MOST_EVENTS)) {
        if (one.object === undefined) continue;
        const text = `names ${describeRef(order.target)}, which was deleted, and ${order.action} fails: ${one.message} (reference ${order.reference}, policy ${order.policy})`;
        const key = `${claim} ${one.object.metadata?.uid ?? ''}`;
        if (reminders.isDue(key, text, now()))
          record({
            regarding: regarding(one.object),
            type: 'Warning',
            reason: 'ReferrerKept',
            message: text,
          });
      }
      const after = message(order.policy);
      if (after === before) return;
      if (after !== '') log.warn({ policy: order.policy }, after);
      onMessage(order.policy);
    },
    /** The record is gone. */
    forget: (claim: string): void => {
      const policy = open.get(claim)?.record.policy;
      open.delete(claim);
      done.delete(claim);
      if (policy !== undefined) onMessage(policy);
    },
  };
}

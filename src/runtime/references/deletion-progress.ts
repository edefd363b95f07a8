/** What the deletion actions report: Events, log lines, and a message in the status of the policy. */
import { describeRef, targetKey } from '../../admission/policy/object-ref.ts';
import type { DeletionRecord } from '../../admission/policy/references/deletion-record.ts';
import { createReminders, regarding, type RecordEvent } from '../controller.ts';
import { ADMISSION_POLICIES } from '../resources.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { withKind } from '../../kube/object.ts';
import type { Log } from '../../log.ts';
import { counted } from '../../json/counted.ts';

export interface Progress {
  readonly claim: string;
  readonly record: DeletionRecord;
  readonly state: 'waiting' | 'working' | 'stuck' | 'finished' | 'abandoned';
  readonly message: string;
  readonly done: number;
  readonly stuck: readonly Stuck[];
}

export interface Stuck {
  readonly object: KubeObject | undefined;
  readonly message: string;
}

/** Limit for Events about objects of one deletion: the message of the policy says the rest. */
const MOST_EVENTS = 5;

const DONE = {
  Cascade: 'deleted',
  SetNull: 'removed the reference from',
  SetDefault: 'set the default reference in',
} as const;

export function createDeletionProgress(
  record: RecordEvent,
  now: () => Date,
  log: Log,
  onMessage: (policy: string) => void,
) {
  const open = new Map<string, Progress>();
  const reminders = createReminders();

  const message = (policy: string): string => {
    const held = [...open.values()].filter((one) => one.record.policy === policy && one.message !== '');
    const [first] = held;
    if (first === undefined) return '';
    const more = held.length > 1 ? ` (and ${counted(held.length - 1, 'more deletion')})` : '';
    return `${describeRef(first.record.target)} was deleted, and objects still reference it: ${first.message}${more}`;
  };

  return {
    message,
    note: (progress: Progress): void => {
      const { claim, record: order, state, stuck } = progress;
      const before = message(order.policy);
      const total = (open.get(claim)?.done ?? 0) + progress.done;
      if (state === 'finished' || state === 'abandoned') {
        if (total > 0) {
          const text = `${DONE[order.action]} ${counted(total, 'object')}, because ${describeRef(order.target)} was deleted (reference ${order.reference})`;
          const about = regarding(withKind(ADMISSION_POLICIES, { metadata: { name: order.policy } }));
          record({ regarding: about, type: 'Normal', reason: 'ReferrersHandled', message: text });
          log.info({ policy: order.policy, target: targetKey(order.target), objects: total }, text);
        }
        open.delete(claim);
        if (state === 'abandoned' && progress.message !== '')
          log.info({ policy: order.policy, target: targetKey(order.target) }, progress.message);
      } else open.set(claim, { ...progress, done: total });
      for (const one of stuck.slice(0, MOST_EVENTS)) {
        if (one.object === undefined) continue;
        const text = `references ${describeRef(order.target)}, which was deleted, and ${order.action} fails: ${one.message} (reference ${order.reference}, policy ${order.policy})`;
        const key = `${claim} ${one.object.metadata?.uid ?? ''}`;
        const event = { type: 'Warning', reason: 'ReferrerKept', message: text } as const;
        if (reminders.isDue(key, text, now())) record({ regarding: regarding(one.object), ...event });
      }
      const after = message(order.policy);
      if (after === before) return;
      if (after !== '') log.warn({ policy: order.policy }, after);
      onMessage(order.policy);
    },
    forget: (claim: string): void => {
      const policy = open.get(claim)?.record.policy;
      open.delete(claim);
      if (policy !== undefined) onMessage(policy);
    },
  };
}

/** What a controller of users does, and what keeps it from its work: for metrics and `gatehouse status`. In memory only. */
import type { CompiledController } from '../../controllers/compile-controller.ts';
import { describeFailure, type PassResult } from '../../controllers/pass.ts';
import { messageWithCauses } from '../../json/abort.ts';
import { type GroupResource, groupResourceName, toTimestamp } from '../../json/kube-object.ts';
import { cut } from '../../json/printable.ts';
import { isForbidden, isNotFound } from '../../kube/api-error.ts';
import type { Metrics, PassResultLabel } from '../../server/metrics/metrics.ts';
import type { MissingKind, PublishedController, Trouble } from './published.ts';

export type Observed = ReturnType<typeof createObserved>;

interface Sizes {
  readonly objects: () => number;
  readonly queued: () => number;
  /** Kinds whose list or watch fails, e.g. because their CustomResourceDefinition was deleted. */
  readonly failures: () => readonly { readonly kind: GroupResource; readonly error: unknown }[];
}

const IDLE: Sizes = { objects: () => 0, queued: () => 0, failures: () => [] };
const MAX_MESSAGE = 300;
const MAX_TROUBLES = 5;

export function createObserved(
  controller: CompiledController,
  metrics: Pick<Metrics, 'userController'>,
  now: () => Date,
) {
  const { name, timeoutMs, watched } = controller;
  const meter = metrics.userController(name, controller);
  const passes = new Map<string, Date>();
  const troubles = new Map<string, Trouble>();
  let unserved: readonly MissingKind[] = [];
  let last: PublishedController['lastPass'];
  let sizes = IDLE;
  /** Counted with each change: a pass over one object must not cost a look at all. */
  const counts = { failing: 0, delayed: 0, stalled: 0 };
  const judge = (object: string, trouble: Omit<Trouble, 'object' | 'since'> | undefined): void => {
    const { kind, since } = troubles.get(object) ?? {};
    troubles.delete(object);
    if (kind !== undefined) counts[kind] -= 1;
    if (trouble !== undefined) {
      counts[trouble.kind] += 1;
      const begun = kind === trouble.kind ? since : undefined;
      const message = cut(trouble.message, MAX_MESSAGE);
      troubles.set(object, { object, ...trouble, message, since: begun ?? toTimestamp(now()) });
    }
    meter.troubled(counts);
  };
  const misses = () => [...unserved, ...sizes.failures().map(({ kind, error }) => missingKind(kind, error))];

  return {
    own: meter.own,
    blocked: meter.blocked,
    stuck: meter.stuck,
    unserved: (kinds: readonly MissingKind[]): void => {
      unserved = kinds;
      meter.missingKinds(kinds.length);
    },
    runs: (next: Sizes): void => {
      sizes = next;
    },
    /** Starts a pass; call the result at its end. @param isPassing a failure that only needs a retry */
    pass: (object: string, isPassing: (error: unknown) => boolean) => {
      const ended = meter.pass();
      passes.set(object, now());
      return (result: PassResult): void => {
        const label = labelOf(result);
        passes.delete(object);
        last = { at: toTimestamp(now()), object, result: label };
        ended(label);
        if (result.kind === 'failed' && isPassing(result.error)) return;
        if (result.kind !== 'done' || result.isHeld !== true) judge(object, troubleOf(result));
      };
    },
    /** The controller stops, or starts again with other kinds. */
    ends: (): void => {
      sizes = IDLE;
      unserved = [];
      troubles.clear();
      Object.assign(counts, { failing: 0, delayed: 0, stalled: 0 });
      meter.missingKinds(0);
      meter.blocked(0);
      meter.endOwn();
      meter.troubled(counts);
    },
    row: (lentTo: string | undefined): PublishedController => {
      const [oldest] = [...passes].toSorted(([, a], [, b]) => a.getTime() - b.getTime());
      const missing = misses();
      meter.missingKinds(missing.length);
      return {
        name,
        watches: groupResourceName(watched),
        lentTo,
        timeoutSeconds: timeoutMs / 1_000,
        missing,
        objects: sizes.objects(),
        queued: sizes.queued(),
        active: passes.size,
        oldestPass: oldest && { object: oldest[0], at: toTimestamp(oldest[1]) },
        lastPass: last,
        ...counts,
        troubles: [...troubles.values()].slice(-MAX_TROUBLES).toReversed(),
      };
    },
  };
}

export function missingKind(kind: GroupResource, error: unknown): MissingKind {
  const why = isNotFound(error) ? 'NotServed' : isForbidden(error) ? 'Forbidden' : 'Failed';
  return { kind: groupResourceName(kind), why, message: cut(messageWithCauses(error), MAX_MESSAGE) };
}

const labelOf = (result: PassResult): PassResultLabel => {
  if (result.kind === 'failed') return 'error';
  return result.kind === 'done' && result.requeueAt !== undefined ? 'requeue_after' : 'success';
};

function troubleOf(result: PassResult): Omit<Trouble, 'object' | 'since'> | undefined {
  if (result.kind === 'failed') {
    const { error, reason } = result;
    return { kind: 'failing', reason, message: describeFailure(error) };
  }
  const { why, reason = '', message = '' } = (result.kind === 'done' ? result.unready : undefined) ?? {};
  if (reason === 'KeepsChanging') return { kind: 'delayed', reason, message };
  return why === 'Stalled' ? { kind: 'stalled', reason, message } : undefined;
}

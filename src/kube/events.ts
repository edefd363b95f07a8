import { createHash } from 'node:crypto';
import { insteadOf, isAlreadyExists, isNotFound } from './api-error.ts';
import type { KubeClient } from './client.ts';
import { createFairQueue, type FairQueue } from './workqueue.ts';
import { sleep, systemClock, type Clock } from './clock.ts';
import type { Log } from '../log.ts';
import { toTimestamp, type KubeObject } from '../json/kube-object.ts';
import { events } from './well-known.ts';

export interface EventSubject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Undefined for cluster-scoped objects: their events go to the namespace `default`. */
  readonly namespace?: string | undefined;
  readonly name: string;
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
}

export interface EventNote {
  readonly regarding: EventSubject;
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  /** For humans. The recorder puts it on one line and cuts it at 1024 bytes. */
  readonly message: string;
}

export type EventRecorder = ReturnType<typeof createEventRecorder>;

export interface EventRecorderOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'patchMerge'>;
  readonly component: string;
  readonly instance: string;
  readonly log: Pick<Log, 'warn'>;
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
}

/** Events share etcd with all other objects: a burst passes, then the rate is limited to five per second. */
const BURST = 50;
const REFILL_MS = 200;
/** In bytes: the limit of events.k8s.io/v1. core/v1 does not limit it, but humans read it in `kubectl describe`. */
const MAX_MESSAGE = 1_024;
/** User input can contain control characters, which some clients pass to the terminal. */
const CONTROL_CHARACTERS = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]+/gu;
const TIMEOUT_MS = 10_000;

export function createEventRecorder(options: EventRecorderOptions) {
  const { client, component, instance, log, clock = systemClock } = options;
  const signal = options.signal ?? new AbortController().signal;
  const waiting = createEventQueue();
  let draining: Promise<void> | undefined;
  let tokens = BURST;
  let refilledAt = clock.monotonic();

  const takeToken = async (): Promise<void> => {
    const refill = Math.floor((clock.monotonic() - refilledAt) / REFILL_MS);
    tokens = Math.min(BURST, tokens + refill);
    refilledAt += refill * REFILL_MS;
    if (tokens < 1) {
      await sleep(clock, REFILL_MS, signal);
      return takeToken();
    }
    tokens--;
  };

  const write = async (name: string, { note, times }: WaitingEvent): Promise<void> => {
    const call = { signal, timeoutMs: TIMEOUT_MS };
    const lastTimestamp = toTimestamp(new Date(clock.now()));
    const ref = { namespace: note.regarding.namespace ?? 'default', name };
    const raiseCount = async (): Promise<boolean> => {
      const known = await client.get<KubeObject & { readonly count?: number }>(events, ref, call);
      if (known === undefined) return false;
      await client.patchMerge(events, ref, { count: (known.count ?? 1) + times, lastTimestamp }, call);
      return true;
    };
    const create = (): Promise<unknown> =>
      client.create(
        events,
        {
          metadata: ref,
          involvedObject: note.regarding,
          reason: note.reason,
          message: note.message,
          type: note.type,
          count: times,
          firstTimestamp: lastTimestamp,
          lastTimestamp,
          source: { component, host: instance },
          reportingComponent: component,
          reportingInstance: instance,
        },
        call,
      );
    try {
      await create();
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      const raised = await raiseCount().catch(insteadOf(isNotFound, false));
      // The Event expired between the two requests.
      if (!raised) await create();
    }
  };

  const drain = async (): Promise<void> => {
    while (waiting.size() > 0) {
      // An urgent Event may arrive while this waits: take the next Event only then.
      await takeToken().catch(() => waiting.clear());
      const next = waiting.next();
      if (next === undefined) return;
      await write(...next).catch((error: unknown) => {
        if (signal.aborted) waiting.clear();
        else drop(next[1].note, error);
      });
    }
  };

  const drop = ({ reason, regarding }: EventNote, err: unknown): void => {
    log.warn({ err, reason, regarding }, 'could not write an event');
  };

  const start = (): void => {
    draining ??= drain().finally(() => {
      draining = undefined;
      if (waiting.size() > 0) start();
    });
  };

  return {
    /** Returns immediately and never throws. The recorder logs and drops an event that it cannot write. */
    record: (recorded: EventNote): void => {
      const note = { ...recorded, message: cut(recorded.message) };
      const name = eventName(note, component);
      if (signal.aborted) return;
      const dropped = waiting.add(name, note);
      if (dropped?.type === 'Warning') drop(dropped, new Error('too many events wait'));
      start();
    },
    flush: async (): Promise<void> => {
      await draining;
    },
  };
}

/** A repeated event updates the existing Event, even from another replica. */
function eventName({ regarding, type, reason, message }: EventNote, component: string): string {
  const { apiVersion, kind, namespace, name, uid } = regarding;
  const contents = [component, apiVersion, kind, namespace, name, uid, type, reason, message];
  const hash = createHash('sha256').update(JSON.stringify(contents)).digest('hex').slice(0, 16);
  // Some names, e.g. of RBAC roles, contain characters that an Event name must not contain.
  const prefix = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(name)
    ? name.slice(0, 200)
    : kind.toLowerCase();
  return `${prefix.replace(/[-.]+$/, '')}.${hash}`;
}

/** Cuts before it cleans, because the message may have megabytes. */
function cut(message: string): string {
  const line = message.slice(0, 2 * MAX_MESSAGE).replace(CONTROL_CHARACTERS, ' ');
  const bytes = Buffer.from(line);
  if (bytes.length <= MAX_MESSAGE && message.length <= 2 * MAX_MESSAGE) return line;
  // `stream` drops an incomplete character at the end.
  const kept = new TextDecoder().decode(bytes.subarray(0, MAX_MESSAGE - ELLIPSIS_BYTES), { stream: true });
  return `${kept}…`;
}

const ELLIPSIS_BYTES = Buffer.byteLength('…');

interface WaitingEvent {
  readonly note: EventNote;
  times: number;
}

const MAX_WAITING = 1_000;

export function createEventQueue() {
  /** A namespace with many Events does not delay other namespaces. */
  const lanes = { Warning: createFairQueue<WaitingEvent>(), Normal: createFairQueue<WaitingEvent>() };
  const size = (): number => lanes.Warning.size() + lanes.Normal.size();
  return {
    size,
    /** Returns the Event that was dropped for lack of space. */
    add: (name: string, note: EventNote): EventNote | undefined => {
      const { namespace = '' } = note.regarding;
      const waiting = lanes[note.type].get(namespace, name);
      if (waiting !== undefined) {
        waiting.times++;
        return undefined;
      }
      lanes[note.type].set(namespace, name, { note, times: 1 });
      if (size() <= MAX_WAITING) return undefined;
      return dropNewest(lanes.Normal.size() > 0 ? lanes.Normal : lanes.Warning)?.note;
    },
    next: (): readonly [name: string, event: WaitingEvent] | undefined =>
      lanes.Warning.next() ?? lanes.Normal.next(),
    clear: (): void => {
      lanes.Warning.clear();
      lanes.Normal.clear();
    },
  };
}

function dropNewest(lane: FairQueue<WaitingEvent>): WaitingEvent | undefined {
  const [largest] = [...lane.groups()].sort(([, a], [, b]) => b.size - a.size);
  const newest = largest && [...largest[1]].at(-1);
  if (largest === undefined || newest === undefined) return undefined;
  lane.delete(largest[0], newest[0]);
  return newest[1];
}

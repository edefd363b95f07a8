import { createHash } from 'node:crypto';
import { isAlreadyExists, isNotFound } from './api-error.ts';
import type { KubeClient } from './client.ts';
import { sleep, systemClock, type Clock } from './clock.ts';
import { toRfc3339 } from './conditions.ts';
import type { Log } from '../log.ts';
import type { KubeObject } from '../json/kube-object.ts';
import { events } from './well-known.ts';

/** The object that an event is about. */
export interface EventSubject {
  readonly apiVersion: string;
  readonly kind: string;
  /** Undefined for cluster-scoped objects; their events stand in the namespace `default`. */
  readonly namespace?: string | undefined;
  readonly name: string;
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
}

export interface EventNote {
  readonly regarding: EventSubject;
  readonly type: 'Normal' | 'Warning';
  /** One CamelCase word: why. */
  readonly reason: string;
  /** For people. Cut at 1024 bytes, on one line. */
  readonly message: string;
  /** One CamelCase word: what was done. */
  readonly action?: string;
}

export interface EventRecorder {
  /** Returns at once and never throws: an event that cannot be written is logged and dropped. */
  readonly record: (note: EventNote) => void;
  /** Resolves when everything recorded so far is written or dropped. */
  readonly flush: () => Promise<void>;
  /** How many notes were dropped because too many waited. */
  readonly dropped: () => number;
}

export interface EventRecorderOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'patchMerge'>;
  /** What reports, e.g. `gatehouse`. */
  readonly component: string;
  /** Which replica of it, e.g. the name of the pod. */
  readonly instance: string;
  readonly log: Pick<Log, 'warn'>;
  /** Ends pauses and requests; notes recorded afterwards are dropped. */
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
}

/** core/v1 Event, as every API server since 1.8 takes it. */
interface CoreEvent extends KubeObject {
  readonly involvedObject: EventSubject;
  readonly reason: string;
  readonly message: string;
  readonly type: string;
  readonly action?: string;
  readonly count?: number;
  readonly firstTimestamp: string;
  readonly lastTimestamp: string;
  readonly source: { readonly component: string; readonly host: string };
  readonly reportingComponent: string;
  readonly reportingInstance: string;
}

/** More waiting notes than this tell a reader nothing; each is a kilobyte or so. */
const MAX_WAITING = 1_000;
/** Events share etcd with everything else: a burst passes, a stream is slowed to one in five per second. */
const BURST = 50;
const REFILL_MS = 200;
/** Bytes: what events.k8s.io/v1 allows; core/v1 has no limit of its own, but `kubectl describe` has a reader. */
const MAX_MESSAGE = 1_024;
/** Of what users wrote, and `kubectl get events` before 1.25 hands on to the terminal. */
const STEERING = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]+/gu;
/** An event is worth less than what it reports: it must not hold anything up. */
const TIMEOUT_MS = 10_000;

interface Waiting {
  readonly note: EventNote;
  times: number;
}

export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { client, component, instance, log, clock = systemClock } = options;
  const signal = options.signal ?? new AbortController().signal;
  const waiting = new Map<string, Waiting>();
  let dropped = 0;
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

  const write = async (name: string, { note, times }: Waiting): Promise<void> => {
    const call = { signal, timeoutMs: TIMEOUT_MS };
    const lastTimestamp = toRfc3339(new Date(clock.now()));
    const ref = { namespace: note.regarding.namespace ?? 'default', name };
    const again = async (): Promise<boolean> => {
      const known = await client.get<CoreEvent>(events, ref, call);
      if (known === undefined) return false;
      await client.patchMerge(events, ref, { count: (known.count ?? 1) + times, lastTimestamp }, call);
      return true;
    };
    const create = (): Promise<unknown> =>
      client.create<CoreEvent>(
        events,
        {
          metadata: ref,
          involvedObject: note.regarding,
          reason: note.reason,
          message: note.message,
          type: note.type,
          ...(note.action === undefined ? {} : { action: note.action }),
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
      const raised = await again().catch((failure: unknown) => {
        if (isNotFound(failure)) return false;
        throw failure;
      });
      // It expired between the two requests.
      if (!raised) await create();
    }
  };

  const drain = async (): Promise<void> => {
    for (let [next] = waiting; next !== undefined; [next] = waiting) {
      const [name, entry] = next;
      try {
        await takeToken();
        waiting.delete(name);
        await write(name, entry);
      } catch (error) {
        waiting.delete(name);
        if (signal.aborted) waiting.clear();
        else
          log.warn(
            { err: error, reason: entry.note.reason, regarding: entry.note.regarding },
            'could not write an event',
          );
      }
    }
  };

  const start = (): void => {
    draining ??= drain().finally(() => {
      draining = undefined;
      // Recorded between the last look and here.
      if (waiting.size > 0) start();
    });
  };

  return {
    record: (said) => {
      const note = { ...said, message: cut(said.message) };
      const name = eventName(note, component);
      const same = waiting.get(name);
      if (same !== undefined) {
        same.times++;
      } else if (waiting.size >= MAX_WAITING || signal.aborted) {
        dropped++;
      } else {
        waiting.set(name, { note, times: 1 });
        start();
      }
    },
    flush: async () => {
      await draining;
    },
    dropped: () => dropped,
  };
}

/** Made from what it says, so that the same event finds its object again, also from another replica. */
function eventName({ regarding, type, reason, message, action }: EventNote, component: string): string {
  const { apiVersion, kind, namespace, name, uid } = regarding;
  const said = [component, apiVersion, kind, namespace, name, uid, type, reason, message, action];
  const hash = createHash('sha256').update(JSON.stringify(said)).digest('hex').slice(0, 16);
  // Names of RBAC roles and others may hold what the name of an Event may not.
  const prefix = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(name)
    ? name.slice(0, 200)
    : kind.toLowerCase();
  return `${prefix.replace(/[-.]+$/, '')}.${hash}`;
}

/** Cut before it is cleaned: it may be megabytes long. */
function cut(message: string): string {
  const line = message.slice(0, 2 * MAX_MESSAGE).replace(STEERING, ' ');
  const bytes = Buffer.from(line);
  if (bytes.length <= MAX_MESSAGE && message.length <= 2 * MAX_MESSAGE) return line;
  // Half a character at the end is left out, for it is none.
  const kept = new TextDecoder().decode(bytes.subarray(0, MAX_MESSAGE - ELLIPSIS_BYTES), { stream: true });
  return `${kept}…`;
}

const ELLIPSIS_BYTES = Buffer.byteLength('…');

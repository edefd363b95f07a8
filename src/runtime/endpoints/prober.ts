/** Asks the endpoints of Services for their certificates: at most 20 at a time, and few per second. */
import { createDelayedKeys } from '../../kube/delayed-keys.ts';
import type { Clock } from '../../kube/clock.ts';
import { createTokenBucket } from '../certificates/issue-pacer.ts';
import type { Answer, Question } from './handshake.ts';
import type { EndpointState, Served, ServedCerts, ServedService } from './served-certs.ts';
import { createTurns } from './turns.ts';

/** A handshake takes 1 to 2 ms of CPU time, so this rate stays below 1 % of a core. */
const PACE = { perSecond: 5, burst: 100 } as const;
/** Handshakes in groups take half of the CPU time of single ones, which find cold caches. */
const GROUP_EVERY_MS = 2_000;
const MAX_OPEN = 20;
/** Servers that watch their Secret reload within seconds. Those with a volume wait for the kubelet, up to two minutes. */
const FIRST_LOOK_MS = 10_000;
/** Endpoints that do not answer must not take every connection. */
const MAX_OPEN_PER_NAMESPACE = 10;

export interface ProberOptions {
  readonly served: ServedCerts;
  readonly ask: (question: Question, signal: AbortSignal) => Promise<Answer>;
  readonly read: (answer: Answer, serverName: string) => Served;
  /** Called after each answer. */
  readonly onAnswer: (serviceKey: string, state: EndpointState, isChanged: boolean) => void;
  readonly clock: Pick<Clock, 'monotonic' | 'after'>;
}

/** What a hostile server presents must not end the leader. */
const unreadable = (): Served => ({ kind: 'unreachable' });

/** The handshakes in progress, in total and in each namespace. */
function createOpenHandshakes() {
  const keys = new Set<string>();
  const perNamespace = new Map<string, number>();
  return {
    has: (key: string): boolean => keys.has(key),
    hasRoom: (): boolean => keys.size < MAX_OPEN,
    isFree: (namespace: string): boolean => (perNamespace.get(namespace) ?? 0) < MAX_OPEN_PER_NAMESPACE,
    begin: (namespace: string, key: string): void => {
      keys.add(key);
      perNamespace.set(namespace, (perNamespace.get(namespace) ?? 0) + 1);
    },
    end: (namespace: string, key: string): void => {
      keys.delete(key);
      const left = (perNamespace.get(namespace) ?? 1) - 1;
      if (left === 0) perNamespace.delete(namespace);
      else perNamespace.set(namespace, left);
    },
  };
}

/** When endpoints have their turn. */
function createSchedule(
  { served, clock }: Pick<ProberOptions, 'served' | 'clock'>,
  isOpen: (key: string) => boolean,
  onTurn: () => void,
) {
  const turns = createTurns();
  const enqueue = (key: string, isUrgent: boolean): void => {
    const namespace = served.question(key)?.namespace;
    if (namespace === undefined || isOpen(key)) return;
    turns.add(namespace, key, isUrgent);
    onTurn();
  };
  const routine = createDelayedKeys(clock, (key) => enqueue(key, false));
  const renewed = createDelayedKeys(clock, (key) => enqueue(key, true));
  return {
    ...{ size: turns.size, next: turns.next, enqueue, routine, renewed },
    forget: (namespace: string, keys: readonly string[]): void => {
      for (const key of keys) {
        turns.delete(namespace, key);
        routine.delete(key);
        renewed.delete(key);
      }
    },
    clear: (): void => {
      routine.clear();
      renewed.clear();
    },
  };
}

/** Starts the next handshakes, in groups, as fast as the pace and the open ones permit. */
function createPump(
  { size, next }: Pick<ReturnType<typeof createSchedule>, 'size' | 'next'>,
  { hasRoom, isFree }: Pick<ReturnType<typeof createOpenHandshakes>, 'hasRoom' | 'isFree'>,
  clock: ProberOptions['clock'],
  start: (key: string) => void,
) {
  const bucket = createTokenBucket({ ...PACE, ...clock });
  let cancel: (() => void) | undefined;
  const pump = (): void => {
    while (hasRoom() && size() > 0) {
      if (bucket.waitMs() > 0) {
        pumpSoon();
        return;
      }
      const key = next(isFree);
      if (key === undefined) return; // the end of a handshake frees its namespace
      bucket.take();
      start(key);
    }
  };
  const pumpSoon = (): void => {
    cancel ??= clock.after(GROUP_EVERY_MS, () => {
      cancel = undefined;
      pump();
    });
  };
  return { pump, pumpSoon, stop: () => cancel?.() };
}

export function createProber({ served, ask, read, onAnswer, clock }: ProberOptions, signal: AbortSignal) {
  const open = createOpenHandshakes();
  const schedule = createSchedule({ served, clock }, open.has, () => onTurn());
  const { pump, pumpSoon, stop } = createPump(schedule, open, clock, (key) => void probe(key));
  const onTurn = (): void => {
    if (!signal.aborted) pumpSoon();
  };

  const probe = async (key: string): Promise<void> => {
    const question = served.question(key);
    if (question === undefined) return;
    const { namespace } = question;
    schedule.routine.delete(key);
    open.begin(namespace, key);
    const answer = await ask(question, signal)
      .then((found) => read(found, question.serverName))
      .catch(unreadable);
    open.end(namespace, key);
    if (signal.aborted) return;
    const result = served.record(key, answer, clock.monotonic());
    if (result !== undefined) {
      schedule.routine.set(key, result.askAt);
      onAnswer(result.serviceKey, result.state, result.isChanged);
    }
    pump();
  };

  signal.addEventListener('abort', () => {
    stop();
    schedule.clear();
  });
  return {
    /** The endpoints or the leaf of a Service may have changed. */
    update: (serviceKey: string, service: ServedService): void => {
      const now = clock.monotonic();
      const { added, renewed, gone } = served.update(serviceKey, service, now);
      schedule.forget(service.namespace, gone);
      for (const key of added) schedule.enqueue(key, true);
      for (const key of renewed) schedule.renewed.set(key, now + FIRST_LOOK_MS);
    },
    remove: (serviceKey: string): void => {
      schedule.forget(serviceKey.split('/')[0] ?? '', served.remove(serviceKey));
    },
  };
}

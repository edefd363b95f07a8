/** Asks the endpoints of Services for their certificates: at most 20 at a time, and few per second. */
import { createDelayedKeys } from '../../kube/delayed-keys.ts';
import type { Clock } from '../../kube/clock.ts';
import { createTokenBucket } from '../certificates/issue-pacer.ts';
import type { Answer, Question } from './handshake.ts';
import type { EndpointState, Served, ServedCerts, ServedService } from './served-certs.ts';
import { createTurns } from './turns.ts';

/** A handshake takes 1 to 2 ms of CPU time, so this rate stays at about 1 % of a core. */
const PACE = { perSecond: 5, burst: 100 } as const;
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

export function createProber({ served, ask, read, onAnswer, clock }: ProberOptions, signal: AbortSignal) {
  const turns = createTurns();
  const bucket = createTokenBucket({ ...PACE, ...clock });
  const open = new Map<string, number>();
  const asking = new Set<string>();
  let cancel: (() => void) | undefined;

  const enqueue = (key: string, isUrgent: boolean): void => {
    const namespace = served.question(key)?.namespace;
    if (namespace === undefined || asking.has(key)) return;
    turns.add(namespace, key, isUrgent);
    pump();
  };
  const later = createDelayedKeys(clock, (key) => enqueue(key, false));
  const soon = createDelayedKeys(clock, (key) => enqueue(key, true));

  const pump = (): void => {
    if (signal.aborted) return;
    while (asking.size < MAX_OPEN && turns.size() > 0) {
      const waitMs = bucket.waitMs();
      if (waitMs > 0) {
        cancel ??= clock.after(waitMs, () => {
          cancel = undefined;
          pump();
        });
        return;
      }
      const key = turns.next(isFree);
      if (key === undefined) return; // the end of a handshake frees its namespace
      bucket.take();
      void probe(key);
    }
  };
  const isFree = (namespace: string): boolean => (open.get(namespace) ?? 0) < MAX_OPEN_PER_NAMESPACE;

  const probe = async (key: string): Promise<void> => {
    const question = served.question(key);
    if (question === undefined) return;
    const { namespace } = question;
    later.delete(key);
    asking.add(key);
    open.set(namespace, (open.get(namespace) ?? 0) + 1);
    const answer = await ask(question, signal)
      .then((found) => read(found, question.serverName))
      .catch(unreadable);
    asking.delete(key);
    open.set(namespace, (open.get(namespace) ?? 1) - 1);
    if (open.get(namespace) === 0) open.delete(namespace);
    if (signal.aborted) return;
    const result = served.record(key, answer, clock.monotonic());
    if (result !== undefined) {
      later.set(key, result.askAt);
      onAnswer(result.serviceKey, result.state, result.isChanged);
    }
    pump();
  };

  const forget = (namespace: string, keys: readonly string[]): void => {
    for (const key of keys) {
      turns.delete(namespace, key);
      later.delete(key);
      soon.delete(key);
    }
  };

  signal.addEventListener('abort', () => {
    cancel?.();
    later.clear();
    soon.clear();
  });
  return {
    /** The endpoints or the leaf of a Service may have changed. */
    update: (serviceKey: string, service: ServedService): void => {
      const now = clock.monotonic();
      const { added, renewed, gone } = served.update(serviceKey, service, now);
      forget(service.namespace, gone);
      for (const key of added) enqueue(key, true);
      for (const key of renewed) soon.set(key, now + FIRST_LOOK_MS);
    },
    remove: (serviceKey: string): void => {
      forget(serviceKey.split('/')[0] ?? '', served.remove(serviceKey));
    },
  };
}

/** On the leader: asks the endpoints of Services with serving certs for their leaf, and compares it with the Secret. */
import { createHash } from 'node:crypto';
import { createDelayedKeys } from '../../kube/workqueue.ts';
import { type Clock, systemClock } from '../../kube/clock.ts';
import { createTokenBucket } from '../certificates/issue-pacer.ts';
import { type Answer, type Question, askForLeaf } from './handshake.ts';
import {
  type EndpointState,
  type Served,
  type ServedCerts,
  type ServedService,
  createServedCerts,
} from './served-certs.ts';
import { createTurns } from './turns.ts';
import { endpointSlices } from '../../kube/well-known.ts';
import { SERVING_CERT_PORTS } from '../../pki/annotations.ts';
import { markedService } from '../../pki/serving-certs/secret.ts';
import type { ServiceRequests, ServingCertStores } from '../certificates/serving-cert-stores.ts';
import { regardingService, identityOf } from '../certificates/serving-cert-task.ts';
import { startController, type LeaderContext } from '../controller.ts';
import { versionsOf, watch } from '../watch.ts';
import {
  announceAt,
  announcementOf,
  type Announced,
  createReportReconciler,
  reportOf,
  SERVED_CERTS_CONFIGMAP,
} from './report.ts';
import { createRestarts } from './restarts.ts';
import { endpointsOf, servicesOf, toStoredSlice, type EndpointSlice } from './slices.ts';

/** A handshake takes 1 to 2 ms of CPU time, so this rate stays below 1 % of a core. */
const PACE = { perSecond: 5, burst: 100 } as const;
/** Handshakes in groups take half of the CPU time of single ones, which find cold caches. */
const GROUP_EVERY_MS = 2_000;
const MAX_OPEN = 20;
/** Servers that watch their Secret reload within seconds. Those with a volume wait for the kubelet, up to two minutes. */
const FIRST_LOOK_MS = 10_000;
/** Endpoints that do not answer must not take every connection. */
const MAX_OPEN_PER_NAMESPACE = 10;

interface ProberOptions {
  readonly served: ServedCerts;
  readonly ask: (question: Question, signal: AbortSignal) => Promise<Answer>;
  readonly read: (answer: Answer, serverName: string) => Served;
  readonly onAnswer: (serviceKey: string, state: EndpointState, isChanged: boolean) => void;
  readonly clock: Pick<Clock, 'monotonic' | 'after'>;
}

export function createProber({ served, ask, read, onAnswer, clock }: ProberOptions, signal: AbortSignal) {
  const open = new Map<string, string>();
  const isFree = (namespace: string): boolean =>
    [...open.values()].filter((one) => one === namespace).length < MAX_OPEN_PER_NAMESPACE;
  const turns = createTurns();
  const bucket = createTokenBucket({ ...PACE, ...clock });
  let cancel: (() => void) | undefined;

  const enqueue = (key: string, isUrgent: boolean): void => {
    const namespace = served.question(key)?.namespace;
    if (namespace === undefined || open.has(key)) return;
    turns.add(namespace, key, isUrgent);
    if (!signal.aborted) pumpSoon();
  };
  const routine = createDelayedKeys(clock, (key) => enqueue(key, false));
  const renewed = createDelayedKeys(clock, (key) => enqueue(key, true));
  const forget = (namespace: string, keys: readonly string[]): void => {
    for (const key of keys) {
      turns.delete(namespace, key);
      routine.delete(key);
      renewed.delete(key);
    }
  };
  /** Starts the next handshakes, in groups, as fast as the pace and the open ones permit. */
  const pump = (): void => {
    while (open.size < MAX_OPEN && turns.size() > 0) {
      if (bucket.waitMs() > 0) {
        pumpSoon();
        return;
      }
      const key = turns.next(isFree);
      if (key === undefined) return; // the end of a handshake frees its namespace
      bucket.take();
      void probe(key);
    }
  };
  const pumpSoon = (): void => {
    cancel ??= clock.after(GROUP_EVERY_MS, () => {
      cancel = undefined;
      pump();
    });
  };
  const probe = async (key: string): Promise<void> => {
    const question = served.question(key);
    if (question === undefined) return;
    routine.delete(key);
    open.set(key, question.namespace);
    const answer = await ask(question, signal)
      .then((found) => read(found, question.serverName))
      .catch((): Served => ({ kind: 'unreachable' })); // what a hostile server presents must not end the leader
    open.delete(key);
    if (signal.aborted) return;
    const result = served.record(key, answer, clock.monotonic());
    if (result !== undefined) {
      routine.set(key, result.askAt);
      onAnswer(result.serviceKey, result.state, result.isChanged);
    }
    pump();
  };

  signal.addEventListener('abort', () => {
    cancel?.();
    routine.clear();
    renewed.clear();
  });
  return {
    update: (serviceKey: string, service: ServedService): void => {
      const now = clock.monotonic();
      const changes = served.update(serviceKey, service, now);
      forget(service.namespace, changes.gone);
      for (const key of changes.added) enqueue(key, true);
      for (const key of changes.renewed) renewed.set(key, now + FIRST_LOOK_MS);
    },
    remove: (serviceKey: string): void => {
      forget(serviceKey.split('/')[0] ?? '', served.remove(serviceKey));
    },
  };
}

type Stores = Pick<ServingCertStores, 'service' | 'serviceKeys' | 'secret' | 'whenSynced'>;
const BY_SERVICE = 'service';
/** A rollout changes a slice many times per second: gather, in milliseconds. */
const GATHER_MS = 1_000;
const ROOM_MS = 60 * 60_000;
const REPORT_MS = 5_000;

/** Returns a function that takes note of a change of a Service (`namespace/name`) or its Secret. */
export function startEndpointProbes(
  context: LeaderContext,
  stores: Stores,
  requests: Pick<ServiceRequests, 'claimOf'>,
  signal: AbortSignal,
): (serviceKey: string) => void {
  const { endpointProbes, without } = context.config;
  const { maxEndpoints, reloadMs } = endpointProbes;
  if (maxEndpoints === 0 || without.includes('certificates')) return () => undefined;
  const served = createServedCerts(reloadMs);
  const report = startReport(context, served, signal);
  const restart = createRestarts({ ...context, clock: systemClock }, served, signal);
  const announce = startAnnouncements(context, stores, served, restart, signal);
  const prober = createProber(
    {
      served,
      ask: askForLeaf,
      read: servedBy,
      onAnswer: (serviceKey, state, isChanged) => {
        if (isChanged) report();
        announce(serviceKey, state === 'stale');
      },
      clock: systemClock,
    },
    signal,
  );
  let slicesOf: ((serviceKey: string) => readonly EndpointSlice[]) | undefined;
  const changes = createDelayedKeys(systemClock, (key) => {
    if (slicesOf === undefined) return;
    const found = servedServiceOf(key, stores, requests, slicesOf(key), maxEndpoints);
    if (found === 'unissued') return; // for a moment, in most cases
    const limit = found === undefined ? 0 : served.roomFor(key, found.namespace, maxEndpoints);
    const isTooLarge = found !== undefined && found.endpoints.length > limit;
    if (isTooLarge) {
      context.log.warn({ key, limit }, 'too many endpoints for handshakes');
      changes.set(key, systemClock.monotonic() + ROOM_MS);
    }
    if (found === undefined || isTooLarge) prober.remove(key);
    else prober.update(key, found);
    announce(key, false);
    report();
  });
  signal.addEventListener('abort', changes.clear);
  const changed = (key: string): void => {
    if (slicesOf !== undefined && !signal.aborted) changes.set(key, systemClock.monotonic() + GATHER_MS);
  };
  const follow = async (): Promise<void> => {
    [slicesOf] = await Promise.all([watchSlices(context, changed, signal), stores.whenSynced(signal)]);
    for (const key of stores.serviceKeys()) changed(key);
    context.metrics.scrape({ servedCerts: served.counts }, signal);
  };
  void follow().catch((err: unknown) => {
    if (!signal.aborted) context.log.error({ err }, 'no server is asked for its certificate');
  });
  return changed;
}

async function watchSlices(
  context: LeaderContext,
  changed: (serviceKey: string) => void,
  signal: AbortSignal,
): Promise<(serviceKey: string) => readonly EndpointSlice[]> {
  const slices = watch<EndpointSlice>(
    context,
    {
      resource: endpointSlices,
      transform: toStoredSlice,
      indexes: { [BY_SERVICE]: servicesOf },
      onChange: (_key, change) => {
        for (const key of new Set(versionsOf(change).flatMap(servicesOf))) changed(key);
      },
    },
    signal,
  );
  await slices.whenSynced(signal);
  return (key) => slices.store.byIndex(BY_SERVICE, key);
}

function servedServiceOf(
  key: string,
  stores: Stores,
  requests: Pick<ServiceRequests, 'claimOf'>,
  slices: readonly EndpointSlice[],
  maxEndpoints: number,
): ServedService | 'unissued' | undefined {
  const service = stores.service(key);
  const claim = service && requests.claimOf(service);
  if (service === undefined || claim === undefined) return undefined;
  const { namespace, name, uid } = identityOf(service);
  const secret = stores.secret(`${namespace}/${claim.secretName}`);
  if (secret?.summary?.kind !== 'usable' || markedService(secret) !== name) return 'unissued';
  return {
    namespace,
    name,
    uid,
    secretName: claim.secretName,
    leaf: fingerprint(Buffer.from(secret.summary.leaf, 'base64')),
    serverName: `${name}.${namespace}.svc`,
    endpoints: endpointsOf(slices, service.metadata?.annotations?.[SERVING_CERT_PORTS], maxEndpoints),
  };
}

const fingerprint = (der: Uint8Array): string => createHash('sha256').update(der).digest('base64');

export function servedBy(answer: Answer, serverName: string): Served {
  if (answer.kind !== 'leaf') return answer;
  const { leaf } = answer;
  return {
    kind: 'leaf',
    leaf: fingerprint(leaf.raw),
    notAfter: leaf.validToDate,
    isFor: leaf.checkHost(serverName, { subject: 'never' }) !== undefined,
  };
}

function startReport(context: LeaderContext, served: ServedCerts, signal: AbortSignal): () => void {
  const { client, config, serverClock } = context;
  const { now } = serverClock;
  const sinceOf = (at: number) => new Date(now().getTime() - (systemClock.monotonic() - at));
  const read = () => reportOf(served.counts(), served.stale(), now(), sinceOf);
  const reconcile = createReportReconciler(client, config.namespace, read);
  const options = { name: 'served-certs', reconcile, serverNow: now };
  const controller = startController(context, options, signal);
  const later = createDelayedKeys(systemClock, controller.add);
  signal.addEventListener('abort', later.clear);
  return () => later.set(SERVED_CERTS_CONFIGMAP, systemClock.monotonic() + REPORT_MS);
}

function startAnnouncements(
  { record, log }: LeaderContext,
  stores: Stores,
  served: ServedCerts,
  restart: (serviceKey: string) => void,
  signal: AbortSignal,
): (serviceKey: string, isStale: boolean) => void {
  const announced = new Map<string, Announced>();
  const { monotonic } = systemClock;
  const later = createDelayedKeys(systemClock, (key) => {
    const service = stores.service(key);
    const stale = served.staleIn(key);
    if (stale !== undefined) restart(key);
    const next = announcementOf(stale, announced.get(key), monotonic());
    if (next.announced === undefined || service === undefined) announced.delete(key);
    else announced.set(key, next.announced);
    if (next.event === undefined || service === undefined) return;
    record({ regarding: regardingService(identityOf(service)), ...next.event });
    log.info({ key, reason: next.event.reason }, next.event.message);
  });
  signal.addEventListener('abort', later.clear);
  return (key, isStale) => {
    const before = announced.get(key);
    if (isStale || before !== undefined) later.set(key, announceAt(before, monotonic()));
  };
}

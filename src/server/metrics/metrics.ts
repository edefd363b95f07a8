/** The metrics of one instance, in a separate registry: tests start several instances in one process. */
import { Registry, collectDefaultMetrics } from 'prom-client';

import type { OwnMetricDefinition } from '../../api/own-metric.ts';
import { METRICS } from './catalog.ts';
import { createInstruments, type ExemplarLabels, type Instruments } from './instruments.ts';
import { createOwnMetrics, type OwnMetrics } from './own-metrics.ts';
import { createScrapedMetrics } from './scraped.ts';
import { OPEN_METRICS, openMetricsText } from './open-metrics.ts';

export type Outcome = 'allow' | 'deny' | 'retry' | 'error';
type AdmissionLabels = Readonly<Record<'webhook' | 'operation', string>> & { readonly outcome: Outcome };
export type HandlerOutcomeLabel = Outcome | 'timeout';
export type ConversionOutcome = 'converted' | 'failed' | 'unready' | 'error';

/** The first match counts: limits of settings precede a slow process. */
const OVERLOADS = ['reviews', 'entry', 'requester', 'event-loop', 'bodies', 'time'] as const;
export type Overload = (typeof OVERLOADS)[number];
const CLIENT_REFUSALS = ['no-certificate', 'untrusted', 'name'] as const;
export type ClientRefusal = (typeof CLIENT_REFUSALS)[number];
const RESTARTS = ['restarted', 'refused', 'unfinished'] as const;

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics(exemplar?: ExemplarLabels) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const instruments = createInstruments(registry);
  const { gauge, count, observe } = instruments;
  const conversions = observe<{ crd: string; outcome: ConversionOutcome }>(METRICS.conversion);
  const convertedObjects = instruments.counter(METRICS.convertedObjects);
  const leader = gauge(METRICS.leader);
  leader.set({ name: 'gatehouse' }, 0);
  const eventLoopDelay = instruments.histogram(METRICS.eventLoopDelay);

  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    openMetrics:
      exemplar === undefined
        ? undefined
        : { contentType: OPEN_METRICS, text: () => openMetricsText(registry) },

    admission:
      exemplar === undefined
        ? observe<AdmissionLabels>(METRICS.admission)
        : instruments.observeTraced<AdmissionLabels>(METRICS.admission, exemplar),
    /** `crd` is empty when no ConversionPolicy or handler converts the requested kind: clients cannot create labels. */
    conversion: (labels: { crd: string; outcome: ConversionOutcome }, seconds: number, objects: number) => {
      conversions(labels, seconds);
      convertedObjects.inc(labels, objects);
    },
    handler: observe<{ handler: string; webhook: string; outcome: HandlerOutcomeLabel }>(METRICS.handler),
    userController: createPassMetrics(instruments, createOwnMetrics(instruments)),
    handlerFailure: count<[handler: string, reason: string]>(METRICS.handlerFailures),
    rejectedRequest: count<[status: number]>(METRICS.rejectedRequests),
    refusedReview: count<[reason: Overload]>(
      METRICS.refusedReviews,
      OVERLOADS.map((reason) => [reason]),
    ),
    eventLoopDelay: (seconds: number) => eventLoopDelay.observe(seconds),
    crowdedOut: count<[]>(METRICS.crowdedOut),
    refusedClient: count<[reason: ClientRefusal]>(
      METRICS.refusedClients,
      CLIENT_REFUSALS.map((reason) => [reason]),
    ),
    clientCaFailed: count<[]>(METRICS.clientCaErrors),
    certificateRead: count<[]>(METRICS.certificateReads),
    certificateReadFailed: count<[]>(METRICS.certificateReadErrors),

    apiRequest: observe<{ verb: string; code: string }>(METRICS.apiRequests),
    leader: (isLeader: boolean) => leader.set({ name: 'gatehouse' }, isLeader ? 1 : 0),
    ...createWorkqueueMetrics(instruments),
    ...createScrapedMetrics(instruments),
    ...createAuthorityMetrics(instruments),
    rollback: count<[evidence: 'Epoch' | 'ResourceVersion' | 'Told']>(METRICS.rollbacks),
    authorityRestored: count<[]>(METRICS.authorityRestored),
    issue: count<[result: string, reason: string]>(METRICS.issued),
    workloadRestart: count<[result: (typeof RESTARTS)[number]]>(
      METRICS.workloadRestarts,
      RESTARTS.map((result) => [result]),
    ),
    refusedClaims: count<[]>(METRICS.refusedClaims),
    deferred: count<[policy: string]>(METRICS.deferred),
    existingAllowed: count<[policy: string]>(METRICS.existingAllowed),
  };
}

export interface AuthorityState {
  readonly phase: string;
  readonly broken: string | undefined;
  readonly generations: readonly {
    readonly id: string;
    readonly state: string;
    readonly notAfter: Date;
    readonly retiresAt: Date | undefined;
  }[];
}

function createAuthorityMetrics({ scraped }: Instruments) {
  let current: (AuthorityState & { readonly since: number }) | undefined;
  scraped(METRICS.authorityNotAfter, () =>
    (current?.generations ?? []).map(({ id, state, notAfter }) => [
      { generation: id, state },
      notAfter.getTime() / 1_000,
    ]),
  );
  scraped(METRICS.authorityRetirement, () =>
    (current?.generations ?? []).flatMap(({ id, retiresAt }) =>
      retiresAt === undefined ? [] : [[{ generation: id }, retiresAt.getTime() / 1_000] as const],
    ),
  );
  scraped(METRICS.rotationPhase, () => (current === undefined ? [] : [[{ phase: current.phase }, 1]]));
  scraped(METRICS.rotationPhaseSeconds, () =>
    current === undefined ? [] : [[{ phase: current.phase }, (performance.now() - current.since) / 1_000]],
  );
  scraped(METRICS.authorityBroken, () =>
    current?.broken === undefined ? [] : [[{ reason: current.broken }, 1]],
  );
  return {
    authority: (state: AuthorityState | undefined) => {
      const since = current?.phase === state?.phase ? current?.since : undefined;
      current = state && { ...state, since: since ?? performance.now() };
    },
  };
}

export type PassResultLabel = 'error' | 'success' | 'requeue_after';

function createPassMetrics({ counter, gauge, histogram }: Instruments, ownMetrics: OwnMetrics) {
  const results = counter(METRICS.reconciles);
  const errors = counter(METRICS.reconcileErrors);
  const seconds = histogram(METRICS.reconcileSeconds);
  const active = gauge(METRICS.activeWorkers);
  const most = gauge(METRICS.mostWorkers);
  const delayed = gauge(METRICS.delayedObjects);
  const missing = gauge(METRICS.missingKinds);
  const failing = gauge(METRICS.failingObjects);
  const stalled = gauge(METRICS.stalledObjects);
  const last = gauge(METRICS.lastPass);
  const blocked = gauge(METRICS.blockedDeletions);
  const stuck = gauge(METRICS.stuckPasses);
  return (
    controller: string,
    {
      concurrency,
      metrics,
    }: { readonly concurrency: number; readonly metrics: Readonly<Record<string, OwnMetricDefinition>> },
  ) => {
    const { own, endOwn } = ownMetrics(controller, metrics);
    most.set({ controller }, concurrency);
    active.set({ controller }, 0);
    errors.inc({ controller }, 0);
    stuck.set({ controller }, 0);
    return {
      troubled: (objects: Readonly<Record<'failing' | 'delayed' | 'stalled', number>>) => {
        failing.set({ controller }, objects.failing);
        delayed.set({ controller }, objects.delayed);
        stalled.set({ controller }, objects.stalled);
      },
      missingKinds: (kinds: number) => missing.set({ controller }, kinds),
      stuck: (passes: 1 | -1) => stuck.inc({ controller }, passes),
      blocked: (objects: number) => blocked.set({ controller }, objects),
      own,
      /** Of a replica that leads no longer, the series would stay as they are. */
      endOwn,
      pass: () => {
        const since = performance.now();
        active.inc({ controller });
        return (result: PassResultLabel): void => {
          active.dec({ controller });
          last.set({ controller }, Date.now() / 1_000);
          seconds.observe({ controller }, (performance.now() - since) / 1_000);
          results.inc({ controller, result });
          if (result === 'error') errors.inc({ controller });
        };
      },
    };
  };
}

interface WorkqueueLoad {
  readonly unfinishedWorkSeconds: number;
  readonly longestRunningProcessorSeconds: number;
}

function createWorkqueueMetrics({ counter, gauge, histogram, scraped }: Instruments) {
  const loads = new Map<string, () => WorkqueueLoad>();
  const depth = gauge(METRICS.queueDepth);
  const adds = counter(METRICS.queueAdds);
  const retries = counter(METRICS.queueRetries);
  const waited = histogram(METRICS.queueDuration);
  const worked = histogram(METRICS.workDuration);
  scraped(METRICS.unfinishedWork, () =>
    [...loads].map(([name, load]) => [{ name }, load().unfinishedWorkSeconds]),
  );
  scraped(METRICS.longestRunning, () =>
    [...loads].map(([name, load]) => [{ name }, load().longestRunningProcessorSeconds]),
  );
  return {
    queue: (name: string) => ({
      depth: (keys: number) => depth.set({ name }, keys),
      added: () => adds.inc({ name }),
      retried: () => retries.inc({ name }),
      queueDuration: (seconds: number) => waited.observe({ name }, seconds),
      workDuration: (seconds: number) => worked.observe({ name }, seconds),
    }),
    queueLoad: (name: string, load: () => WorkqueueLoad) => {
      loads.set(name, load);
    },
  };
}

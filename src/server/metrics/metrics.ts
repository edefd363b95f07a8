/** The metrics of one instance, in a registry of its own: tests start several instances in one process. */
import { Registry, collectDefaultMetrics } from 'prom-client';

import { OVERLOADS, type Overload } from '../limits/pressure.ts';
import { METRICS } from './catalog.ts';
import { createInstruments, type ExemplarLabels, type Instruments } from './instruments.ts';
import { createScrapedMetrics, createWorkqueueMetrics } from './scraped.ts';
import { OPEN_METRICS, openMetricsText } from './open-metrics.ts';

export type Outcome = 'allow' | 'deny' | 'retry' | 'error';
/** `timeout` and `error`: the handler failed, whatever the response was. */
export type HandlerOutcomeLabel = Outcome | 'timeout';
/** `unready`: the API server was told to retry. */
export type ConversionOutcome = 'converted' | 'failed' | 'unready' | 'error';
const CLIENT_REFUSALS = ['no-certificate', 'untrusted', 'name'] as const;
export type ClientRefusal = (typeof CLIENT_REFUSALS)[number];

export interface AuthorityState {
  readonly phase: string;
  /** Why the stored authority cannot be used. */
  readonly broken: string | undefined;
  readonly generations: readonly { readonly id: string; readonly state: string; readonly notAfter: Date }[];
}

interface MetricsOptions {
  /** Default: no exemplars. */
  readonly exemplar?: ExemplarLabels | undefined;
}

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics({ exemplar }: MetricsOptions = {}) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const instruments = createInstruments(registry);
  const { counter, gauge, histogram } = instruments;
  const observeAdmission = instruments.admission(exemplar);

  const conversions = histogram(METRICS.conversion);
  const convertedObjects = counter(METRICS.convertedObjects);
  const handlers = histogram(METRICS.handler);
  const handlerFailures = counter(METRICS.handlerFailures);
  const rejected = counter(METRICS.rejectedRequests);
  const apiRequests = histogram(METRICS.apiRequests);
  const leader = gauge(METRICS.leader);
  leader.set({ name: 'gatehouse' }, 0);
  const rollbacks = counter(METRICS.rollbacks);
  const deferred = counter(METRICS.deferred);
  const issued = counter(METRICS.issued);
  const crowdedOut = counter(METRICS.crowdedOut);
  const clientCaErrors = counter(METRICS.clientCaErrors);
  const certificateReads = counter(METRICS.certificateReads);
  const certificateReadErrors = counter(METRICS.certificateReadErrors);
  const eventLoopDelay = histogram(METRICS.eventLoopDelay);
  // Prometheus sees the first refusal as an increase only if the series starts at 0.
  const refusedReviews = counter(METRICS.refusedReviews);
  for (const reason of OVERLOADS) refusedReviews.inc({ reason }, 0);
  const refusedClients = counter(METRICS.refusedClients);
  for (const reason of CLIENT_REFUSALS) refusedClients.inc({ reason }, 0);

  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    /** The same with exemplars, for scrapers that ask for OpenMetrics; undefined: there are no exemplars. */
    openMetrics:
      exemplar === undefined
        ? undefined
        : { contentType: OPEN_METRICS, text: () => openMetricsText(registry) },

    admission: (labels: { webhook: string; operation: string; outcome: Outcome }, seconds: number) => {
      observeAdmission(labels, seconds);
    },
    /** `crd` is empty when no ConversionPolicy or handler converts the requested kind: clients cannot create labels. */
    conversion: (labels: { crd: string; outcome: ConversionOutcome }, seconds: number, objects: number) => {
      conversions.observe(labels, seconds);
      convertedObjects.inc(labels, objects);
    },
    handler: (
      labels: { handler: string; webhook: string; outcome: HandlerOutcomeLabel },
      seconds: number,
    ) => {
      handlers.observe(labels, seconds);
    },
    handlerFailure: (handler: string, reason: string) => {
      handlerFailures.inc({ handler, reason });
    },
    rejectedRequest: (status: number) => {
      rejected.inc({ code: String(status) });
    },
    refusedReview: (reason: Overload) => {
      refusedReviews.inc({ reason });
    },
    /** The longest turn of the event loop within a second, in seconds. */
    eventLoopDelay: (seconds: number) => {
      eventLoopDelay.observe(seconds);
    },
    crowdedOut: () => {
      crowdedOut.inc();
    },
    refusedClient: (reason: ClientRefusal) => {
      refusedClients.inc({ reason });
    },
    clientCaFailed: () => {
      clientCaErrors.inc();
    },
    certificateRead: () => {
      certificateReads.inc();
    },
    /** The serving certificate could not be read: the listener keeps the previous one. */
    certificateReadFailed: () => {
      certificateReadErrors.inc();
    },

    apiRequest: ({ method, code }: { method: string; code: string }, seconds: number) => {
      apiRequests.observe({ verb: method, code }, seconds);
    },
    leader: (isLeader: boolean) => {
      leader.set({ name: 'gatehouse' }, isLeader ? 1 : 0);
    },
    ...createWorkqueueMetrics(instruments),
    ...createScrapedMetrics(instruments),
    rollback: (evidence: 'Epoch' | 'ResourceVersion' | 'Told') => {
      rollbacks.inc({ evidence });
    },

    ...createAuthorityMetrics(instruments),
    issue: (result: string, reason: string) => {
      issued.inc({ result, reason });
    },
    deferred: (policy: string) => {
      deferred.inc({ policy });
    },
  };
}

function createAuthorityMetrics({ counter, gauge }: Instruments) {
  const notAfter = gauge(METRICS.authorityNotAfter);
  const phase = gauge(METRICS.rotationPhase);
  const broken = gauge(METRICS.authorityBroken);
  const restored = counter(METRICS.authorityRestored);
  let current: { readonly phase: string; readonly since: number } | undefined;
  gauge(METRICS.rotationPhaseSeconds, (one) => {
    one.reset();
    if (current !== undefined) one.set({ phase: current.phase }, (performance.now() - current.since) / 1_000);
  });
  const clear = () => {
    for (const one of [notAfter, phase, broken]) one.reset();
  };
  return {
    authority: (state: AuthorityState) => {
      clear();
      for (const { id, state: stage, notAfter: end } of state.generations)
        notAfter.set({ generation: id, state: stage }, end.getTime() / 1_000);
      phase.set({ phase: state.phase }, 1);
      if (state.broken !== undefined) broken.set({ reason: state.broken }, 1);
      if (current?.phase !== state.phase) current = { phase: state.phase, since: performance.now() };
    },
    /** This replica no longer leads, so it does not know the state of the authority. */
    authorityUnknown: () => {
      clear();
      current = undefined;
    },
    /** The last good copy of the authority replaced an older or broken one. */
    authorityRestored: () => {
      restored.inc();
    },
  };
}

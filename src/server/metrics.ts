/** All metrics of the process, in one registry that belongs to one instance (tests start several). */
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';

import {
  ADMISSION_BUCKETS,
  createAdmissionMetrics,
  type AdmissionMetrics,
  type ExemplarLabels,
} from './admission-metrics.ts';
import { createAuthorityMetrics, type AuthorityMetrics } from './authority-metrics.ts';
import { createCaBundleMetrics, type CaBundleMetrics } from './cabundle-metrics.ts';
import { createCertificateReadMetrics, type CertificateReadMetrics } from './certificate-read-metrics.ts';
import { createConnectionMetrics, type ConnectionMetrics } from './connection-metrics.ts';
import { createConversionMetrics, type ConversionMetrics } from './conversion-metrics.ts';
import { createPolicyMetrics, type PolicyMetrics } from './policy-metrics.ts';
import { createHandlerMetrics, type HandlerMetrics } from './handler-metrics.ts';
import { OPEN_METRICS, openMetricsText } from './open-metrics.ts';
import { createOwnStateMetrics, type OwnStateMetrics } from './own-state-metrics.ts';
import { createPressureMetrics, type PressureMetrics } from './pressure-metrics.ts';
import { createRestoreMetrics, type RestoreMetrics } from './restore-metrics.ts';
import { createServingCertMetrics, type ServingCertMetrics } from './serving-cert-metrics.ts';
import { createUniqueMetrics, type UniqueMetrics } from './unique-metrics.ts';

export type { Outcome } from './admission-metrics.ts';

/** What a workqueue reports, under the names that client-go gave these metrics. */
export interface WorkqueueMetrics {
  readonly depth: (keys: number) => void;
  readonly added: () => void;
  readonly retried: () => void;
  readonly queueDuration: (seconds: number) => void;
  readonly workDuration: (seconds: number) => void;
}

/** What is in flight in a workqueue at the moment of a scrape. */
export interface WorkqueueLoad {
  readonly unfinishedWorkSeconds: number;
  readonly longestRunningProcessorSeconds: number;
}

interface ScrapeFormat {
  readonly contentType: string;
  readonly text: () => Promise<string>;
}

interface MetricsOptions {
  /** Default: no metric names a trace. */
  readonly exemplar?: ExemplarLabels | undefined;
}

export interface Metrics
  extends
    AdmissionMetrics,
    AuthorityMetrics,
    CaBundleMetrics,
    CertificateReadMetrics,
    ConnectionMetrics,
    ConversionMetrics,
    HandlerMetrics,
    OwnStateMetrics,
    PolicyMetrics,
    PressureMetrics,
    RestoreMetrics,
    ServingCertMetrics,
    UniqueMetrics {
  readonly contentType: string;
  readonly text: () => Promise<string>;
  /** The same with exemplars, for scrapers that ask for it; undefined: there are none. */
  readonly openMetrics: ScrapeFormat | undefined;
  readonly rejectedRequest: (status: number) => void;
  readonly apiRequest: (labels: { method: string; code: string }, seconds: number) => void;
  readonly leader: (isLeader: boolean) => void;
  readonly queue: (name: string) => WorkqueueMetrics;
  /** `load` is asked at each scrape, until it is replaced by a later queue of the same name. */
  readonly queueLoad: (name: string, load: () => WorkqueueLoad) => void;
}

const WORK_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60];

export function createMetrics({ exemplar }: MetricsOptions = {}): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });

  const rejected = new Counter({
    name: 'gatehouse_rejected_requests_total',
    help: 'Requests to the webhook port that were no admission review, by HTTP status.',
    labelNames: ['code'],
    registers,
  });
  const api = new Histogram({
    name: 'rest_client_request_duration_seconds',
    help: 'How long requests to the API server took, by method and status.',
    labelNames: ['verb', 'code'],
    buckets: ADMISSION_BUCKETS,
    registers,
  });
  const leader = new Gauge({
    name: 'leader_election_master_status',
    help: '1 while this replica holds the lease.',
    labelNames: ['name'],
    registers,
  });
  leader.set({ name: 'gatehouse' }, 0);
  const queues = createQueueMetrics(registers);

  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    openMetrics:
      exemplar === undefined
        ? undefined
        : { contentType: OPEN_METRICS, text: () => openMetricsText(registry) },
    rejectedRequest: (status) => {
      rejected.inc({ code: String(status) });
    },
    apiRequest: ({ method, code }, seconds) => {
      api.observe({ verb: method, code }, seconds);
    },
    leader: (isLeader) => {
      leader.set({ name: 'gatehouse' }, isLeader ? 1 : 0);
    },
    ...createAdmissionMetrics(registry, exemplar),
    ...queues,
    ...createAuthorityMetrics(registers),
    ...createServingCertMetrics(registers),
    ...createCaBundleMetrics(registers),
    ...createCertificateReadMetrics(registers),
    ...createConnectionMetrics(registers),
    ...createConversionMetrics(registers),
    ...createPolicyMetrics(registers),
    ...createUniqueMetrics(registers),
    ...createHandlerMetrics(registers),
    ...createOwnStateMetrics(registers),
    ...createPressureMetrics(registers),
    ...createRestoreMetrics(registers),
  };
}

/** @see https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/component-base/metrics/prometheus/workqueue/metrics.go */
function createQueueMetrics(registers: Registry[]): Pick<Metrics, 'queue' | 'queueLoad'> {
  const labelNames = ['name'];
  const loads = new Map<string, () => WorkqueueLoad>();
  const counter = (name: string, help: string) => new Counter({ name, help, labelNames, registers });
  const histogram = (name: string, help: string) =>
    new Histogram({ name, help, labelNames, buckets: WORK_BUCKETS, registers });

  const loadGauge = (name: string, help: string, value: (load: WorkqueueLoad) => number) => {
    new Gauge({
      name,
      help,
      labelNames,
      registers,
      collect() {
        for (const [queue, load] of loads) this.set({ name: queue }, value(load()));
      },
    });
  };

  const depth = new Gauge({
    name: 'workqueue_depth',
    help: 'Keys waiting in the queue.',
    labelNames,
    registers,
  });
  const adds = counter('workqueue_adds_total', 'Keys added.');
  const retries = counter('workqueue_retries_total', 'Keys added again after a failure.');
  const waited = histogram('workqueue_queue_duration_seconds', 'How long a key waited.');
  const worked = histogram('workqueue_work_duration_seconds', 'How long a reconcile took.');
  loadGauge(
    'workqueue_unfinished_work_seconds',
    'Time spent on reconciles that have not ended, in total.',
    (load) => load.unfinishedWorkSeconds,
  );
  loadGauge(
    'workqueue_longest_running_processor_seconds',
    'How long the longest reconcile has been running.',
    (load) => load.longestRunningProcessorSeconds,
  );

  return {
    queue: (name) => ({
      depth: (keys) => {
        depth.set({ name }, keys);
      },
      added: () => {
        adds.inc({ name });
      },
      retried: () => {
        retries.inc({ name });
      },
      queueDuration: (seconds) => {
        waited.observe({ name }, seconds);
      },
      workDuration: (seconds) => {
        worked.observe({ name }, seconds);
      },
    }),
    queueLoad: (name, load) => {
      loads.set(name, load);
    },
  };
}

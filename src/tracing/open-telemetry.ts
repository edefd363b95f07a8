/** Tracing with OpenTelemetry, without global registration: users' handlers can use the same packages separately. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  defaultTextMapGetter,
  defaultTextMapSetter,
  isSpanContextValid,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Context,
  type Span as OtelSpan,
} from '@opentelemetry/api';
import { ExportResultCode, W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import {
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
} from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type Sampler,
  type SpanExporter,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace';

import type { Log } from '../log.ts';
import type { Attributes, Exemplar, Span, Tracing } from './tracing.ts';

interface ExportOptions {
  readonly url: string;
  readonly timeoutMs: number;
  readonly batch: {
    readonly delayMs: number;
    readonly timeoutMs: number;
    readonly queueSize: number;
    readonly batchSize: number;
  };
}

export type SamplerOptions = { readonly parentBased: boolean } & (
  { readonly kind: 'always-on' | 'always-off' } | { readonly kind: 'ratio'; readonly ratio: number }
);

/** Longest attribute value, in characters. Our own values are shorter, but clients may send longer ones. */
const LONGEST_VALUE = 1_024;
const CLOSE_MS = 5_000;

/** The exporter reads further options (headers, compression, certificates) from `OTEL_EXPORTER_OTLP_*`. */
export function createExport(
  { url, timeoutMs, batch }: ExportOptions,
  log: Pick<Log, 'info' | 'warn'>,
): SpanProcessor {
  return new BatchSpanProcessor({
    exporter: logLosses(new OTLPTraceExporter({ url, timeoutMillis: timeoutMs }), log),
    scheduledDelayMillis: batch.delayMs,
    exportTimeoutMillis: batch.timeoutMs,
    maxQueueSize: batch.queueSize,
    maxExportBatchSize: batch.batchSize,
  });
}

/** After its end, later work is not its child. */
interface ActiveSpan {
  readonly context: Context;
  readonly span: OtelSpan;
  ended: boolean;
}

export function createTracing(
  processor: SpanProcessor,
  sampler: SamplerOptions,
  resource: Readonly<Record<string, string>>,
): Tracing {
  const provider = new TracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes(resource))
      .merge(detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] })),
    sampler: samplerOf(sampler),
    spanLimits: { attributeValueLengthLimit: LONGEST_VALUE },
    spanProcessors: [processor],
  });
  const tracer = provider.getTracer('gatehouse');
  const propagator = new W3CTraceContextPropagator();
  const active = new AsyncLocalStorage<ActiveSpan>();
  const current = (): ActiveSpan | undefined => {
    const span = active.getStore();
    return span?.ended === false ? span : undefined;
  };
  const begin = (name: string, kind: SpanKind, attributes: Attributes, parent: Context): Span => {
    const span = tracer.startSpan(name, { kind, attributes: defined(attributes) }, parent);
    const own: ActiveSpan = { span, context: trace.setSpan(parent, span), ended: false };
    return {
      run: (work) => active.run(own, work),
      get headers() {
        const carrier: Record<string, string> = {};
        propagator.inject(own.context, carrier, defaultTextMapSetter);
        return carrier;
      },
      end: (found = {}, failure) => {
        if (own.ended) return;
        own.ended = true;
        span.setAttributes(defined(found));
        if (failure !== undefined) {
          span.setAttribute('error.type', failure);
          span.setStatus({ code: SpanStatusCode.ERROR });
        }
        span.end();
      },
    };
  };

  return {
    server: (name, headers, attributes) =>
      begin(
        name,
        SpanKind.SERVER,
        attributes,
        propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter),
      ),
    client: (name, attributes) => {
      const within = current();
      return within === undefined ? undefined : begin(name, SpanKind.CLIENT, attributes, within.context);
    },
    work: async (name, attributes, work) => {
      const span = begin(name, SpanKind.INTERNAL, attributes, current()?.context ?? ROOT_CONTEXT);
      try {
        const result = await span.run(work);
        span.end();
        return result;
      } catch (error) {
        span.end({}, error instanceof Error ? error.name : 'Error');
        throw error;
      }
    },
    note: (attributes) => {
      current()?.span.setAttributes(defined(attributes));
    },
    exemplar: () => exemplarOf(current()),
    close: async () => {
      const waited = new AbortController();
      // Keeps the process running while spans are sent. `logLosses` has logged a failure.
      const timeout = sleep(CLOSE_MS, undefined, { signal: waited.signal }).catch(() => undefined);
      await Promise.race([provider.shutdown().catch(() => undefined), timeout]);
      waited.abort();
    },
  };
}

function exemplarOf(active: ActiveSpan | undefined): Exemplar | undefined {
  const found = active?.span.spanContext();
  if (found === undefined || !isSpanContextValid(found)) return undefined;
  if ((found.traceFlags & TraceFlags.SAMPLED) === 0) return undefined;
  return { trace_id: found.traceId, span_id: found.spanId };
}

function samplerOf(options: SamplerOptions): Sampler {
  const root =
    options.kind === 'ratio'
      ? new TraceIdRatioBasedSampler(options.ratio)
      : options.kind === 'always-on'
        ? new AlwaysOnSampler()
        : new AlwaysOffSampler();
  return options.parentBased ? new ParentBasedSampler({ root }) : root;
}

const defined = (attributes: Attributes): Record<string, string | number | boolean> =>
  Object.fromEntries(
    Object.entries(attributes).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );

const LOG_EVERY_MS = 60_000;

/** Logs how many spans are lost, at most once a minute, and when the exporter works again. @param now in milliseconds */
export function logLosses(
  exporter: SpanExporter,
  log: Pick<Log, 'info' | 'warn'>,
  now = () => performance.now(),
): SpanExporter {
  let lost = 0;
  let loggedAt: number | undefined;
  const failed = (spans: number, err: Error | undefined) => {
    lost += spans;
    if (loggedAt !== undefined && now() - loggedAt < LOG_EVERY_MS) return;
    loggedAt = now();
    log.warn({ err, lost }, 'could not send traces: spans are lost, and nothing else is');
    lost = 0;
  };
  const succeeded = () => {
    if (loggedAt === undefined) return;
    loggedAt = undefined;
    log.info({ lost }, 'traces are sent again');
    lost = 0;
  };
  return {
    export: (spans, done) => {
      exporter.export(spans, (result) => {
        if (result.code === ExportResultCode.SUCCESS) succeeded();
        else failed(spans.length, result.error);
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
  };
}

/** Tracing with OpenTelemetry. Registers nothing globally: handlers of users may use the same packages separately. */
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
  type Tracer,
} from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
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
  type SpanProcessor,
} from '@opentelemetry/sdk-trace';

import { tellOfLosses, type ExportLog } from './export-losses.ts';
import type { Attributes, Exemplar, Span, Tracing } from './tracing.ts';

export interface TracingOptions {
  readonly url: string;
  readonly timeoutMs: number;
  readonly sampler: SamplerOptions;
  readonly batch: {
    readonly delayMs: number;
    readonly timeoutMs: number;
    readonly queueSize: number;
    readonly batchSize: number;
  };
  /** Resource attributes. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` override them. */
  readonly resource: Readonly<Record<string, string>>;
  readonly log: ExportLog;
}

type SamplerOptions = { readonly parentBased: boolean } & (
  { readonly kind: 'always-on' | 'always-off' } | { readonly kind: 'ratio'; readonly ratio: number }
);

/** Longest attribute value, in characters. Our own values are shorter, but clients may send longer ones. */
const LONGEST_VALUE = 1_024;
/** How long the process waits for its last spans when it ends, in milliseconds. */
const CLOSE_MS = 5_000;

/** The exporter reads further options (headers, compression, certificates) from `OTEL_EXPORTER_OTLP_*`. */
export function createTracing(options: TracingOptions): Tracing {
  const { url, timeoutMs, batch, log } = options;
  const exporter = tellOfLosses(new OTLPTraceExporter({ url, timeoutMillis: timeoutMs }), log);
  return traceTo(
    new BatchSpanProcessor({
      exporter,
      scheduledDelayMillis: batch.delayMs,
      exportTimeoutMillis: batch.timeoutMs,
      maxQueueSize: batch.queueSize,
      maxExportBatchSize: batch.batchSize,
    }),
    options,
  );
}

/** The active span. After its end, code that it started no longer belongs to it. */
interface Course {
  readonly context: Context;
  readonly span: OtelSpan;
  ended: boolean;
}

export function traceTo(
  processor: SpanProcessor,
  { sampler, resource }: Pick<TracingOptions, 'sampler' | 'resource'>,
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
  const courses = new AsyncLocalStorage<Course>();
  const current = (): Course | undefined => {
    const course = courses.getStore();
    return course === undefined || course.ended ? undefined : course;
  };
  const begin = beginner(tracer, propagator, courses);

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
      const flushed = provider.shutdown().catch(() => undefined); // `tellOfLosses` has logged the failure
      await Promise.race([
        flushed,
        sleep(CLOSE_MS, undefined, { signal: waited.signal }).catch(() => undefined),
      ]);
      waited.abort();
    },
  };
}

function beginner(tracer: Tracer, propagator: W3CTraceContextPropagator, courses: AsyncLocalStorage<Course>) {
  return (name: string, kind: SpanKind, attributes: Attributes, parent: Context): Span => {
    const span = tracer.startSpan(name, { kind, attributes: defined(attributes) }, parent);
    const course: Course = { span, context: trace.setSpan(parent, span), ended: false };
    return {
      run: (work) => courses.run(course, work),
      get headers() {
        const carrier: Record<string, string> = {};
        propagator.inject(course.context, carrier, defaultTextMapSetter);
        return carrier;
      },
      end: (found = {}, failure) => {
        if (course.ended) return;
        course.ended = true;
        span.setAttributes(defined(found));
        if (failure !== undefined) {
          span.setAttribute('error.type', failure);
          span.setStatus({ code: SpanStatusCode.ERROR });
        }
        span.end();
      },
    };
  };
}

function exemplarOf(course: Course | undefined): Exemplar | undefined {
  const found = course?.span.spanContext();
  if (found === undefined || !isSpanContextValid(found)) return undefined;
  if ((found.traceFlags & TraceFlags.SAMPLED) === 0) return undefined;
  return { trace_id: found.traceId, span_id: found.spanId };
}

function samplerOf(options: SamplerOptions): Sampler {
  const root = rootSampler(options);
  return options.parentBased ? new ParentBasedSampler({ root }) : root;
}

function rootSampler(options: SamplerOptions): Sampler {
  switch (options.kind) {
    case 'always-on':
      return new AlwaysOnSampler();
    case 'always-off':
      return new AlwaysOffSampler();
    case 'ratio':
      return new TraceIdRatioBasedSampler(options.ratio);
  }
}

const defined = (attributes: Attributes): Record<string, string | number | boolean> =>
  Object.fromEntries(
    Object.entries(attributes).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );

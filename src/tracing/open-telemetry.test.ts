import { setTimeout as sleep } from 'node:timers/promises';
import { SpanStatusCode } from '@opentelemetry/api';
import {
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
  type SpanExporter,
} from '@opentelemetry/sdk-trace';
import { expect, test, vi } from 'vitest';

import { createTracing, logLosses, type SamplerOptions } from './open-telemetry.ts';
import { ExportResultCode } from '@opentelemetry/core';
import type { Log } from '../log.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
const from = (flags: string) => ({ traceparent: `00-${TRACE}-${PARENT}-${flags}` });

function start(sampler: SamplerOptions = { kind: 'always-on', parentBased: true }) {
  const exporter = new InMemorySpanExporter();
  const processor = new SimpleSpanProcessor({ exporter });
  const tracing = createTracing(processor, sampler, { 'service.name': 'gatehouse' });
  const spans = (): readonly ReadableSpan[] => exporter.getFinishedSpans();
  const spanOf = (name: string): ReadableSpan => {
    const found = spans().find((span) => span.name === name);
    if (found === undefined) throw new Error(`there is no span ${name}`);
    return found;
  };
  return { tracing, spans, spanOf };
}

test.each([{}, { traceparent: 'nonsense' }, { traceparent: `00-${'0'.repeat(32)}-${PARENT}-01` }])(
  'with the headers %j a new trace starts',
  (headers) => {
    const { tracing, spanOf } = start();
    tracing.server('s', headers, {}).end();
    expect(spanOf('s').parentSpanContext).toBeUndefined();
  },
);

test('a span that starts within another one, synchronously or later, is its child, and its trace is propagated', async () => {
  const { tracing, spanOf } = start();
  const server = tracing.server('s', { ...from('01'), tracestate: 'vendor=1' }, {});
  const headers = await server.run(async () => {
    await sleep(1);
    const client = tracing.client('c', {});
    client?.end({}, '503');
    return client?.headers;
  });
  server.end();
  const client = spanOf('c');
  expect(client.parentSpanContext?.spanId).toBe(spanOf('s').spanContext().spanId);
  expect(client.status.code).toBe(SpanStatusCode.ERROR);
  expect(client.attributes).toEqual({ 'error.type': '503' });
  expect(headers).toEqual({
    traceparent: `00-${TRACE}-${client.spanContext().spanId}-01`,
    tracestate: 'vendor=1',
  });
});

test('requests outside a span are not traced, and neither are requests after the end of their span', async () => {
  const { tracing, spans } = start();
  expect(tracing.client('c', {})).toBeUndefined();
  let later: Promise<unknown> = Promise.resolve();
  await tracing.work('w', {}, () => {
    later = sleep(5).then(() => {
      tracing.note({ late: true });
      return tracing.client('late', {});
    });
    return Promise.resolve();
  });
  expect(await later).toBeUndefined();
  expect(spans().map(({ name, attributes }) => [name, attributes])).toEqual([['w', {}]]);
});

test('work returns its result, and the span records an exception without its message', async () => {
  const { tracing, spanOf } = start();
  await expect(tracing.work('fine', { 'gatehouse.key': 'a/b' }, () => Promise.resolve(7))).resolves.toBe(7);
  await expect(tracing.work('broken', {}, () => Promise.reject(new RangeError('a secret')))).rejects.toThrow(
    'a secret',
  );
  expect(spanOf('fine').attributes).toEqual({ 'gatehouse.key': 'a/b' });
  const broken = spanOf('broken');
  expect(broken.attributes).toEqual({ 'error.type': 'RangeError' });
  expect(broken.status).toEqual({ code: SpanStatusCode.ERROR });
});

test('an exemplar names only a sampled trace', () => {
  const { tracing } = start();
  expect(tracing.exemplar()).toBeUndefined();
  const kept = tracing.server('s', from('01'), {}).run(tracing.exemplar);
  expect(kept).toEqual({ trace_id: TRACE, span_id: expect.stringMatching(/^[0-9a-f]{16}$/) as string });
  expect(tracing.server('s', from('00'), {}).run(tracing.exemplar)).toBeUndefined();
});

test.each([
  ['the traces that the client samples', { kind: 'always-off', parentBased: true }, '01', 1],
  ['no trace that the client does not sample', { kind: 'always-on', parentBased: true }, '00', 0],
  ['everything, if configured', { kind: 'always-on', parentBased: false }, '00', 1],
  ['nothing, if configured', { kind: 'always-off', parentBased: false }, '01', 0],
  ['no trace at a ratio of 0', { kind: 'ratio', ratio: 0, parentBased: false }, '01', 0],
] as const)('the sampler keeps %s', (_what, sampler, flags, count) => {
  const { tracing, spans } = start(sampler);
  tracing.server('s', from(flags), {}).end();
  expect(spans()).toHaveLength(count);
});

test('a span ends once, and long values are truncated', () => {
  const { tracing, spans } = start();
  const span = tracing.server('s', {}, { long: 'x'.repeat(5_000) });
  span.end();
  span.end({ more: 1 });
  expect(spans().map(({ attributes }) => String(attributes.long).length)).toEqual([1_024]);
});

test('an unavailable collector is logged once per minute, with the number of lost spans', () => {
  let now = 1_000_000;
  const warn = vi.fn<Log['warn']>();
  const exporter: SpanExporter = {
    export: (_spans, done) => done({ code: ExportResultCode.FAILED, error: new Error('refused') }),
    shutdown: () => Promise.resolve(),
  };
  const watched = logLosses(exporter, { warn, info: vi.fn() }, () => now);
  const done = vi.fn();
  // `logLosses` reads only the number of spans.
  const send = (spans: number) => watched.export(new Array<ReadableSpan>(spans), done);
  send(2);
  expect(done).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ code: ExportResultCode.FAILED }));
  send(3);
  now += 59_000;
  send(4);
  expect(warn.mock.calls.map(([fields]) => fields)).toMatchObject([{ lost: 2 }]);
  now += 1_000;
  send(5);
  expect(warn.mock.calls.map(([fields]) => fields)).toMatchObject([{ lost: 2 }, { lost: 12 }]);
});

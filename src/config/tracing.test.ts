import { expect, test } from 'vitest';

import { ConfigError } from './config.ts';
import { resolveTracing } from './tracing.ts';

const COLLECTOR = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };

test.each([
  ['no variable is set', {}],
  ['the variables are empty', { OTEL_EXPORTER_OTLP_ENDPOINT: '', OTEL_TRACES_EXPORTER: ' ' }],
  ['only the name is set', { OTEL_SERVICE_NAME: 'gatehouse' }],
  ['the SDK is disabled', { ...COLLECTOR, OTEL_SDK_DISABLED: 'TRUE' }],
  ['the exporter is none', { ...COLLECTOR, OTEL_TRACES_EXPORTER: 'none' }],
  [
    'the exporter is none, even if other variables are invalid',
    { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_SDK_DISABLED: 'true' },
  ],
])('tracing is off when %s', (_when, environment) => {
  expect(resolveTracing(environment)).toBeUndefined();
});

test('an endpoint is enough, and the other defaults follow the standard, except for a shorter timeout', () => {
  expect(resolveTracing(COLLECTOR)).toEqual({
    url: 'http://collector:4318/v1/traces',
    timeoutMs: 5_000,
    sampler: { kind: 'always-on', parentBased: true },
    batch: { delayMs: 5_000, timeoutMs: 30_000, queueSize: 2_048, batchSize: 512 },
  });
});

test.each([
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://c/otlp/' }, 'https://c/otlp/v1/traces'],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://c/mine' }, 'https://c/mine'],
  [{ ...COLLECTOR, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://c/mine' }, 'https://c/mine'],
  [{ OTEL_TRACES_EXPORTER: 'otlp' }, 'http://localhost:4318/v1/traces'],
])('with %j spans are sent to %s', (environment, url) => {
  expect(resolveTracing(environment)?.url).toBe(url);
});

test.each([
  ['always_on', undefined, { kind: 'always-on', parentBased: false }],
  ['always_off', undefined, { kind: 'always-off', parentBased: false }],
  ['traceidratio', '0.25', { kind: 'ratio', ratio: 0.25, parentBased: false }],
  ['traceidratio', undefined, { kind: 'ratio', ratio: 1, parentBased: false }],
  ['parentbased_always_on', undefined, { kind: 'always-on', parentBased: true }],
  ['parentbased_always_off', undefined, { kind: 'always-off', parentBased: true }],
  ['parentbased_traceidratio', '0', { kind: 'ratio', ratio: 0, parentBased: true }],
])('the sampler %s with %s', (OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG, sampler) => {
  const environment = { ...COLLECTOR, OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG };
  expect(resolveTracing(environment)?.sampler).toEqual(sampler);
});

test('a variable for traces takes precedence over the one for all signals', () => {
  const environment = {
    ...COLLECTOR,
    OTEL_EXPORTER_OTLP_TIMEOUT: '1',
    OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: '2',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/protobuf',
  };
  expect(resolveTracing(environment)?.timeoutMs).toBe(2);
});

test.each([
  [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, 'set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf'],
  [{ OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/json' }, '"http/json" is not supported'],
  [{ OTEL_TRACES_EXPORTER: 'zipkin' }, '"zipkin" is neither otlp nor none'],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }, '"collector:4318" is not a URL'],
  [{ OTEL_TRACES_SAMPLER: 'sometimes' }, '"sometimes" is not one of always_on'],
  [{ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' }, '"2" is not a share from 0 to 1'],
  [{ OTEL_BSP_MAX_QUEUE_SIZE: '0' }, 'OTEL_BSP_MAX_QUEUE_SIZE: "0" is not a number'],
  [{ OTEL_BSP_MAX_QUEUE_SIZE: '8' }, 'must not be larger than OTEL_BSP_MAX_QUEUE_SIZE'],
])('%j is rejected, and the error names the reason', (wrong, message) => {
  const resolve = () => resolveTracing({ ...COLLECTOR, ...wrong });
  expect(resolve).toThrow(ConfigError);
  expect(resolve).toThrow(message);
});

test('an error lists all problems', () => {
  const environment = { ...COLLECTOR, OTEL_BSP_SCHEDULE_DELAY: 'x', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' };
  expect(() => resolveTracing(environment)).toThrow(/grpc[^]*OTEL_BSP_SCHEDULE_DELAY/);
});

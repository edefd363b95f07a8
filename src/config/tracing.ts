/** @see https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ */
import { ConfigError } from './config.ts';
import { count } from './values.ts';

const ENDPOINT_OF_ALL_SIGNALS = 'OTEL_EXPORTER_OTLP_ENDPOINT';
const ENDPOINT = 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT';
const DEFAULT_URL = 'http://localhost:4318/v1/traces';
/** Half of the standard's default: the process must not wait longer for its last spans. */
const DEFAULT_TIMEOUT_MS = 5_000;

/** Undefined when tracing is off. @throws ConfigError that names every variable with an unsupported value */
export function resolveTracing(environment: Readonly<Record<string, string | undefined>>) {
  // The standard treats an empty variable as unset.
  const isSet = (name: string) => (environment[name] ?? '').trim() !== '';
  const exporter = environment.OTEL_TRACES_EXPORTER?.trim();
  if (environment.OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true' || exporter === 'none') return undefined;
  if (![ENDPOINT, ENDPOINT_OF_ALL_SIGNALS, 'OTEL_TRACES_EXPORTER'].some(isSet)) return undefined;

  const problems: string[] = [];
  const read = <T>(names: readonly string[], fallback: T, parse: (text: string, name: string) => T): T => {
    const name = names.find(isSet);
    if (name === undefined) return fallback;
    try {
      return parse(environment[name]?.trim() ?? '', name);
    } catch (error) {
      problems.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
      return fallback;
    }
  };
  read(['OTEL_TRACES_EXPORTER'], undefined, requireExporter);
  read(['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'], undefined, requireProtocol);
  const config = {
    url: read([ENDPOINT, ENDPOINT_OF_ALL_SIGNALS], DEFAULT_URL, urlOf),
    /** For all attempts to post one batch together, in milliseconds. */
    timeoutMs: read(
      ['OTEL_EXPORTER_OTLP_TRACES_TIMEOUT', 'OTEL_EXPORTER_OTLP_TIMEOUT'],
      DEFAULT_TIMEOUT_MS,
      count,
    ),
    sampler: read<Sampler>(['OTEL_TRACES_SAMPLER'], { kind: 'always-on', parentBased: true }, (text) =>
      samplerOf(text, () => read(['OTEL_TRACES_SAMPLER_ARG'], 1, ratioOf)),
    ),
    batch: {
      delayMs: read(['OTEL_BSP_SCHEDULE_DELAY'], 5_000, count),
      timeoutMs: read(['OTEL_BSP_EXPORT_TIMEOUT'], 30_000, count),
      /** Maximum number of waiting spans; further spans are dropped. */
      queueSize: read(['OTEL_BSP_MAX_QUEUE_SIZE'], 2_048, count),
      batchSize: read(['OTEL_BSP_MAX_EXPORT_BATCH_SIZE'], 512, count),
    },
  };
  if (config.batch.batchSize > config.batch.queueSize)
    problems.push('OTEL_BSP_MAX_EXPORT_BATCH_SIZE must not be larger than OTEL_BSP_MAX_QUEUE_SIZE');
  if (problems.length > 0) throw new ConfigError(problems.join('\n'));
  return config;
}

function urlOf(text: string, name: string): string {
  const url = URL.parse(text);
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    throw new Error(`"${text}" is not a URL; write one such as http://collector:4318`);
  if (name === ENDPOINT_OF_ALL_SIGNALS) url.pathname = `${url.pathname.replace(/\/+$/, '')}/v1/traces`;
  return url.href;
}

function requireExporter(text: string): undefined {
  if (text !== 'otlp') throw new Error(`"${text}" is neither otlp nor none`);
}

function requireProtocol(text: string): undefined {
  if (text !== 'http/protobuf')
    throw new Error(
      `"${text}" is not supported; set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf, and an endpoint at the port of the ` +
        'collector for it (usually 4318)',
    );
}

/** Applies to traces that begin here. `parentBased`: a trace that began elsewhere is kept if its parent is kept. */
type Sampler = { readonly parentBased: boolean } & (
  { readonly kind: 'always-on' | 'always-off' } | { readonly kind: 'ratio'; readonly ratio: number }
);

function samplerOf(text: string, ratio: () => number): Sampler {
  const parentBased = text.startsWith('parentbased_');
  switch (text.replace(/^parentbased_/, '')) {
    case 'always_on':
      return { kind: 'always-on', parentBased };
    case 'always_off':
      return { kind: 'always-off', parentBased };
    case 'traceidratio':
      return { kind: 'ratio', ratio: ratio(), parentBased };
    default:
      throw new Error(
        `"${text}" is not one of always_on, always_off, traceidratio, with or without the prefix parentbased_`,
      );
  }
}

function ratioOf(text: string): number {
  const ratio = Number(text);
  if (!(ratio >= 0 && ratio <= 1)) throw new Error(`"${text}" is not a share from 0 to 1`);
  return ratio;
}

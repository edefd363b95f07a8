/**
 * Reads the standard variables of OpenTelemetry, which say whether and where to send traces. Gatehouse adds none.
 * @see https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
 * @see https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */
import { ConfigError } from './config.ts';

type SamplerConfig =
  | { readonly kind: 'always-on' | 'always-off' }
  /** The share of traces to keep, from 0 to 1. */
  | { readonly kind: 'ratio'; readonly ratio: number };

export interface TracingConfig {
  /** The exporter posts spans to this URL. */
  readonly url: string;
  /** For all attempts to post one batch together, in milliseconds. */
  readonly timeoutMs: number;
  /** Applies to traces that begin here. `parentBased`: a trace that began elsewhere is kept if its parent is kept. */
  readonly sampler: SamplerConfig & { readonly parentBased: boolean };
  readonly batch: {
    readonly delayMs: number;
    readonly timeoutMs: number;
    /** Maximum number of waiting spans; further spans are dropped. */
    readonly queueSize: number;
    readonly batchSize: number;
  };
}

/** The default endpoint of a local collector. */
const DEFAULT_ENDPOINT = 'http://localhost:4318';
/** Half the default of the standard: at its end, the process must not wait longer for its last spans. */
const DEFAULT_TIMEOUT_MS = 5_000;

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Undefined when tracing is off.
 * @throws ConfigError that names every variable with an unsupported value
 */
export function resolveTracing(environment: Environment): TracingConfig | undefined {
  // The standard treats an empty variable as unset.
  const read = (name: string) => {
    const text = environment[name]?.trim();
    return text === '' ? undefined : text;
  };
  const named = (...names: readonly string[]): Named | undefined => {
    const name = names.find((one) => read(one) !== undefined);
    return name === undefined ? undefined : { name, text: read(name) ?? '' };
  };
  const exporter = read('OTEL_TRACES_EXPORTER');
  const endpoint = endpointOf(named);
  if (read('OTEL_SDK_DISABLED')?.toLowerCase() === 'true' || exporter === 'none') return undefined;
  if (exporter === undefined && endpoint === undefined) return undefined;

  const problems: string[] = [];
  const attempt = <T>(standIn: T, parse: () => T): T => {
    try {
      return parse();
    } catch (error) {
      problems.push(error instanceof Error ? error.message : String(error));
      return standIn;
    }
  };
  const count = (fallback: number, ...names: readonly string[]): number =>
    attempt(fallback, () => countOf(named(...names), fallback));

  attempt(undefined, () => {
    requireExporter(exporter);
  });
  attempt(undefined, () => {
    requireProtocol(named('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'));
  });
  const config: TracingConfig = {
    url: attempt('', () => urlOf(endpoint)),
    timeoutMs: count(DEFAULT_TIMEOUT_MS, 'OTEL_EXPORTER_OTLP_TRACES_TIMEOUT', 'OTEL_EXPORTER_OTLP_TIMEOUT'),
    sampler: attempt(KEEP_AS_PARENT, () =>
      samplerOf(read('OTEL_TRACES_SAMPLER'), read('OTEL_TRACES_SAMPLER_ARG')),
    ),
    batch: {
      delayMs: count(5_000, 'OTEL_BSP_SCHEDULE_DELAY'),
      timeoutMs: count(30_000, 'OTEL_BSP_EXPORT_TIMEOUT'),
      queueSize: count(2_048, 'OTEL_BSP_MAX_QUEUE_SIZE'),
      batchSize: count(512, 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE'),
    },
  };
  if (config.batch.batchSize > config.batch.queueSize)
    problems.push('OTEL_BSP_MAX_EXPORT_BATCH_SIZE must not be larger than OTEL_BSP_MAX_QUEUE_SIZE');
  if (problems.length > 0) throw new ConfigError(problems.join('\n'));
  return config;
}

interface Named {
  readonly name: string;
  readonly text: string;
}

type Endpoint = Named & { readonly isWhole: boolean };

function endpointOf(named: (...names: readonly string[]) => Named | undefined): Endpoint | undefined {
  const own = named('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT');
  if (own !== undefined) return { ...own, isWhole: true };
  const shared = named('OTEL_EXPORTER_OTLP_ENDPOINT');
  return shared === undefined ? undefined : { ...shared, isWhole: false };
}

/** Uses the endpoint for traces unchanged, and appends `/v1/traces` to the endpoint for all signals. */
function urlOf(endpoint: Endpoint | undefined): string {
  const { name, text, isWhole } = endpoint ?? { name: '', text: DEFAULT_ENDPOINT, isWhole: false };
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol))
    throw new Error(`${name}: "${text}" is not a URL; write one such as http://collector:4318`);
  if (!isWhole) url.pathname = `${url.pathname.replace(/\/+$/, '')}/v1/traces`;
  return url.href;
}

function requireExporter(exporter: string | undefined): void {
  if (exporter !== undefined && exporter !== 'otlp')
    throw new Error(`OTEL_TRACES_EXPORTER: "${exporter}" is neither otlp nor none`);
}

function requireProtocol(protocol: Named | undefined): void {
  if (protocol === undefined || protocol.text === 'http/protobuf') return;
  throw new Error(
    `${protocol.name}: "${protocol.text}" is not spoken here; set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf, and an ` +
      'endpoint at the port of the collector that takes it (4318 as a rule)',
  );
}

const KEEP_AS_PARENT = { kind: 'always-on', parentBased: true } as const;

function samplerOf(sampler = 'parentbased_always_on', argument = '1'): TracingConfig['sampler'] {
  const parentBased = sampler.startsWith('parentbased_');
  switch (sampler.replace(/^parentbased_/, '')) {
    case 'always_on':
      return { kind: 'always-on', parentBased };
    case 'always_off':
      return { kind: 'always-off', parentBased };
    case 'traceidratio': {
      const ratio = Number(argument);
      if (!(ratio >= 0 && ratio <= 1))
        throw new Error(`OTEL_TRACES_SAMPLER_ARG: "${argument}" is not a share from 0 to 1`);
      return { kind: 'ratio', ratio, parentBased };
    }
    default:
      throw new Error(
        `OTEL_TRACES_SAMPLER: "${sampler}" is none of always_on, always_off, traceidratio, nor one of them with parentbased_ before it`,
      );
  }
}

function countOf(named: Named | undefined, fallback: number): number {
  if (named === undefined) return fallback;
  if (!/^[1-9]\d{0,8}$/.test(named.text))
    throw new Error(`${named.name}: "${named.text}" is not a number of at least 1`);
  return Number(named.text);
}

/** Flags, environment and file become one frozen, validated Config: in this order of precedence, then the default. */
import { parseDuration } from './duration.ts';

/** One setting: `--drain-delay`, `GATEHOUSE_DRAIN_DELAY`, or `drain-delay` in the file. */
interface Setting<T> {
  readonly description: string;
  /** As it would be written on the command line; undefined: absent. */
  readonly default: string | undefined;
  /** @throws with a sentence when the text is no such value. */
  readonly parse: (text: string) => T;
}

const text = (value: string): string => value;

function port(value: string): number {
  const number = Number(value);
  if (!Number.isInteger(number) || number < 0 || number > 65_535)
    throw new Error(`"${value}" is not a port (0 to 65535)`);
  return number;
}

/** A duration that ends something: of none, servers make none at all. */
function limit(value: string): number {
  const ms = parseDuration(value);
  if (ms < 1) throw new Error(`"${value}" is too short: give clients a millisecond at least`);
  return ms;
}

function choice<const Choices extends readonly string[]>(
  choices: Choices,
): (value: string) => Choices[number] {
  return (value) => {
    const found = choices.find((one) => one === value);
    if (found === undefined) throw new Error(`"${value}" is none of ${choices.join(', ')}`);
    return found;
  };
}

/** RFC 1123 labels, which names of namespaces and Services are. */
function dnsLabel(value: string): string {
  if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(value))
    throw new Error(`"${value}" is not a DNS label (RFC 1123)`);
  return value;
}

const setting = <T>(
  description: string,
  fallback: string | undefined,
  parse: (value: string) => T,
): Setting<T> => ({
  description,
  default: fallback,
  parse,
});

export const SETTINGS = {
  kubeconfig: setting('kubeconfig file; without it, the service account of the pod', undefined, text),
  context: setting('context of the kubeconfig', undefined, text),
  namespace: setting('namespace in which Gatehouse runs and keeps its state', 'gatehouse-system', dnsLabel),
  service: setting('Service through which the API server reaches Gatehouse', 'gatehouse', dnsLabel),
  'service-port': setting('port of that Service', '443', port),
  identity: setting('name of this replica in the lease; must differ between replicas', undefined, text),
  host: setting('address to listen on', '0.0.0.0', text),
  port: setting('port for webhooks (HTTPS)', '8443', port),
  'operations-port': setting('port for health, readiness and metrics (HTTP)', '8080', port),
  'connection-timeout': setting(
    'how long a client of the webhooks may take for a request, and before its first one',
    '120s',
    limit,
  ),
  'drain-delay': setting('how long to go on serving after SIGTERM', '10s', parseDuration),
  'lease-duration': setting('how long a lease holds that nobody renews', '15s', parseDuration),
  'renew-deadline': setting('how long a leader tries to renew before it steps down', '10s', parseDuration),
  'retry-period': setting('how often a lease is looked at', '2s', parseDuration),
  'restore-settle': setting(
    'how long after a restore window closes the final sweep begins',
    '65s',
    parseDuration,
  ),
  'cluster-domain': setting(
    'DNS domain of the cluster; without it, found in /etc/resolv.conf',
    undefined,
    dnsName,
  ),
  'log-level': setting(
    'least severe level that is logged',
    'info',
    choice(['debug', 'info', 'warn', 'error']),
  ),
} as const;

function dnsName(value: string): string {
  if (!value.split('.').every((label) => /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(label))) {
    throw new Error(`"${value}" is not a DNS name`);
  }
  return value;
}

export type SettingName = keyof typeof SETTINGS;

type Value<Name extends SettingName> = ReturnType<(typeof SETTINGS)[Name]['parse']>;

export interface Config {
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
  readonly namespace: string;
  readonly service: string;
  readonly servicePort: number;
  readonly identity: string | undefined;
  readonly host: string;
  readonly port: number;
  readonly operationsPort: number;
  readonly connectionTimeoutMs: number;
  readonly drainDelayMs: number;
  readonly lease: { readonly durationMs: number; readonly renewDeadlineMs: number; readonly retryMs: number };
  readonly restoreSettleMs: number;
  readonly clusterDomain: string | undefined;
  readonly logLevel: Value<'log-level'>;
}

export type Source = Readonly<Partial<Record<SettingName, string>>>;

/** Every problem at once, so that a broken deployment is mended in one go. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** @throws ConfigError that names every setting that cannot be used. */
export function resolveConfig(flags: Source, environment: NodeJS.ProcessEnv, file: Source = {}): Config {
  const problems: string[] = [];
  const read = <Name extends SettingName>(name: Name): Value<Name> | undefined => {
    const written = flags[name] ?? environment[environmentName(name)] ?? file[name] ?? SETTINGS[name].default;
    if (written === undefined) return undefined;
    try {
      return SETTINGS[name].parse(written) as Value<Name>; // the table gives each name the parser of its type
    } catch (error) {
      problems.push(`--${name}: ${error instanceof Error ? error.message : String(error)}`);
      return undefined;
    }
  };
  const required = <Name extends SettingName>(name: Name, standIn: Value<Name>): Value<Name> =>
    read(name) ?? standIn;

  const config: Config = {
    kubeconfig: read('kubeconfig'),
    context: read('context'),
    namespace: required('namespace', ''),
    service: required('service', ''),
    servicePort: required('service-port', 0),
    identity: read('identity'),
    host: required('host', ''),
    port: required('port', 0),
    operationsPort: required('operations-port', 0),
    connectionTimeoutMs: required('connection-timeout', 0),
    drainDelayMs: required('drain-delay', 0),
    lease: Object.freeze({
      durationMs: required('lease-duration', 0),
      renewDeadlineMs: required('renew-deadline', 0),
      retryMs: required('retry-period', 0),
    }),
    restoreSettleMs: required('restore-settle', 0),
    clusterDomain: read('cluster-domain'),
    logLevel: required('log-level', 'info'),
  };
  const { durationMs, renewDeadlineMs, retryMs } = config.lease;
  if (problems.length === 0 && !(durationMs > renewDeadlineMs && renewDeadlineMs > retryMs && retryMs > 0)) {
    problems.push(
      '--lease-duration must be longer than --renew-deadline, and that longer than --retry-period',
    );
  }
  if (problems.length > 0) throw new ConfigError(problems.join('\n'));
  return Object.freeze(config);
}

export function environmentName(name: SettingName): string {
  return `GATEHOUSE_${name.toUpperCase().replaceAll('-', '_')}`;
}

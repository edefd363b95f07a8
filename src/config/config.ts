/** Merges flags, environment, file and defaults, in this order of precedence, into one frozen, validated Config. */
import { SETTINGS, type SettingName, type Value } from './settings.ts';

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
  readonly statusPage: boolean;
  readonly exemplars: boolean;
  readonly connectionTimeoutMs: number;
  readonly maxConnections: number;
  readonly clients: {
    /** Path of a file; undefined: any client that reaches the webhook port may send reviews. */
    readonly ca: string | undefined;
    readonly names: readonly string[];
    readonly scope: Value<'client-ca-for'>;
  };
  readonly maxAdmissionReviews: number;
  /** In bytes. */
  readonly conversionBodyLimit: number;
  readonly drainDelayMs: number;
  readonly lease: { readonly durationMs: number; readonly renewDeadlineMs: number; readonly retryMs: number };
  readonly restoreSettleMs: number;
  readonly uniqueSettleMs: number;
  readonly clusterDomain: string | undefined;
  readonly compat: Value<'compat'>;
  readonly servingCerts: {
    readonly dnsSuffixes: readonly string[];
    readonly onRemoval: Value<'serving-cert-on-removal'>;
  };
  /** Durations in milliseconds. */
  readonly ca: {
    /** Secret with an external CA; undefined: Gatehouse creates its own. */
    readonly secret: string | undefined;
    readonly lifetimeMs: number;
    readonly propagationWaitMs: number;
    readonly graceMs: number;
  };
  /** The URL of this process on a developer's machine; undefined: the process runs in the cluster. */
  readonly devUrl: Value<'dev-url'> | undefined;
  /** A folder or a package; undefined: there are no handlers. */
  readonly handlers: string | undefined;
  readonly logLevel: Value<'log-level'>;
}

export type Source = Readonly<Partial<Record<SettingName, string>>>;

/** All problems at once, so that the operator can fix them together. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** @throws ConfigError that names every invalid setting */
export function resolveConfig(flags: Source, environment: NodeJS.ProcessEnv, file: Source = {}): Config {
  const problems: string[] = [];
  const writtenAs = (name: SettingName) => flags[name] ?? environment[environmentName(name)] ?? file[name];
  let forDevelopment: Source = {};
  const read = <Name extends SettingName>(name: Name): Value<Name> | undefined => {
    const written = writtenAs(name) ?? forDevelopment[name] ?? SETTINGS[name].default;
    if (written === undefined) return undefined;
    try {
      return SETTINGS[name].parse(written) as Value<Name>; // SETTINGS pairs each name with the parser of its type
    } catch (error) {
      problems.push(`--${name}: ${error instanceof Error ? error.message : String(error)}`);
      return undefined;
    }
  };
  const required = <Name extends SettingName>(name: Name, standIn: Value<Name>): Value<Name> =>
    read(name) ?? standIn;

  const devUrl = read('dev-url');
  if (devUrl !== undefined)
    forDevelopment = { port: String(devUrl.port), 'operations-port': '0', 'drain-delay': '1s' };
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
    statusPage: required('status-page', false),
    exemplars: required('exemplars', false),
    connectionTimeoutMs: required('connection-timeout', 0),
    maxConnections: required('max-connections', 1),
    clients: Object.freeze({
      ca: read('client-ca'),
      names: Object.freeze(required('client-names', [])),
      scope: required('client-ca-for', 'admission'),
    }),
    maxAdmissionReviews: required('max-admission-reviews', 1),
    conversionBodyLimit: required('conversion-body-limit', 0),
    drainDelayMs: required('drain-delay', 0),
    lease: Object.freeze({
      durationMs: required('lease-duration', 0),
      renewDeadlineMs: required('renew-deadline', 0),
      retryMs: required('retry-period', 0),
    }),
    restoreSettleMs: required('restore-settle', 0),
    uniqueSettleMs: required('unique-settle', 0),
    clusterDomain: read('cluster-domain'),
    compat: Object.freeze(required('compat', [])),
    servingCerts: Object.freeze({
      dnsSuffixes: Object.freeze(required('serving-cert-dns-suffixes', [])),
      onRemoval: required('serving-cert-on-removal', 'retain'),
    }),
    ca: Object.freeze({
      secret: read('ca-secret'),
      lifetimeMs: required('ca-lifetime', 0),
      propagationWaitMs: required('ca-propagation-wait', 0),
      graceMs: required('ca-grace', 0),
    }),
    devUrl,
    handlers: read('handlers'),
    logLevel: required('log-level', 'info'),
  };
  const { durationMs, renewDeadlineMs, retryMs } = config.lease;
  if (problems.length === 0 && !(durationMs > renewDeadlineMs && renewDeadlineMs > retryMs && retryMs > 0)) {
    problems.push(
      '--lease-duration must be longer than --renew-deadline, and that longer than --retry-period',
    );
  }
  if (
    config.clients.ca === undefined &&
    (config.clients.names.length > 0 || config.clients.scope === 'all')
  ) {
    problems.push('--client-names and --client-ca-for mean nothing without --client-ca');
  }
  if (problems.length > 0) throw new ConfigError(problems.join('\n'));
  return Object.freeze(config);
}

export function environmentName(name: SettingName): string {
  return `GATEHOUSE_${name.toUpperCase().replaceAll('-', '_')}`;
}

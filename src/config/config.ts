/** Merges flags, environment, file and defaults, in this order of precedence, into one frozen, validated Config. */
import { SETTINGS, type SettingName, type Value } from './settings.ts';

export type Config = ReturnType<typeof resolveConfig>;

export type Source = Readonly<Partial<Record<SettingName, string>>>;

/** All problems at once, so that the operator can fix them together. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** @throws ConfigError that names every invalid setting */
export function resolveConfig(flags: Source, environment: NodeJS.ProcessEnv, file: Source = {}) {
  const problems: string[] = [];
  let forDevelopment: Source = {};
  const read = <Name extends SettingName>(name: Name): Value<Name> => {
    const { parse, default: fallback } = SETTINGS[name];
    const given = flags[name] ?? environment[environmentName(name)] ?? file[name] ?? forDevelopment[name];
    const parsed = (text: string | undefined) =>
      // SETTINGS pairs each name with the parser of its type.
      (text === undefined ? undefined : parse(text)) as Value<Name>;
    try {
      return parsed(given ?? fallback);
    } catch (error) {
      problems.push(`--${name}: ${error instanceof Error ? error.message : String(error)}`);
      return parsed(fallback);
    }
  };

  /** The URL of this process on a developer's machine; undefined: the process runs in the cluster. */
  const devUrl = read('dev-url');
  if (devUrl !== undefined)
    forDevelopment = { port: String(devUrl.port), 'operations-port': '0', 'drain-delay': '1s' };
  const config = Object.freeze({
    kubeconfig: read('kubeconfig'),
    context: read('context'),
    namespace: read('namespace'),
    service: read('service'),
    servicePort: read('service-port'),
    identity: read('identity'),
    host: read('host'),
    port: read('port'),
    operationsPort: read('operations-port'),
    statusPage: read('status-page'),
    policyReports: read('policy-reports'),
    compilePolicies: read('compile-policies'),
    strictPolicies: read('strict-policies'),
    exemplars: read('exemplars'),
    connectionTimeoutMs: read('connection-timeout'),
    maxConnections: read('max-connections'),
    clients: Object.freeze({
      /** Path of a file; undefined: any client that reaches the webhook port may send reviews. */
      ca: read('client-ca'),
      names: read('client-names'),
      scope: read('client-ca-for'),
    }),
    maxAdmissionReviews: read('max-admission-reviews'),
    /** In bytes. */
    conversionBodyLimit: read('conversion-body-limit'),
    drainDelayMs: read('drain-delay'),
    lease: Object.freeze({
      durationMs: read('lease-duration'),
      renewDeadlineMs: read('renew-deadline'),
      retryMs: read('retry-period'),
    }),
    restoreSettleMs: read('restore-settle'),
    uniqueSettleMs: read('unique-settle'),
    clusterDomain: read('cluster-domain'),
    /** Where Gatehouse reads and writes objects, its own namespace included; undefined: everywhere. */
    namespaces: within(read('namespace'), read('namespaces')),
    /** The parts that do not run. */
    without: read('without'),
    compat: read('compat'),
    servingCerts: Object.freeze({
      dnsSuffixes: read('serving-cert-dns-suffixes'),
      /** The namespace to which each suffix belongs. */
      namespaceSuffixes: read('serving-cert-namespace-suffixes'),
      shortNames: read('serving-cert-short-names'),
      maxLifetimeMs: read('serving-cert-max-duration'),
      /** Whether a Service may ask for its cluster IPs. */
      clusterIPs: read('serving-cert-cluster-ips'),
      /** Percent of the lifetime. */
      renewAfter: read('serving-cert-renew-after'),
      onRemoval: read('serving-cert-on-removal'),
    }),
    endpointProbes: Object.freeze({
      /** Of a Service; 0: no endpoint is asked for its certificate. */
      maxEndpoints: read('serving-cert-max-endpoints'),
      reloadMs: read('serving-cert-reload-time'),
    }),
    ca: Object.freeze({
      /** Secret with an external CA; undefined: Gatehouse creates its own. */
      secret: read('ca-secret'),
      lifetimeMs: read('ca-lifetime'),
      nameConstraints: read('ca-name-constraints'),
      propagationWaitMs: read('ca-propagation-wait'),
    }),
    devUrl,
    /** A folder or a package; undefined: there are no handlers. */
    handlers: read('handlers'),
    logLevel: read('log-level'),
  });
  const { durationMs, renewDeadlineMs, retryMs } = config.lease;
  if (problems.length === 0 && !(durationMs > renewDeadlineMs && renewDeadlineMs > retryMs && retryMs > 0))
    problems.push(
      '--lease-duration must be longer than --renew-deadline, which must be longer than --retry-period',
    );
  if (config.clients.ca === undefined && (config.clients.names.length > 0 || config.clients.scope === 'all'))
    problems.push('--client-names and --client-ca-for have no effect without --client-ca');
  if (config.ca.nameConstraints && config.servingCerts.shortNames)
    problems.push(
      '--serving-cert-short-names cannot be true with --ca-name-constraints: no CA could sign them',
    );
  const { dnsSuffixes, namespaceSuffixes } = config.servingCerts;
  for (const suffix of dnsSuffixes)
    if (namespaceSuffixes.has(suffix))
      problems.push(
        `--serving-cert-namespace-suffixes: "${suffix}" is also in --serving-cert-dns-suffixes, for all namespaces`,
      );
  if (config.ca.nameConstraints && config.servingCerts.clusterIPs)
    problems.push(
      '--serving-cert-cluster-ips cannot be true with --ca-name-constraints: such a CA signs no IP addresses',
    );
  if (problems.length > 0) throw new ConfigError(problems.join('\n'));
  return config;
}

const within = (own: string, others: readonly string[]): readonly string[] | undefined =>
  others.length === 0 ? undefined : [...new Set([own, ...others])];

/** The namespace of Gatehouse, for commands that have no flag for it. */
export function ownNamespace(environment: NodeJS.ProcessEnv = process.env): string {
  const variable = environmentName('namespace');
  return resolveConfig({}, { [variable]: environment[variable] }).namespace;
}

export function environmentName(name: SettingName): string {
  return `GATEHOUSE_${name.toUpperCase().replaceAll('-', '_')}`;
}

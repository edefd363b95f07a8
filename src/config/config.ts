/** Merges flags, environment, file and defaults, in this order of precedence, into one frozen, validated configuration. */
import { hintAt, readVariable, type Environment } from './environment.ts';
import { SETTINGS, type SettingName, type Value } from './settings.ts';

export type Source = Readonly<Partial<Record<SettingName, string>>>;

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

interface Settings {
  readonly get: <Name extends SettingName>(name: Name) => Value<Name>;
  readonly refuse: (problem: string) => void;
  readonly withDefaults: (defaults: Source) => Settings;
}

const everywhere = ({ get }: Settings) => ({
  kubeconfig: get('kubeconfig'),
  context: get('context'),
  namespace: get('namespace'),
  namespaces: within(get('namespace'), get('namespaces')),
  service: get('service'),
  identity: get('identity'),
  host: get('host'),
  operationsPort: get('operations-port'),
  without: get('without'),
  compilePolicies: get('compile-policies'),
  uniqueSettleMs: get('unique-settle'),
  caPropagationWaitMs: get('ca-propagation-wait'),
  handlers: get('handlers'),
  logLevel: get('log-level'),
});

function ofWebhook(settings: Settings) {
  const { get, refuse } = settings;
  const clients = Object.freeze({
    /** Path of a file; undefined: any client that reaches the webhook port may send reviews. */
    ca: get('client-ca'),
    names: get('client-names'),
    scope: get('client-ca-for'),
  });
  if (clients.ca === undefined && (clients.names.length > 0 || clients.scope === 'all'))
    refuse('--client-names and --client-ca-for require --client-ca');
  return {
    port: get('port'),
    strictPolicies: get('strict-policies'),
    exemplars: get('exemplars'),
    connectionTimeoutMs: get('connection-timeout'),
    maxConnections: get('max-connections'),
    clients,
    maxAdmissionReviews: get('max-admission-reviews'),
    conversionBodyLimit: get('conversion-body-limit'),
    drainDelayMs: get('drain-delay'),
    ...everywhere(settings),
  };
}

function ofControllers(settings: Settings) {
  const { get, refuse } = settings;
  const lease = Object.freeze({
    durationMs: get('lease-duration'),
    renewDeadlineMs: get('renew-deadline'),
    retryMs: get('retry-period'),
  });
  const servingCerts = Object.freeze({
    dnsSuffixes: get('serving-cert-dns-suffixes'),
    namespaceSuffixes: get('serving-cert-namespace-suffixes'),
    shortNames: get('serving-cert-short-names'),
    maxLifetimeMs: get('serving-cert-max-duration'),
    clusterIPs: get('serving-cert-cluster-ips'),
    renewAfter: get('serving-cert-renew-after'),
    onRemoval: get('serving-cert-on-removal'),
  });
  const ca = Object.freeze({
    /** Secret with an external CA; undefined: Gatehouse creates its own. */
    secret: get('ca-secret'),
    lifetimeMs: get('ca-lifetime'),
    nameConstraints: get('ca-name-constraints'),
  });
  const { durationMs, renewDeadlineMs, retryMs } = lease;
  if (!(durationMs > renewDeadlineMs && renewDeadlineMs > retryMs && retryMs > 0))
    refuse('--lease-duration must be longer than --renew-deadline, which must be longer than --retry-period');
  if (ca.nameConstraints && servingCerts.shortNames)
    refuse('--serving-cert-short-names cannot be true with --ca-name-constraints: no CA could sign them');
  for (const suffix of servingCerts.dnsSuffixes)
    if (servingCerts.namespaceSuffixes.has(suffix))
      refuse(
        `--serving-cert-namespace-suffixes: "${suffix}" is in --serving-cert-dns-suffixes already: remove it from one of them`,
      );
  if (ca.nameConstraints && servingCerts.clusterIPs)
    refuse(
      '--serving-cert-cluster-ips cannot be true with --ca-name-constraints: such a CA signs no IP addresses',
    );
  return {
    servicePort: get('service-port'),
    statusPage: get('status-page'),
    policyReports: get('policy-reports'),
    lease,
    restoreSettleMs: get('restore-settle'),
    clusterDomain: get('cluster-domain'),
    compat: get('compat'),
    servingCerts,
    endpointProbes: Object.freeze({
      /** Of a Service; 0: no endpoint is asked for its certificate. */
      maxEndpoints: get('serving-cert-max-endpoints'),
      reloadMs: get('serving-cert-reload-time'),
    }),
    ca,
    ...everywhere(settings),
  };
}

function ofBoth(settings: Settings) {
  /** The URL of this process on a developer's machine; undefined: the process runs in the cluster. */
  const devUrl = settings.get('dev-url');
  const own =
    devUrl === undefined
      ? settings
      : settings.withDefaults({ port: String(devUrl.port), 'operations-port': '0', 'drain-delay': '1s' });
  return { devUrl, ...ofWebhook(own), ...ofControllers(own) };
}

/** A command has the flags of the settings that its function reads. */
const COMMANDS = {
  webhook: ofWebhook,
  controllers: ofControllers,
  serve: ofBoth,
  manifests: ({ get }: Settings) => ({ handlers: get('handlers'), namespace: get('namespace') }),
} as const;

export type CommandName = keyof typeof COMMANDS;

export type SharedConfig = ReturnType<typeof everywhere>;
export type ConfigOf<Name extends CommandName> = Readonly<ReturnType<(typeof COMMANDS)[Name]>>;
export type WebhookConfig = ConfigOf<'webhook'>;
export type ControllersConfig = ConfigOf<'controllers'>;
export type Config = ConfigOf<'serve'>;

export function settingsOf(command: CommandName): ReadonlySet<SettingName> {
  const names = new Set<SettingName>();
  const settings: Settings = {
    get: (name) => {
      names.add(name);
      return parse(name, SETTINGS[name].default);
    },
    refuse: () => undefined,
    withDefaults: () => settings,
  };
  COMMANDS[command](settings);
  return names;
}

// SETTINGS pairs each name with the parser of its type.
const parse = <Name extends SettingName>(name: Name, text: string | undefined): Value<Name> =>
  (text === undefined ? undefined : SETTINGS[name].parse(text)) as Value<Name>;

export const resolveConfig = (flags: Source, environment: Environment, file: Source = {}): Config =>
  resolveConfigOf('serve', flags, environment, file);

/** Ignores the settings of other commands. @throws ConfigError that names every invalid setting */
export function resolveConfigOf<Name extends CommandName>(
  command: Name,
  flags: Source,
  environment: Environment,
  file: Source = {},
  onIgnored: (message: string) => void = () => undefined,
): ConfigOf<Name> {
  const problems = new Set<string>();
  const ignored = new Set<string>();
  const variableOf = (name: SettingName): string | undefined => {
    const variable = readVariable(name, environment);
    if (variable.kind === 'value') return variable.value;
    (variable.kind === 'ignored' ? ignored : problems).add(variable.message);
    return undefined;
  };
  const settings = (defaults: Source): Settings => ({
    get: (name) => {
      const fallback = SETTINGS[name].default;
      const given = flags[name] ?? variableOf(name) ?? file[name] ?? defaults[name];
      try {
        return parse(name, given ?? fallback);
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        problems.add(`--${name}: ${message}${hintAt(given ?? '')}`);
        return parse(name, fallback);
      }
    },
    refuse: (problem) => problems.add(problem),
    withDefaults: settings,
  });
  const config = COMMANDS[command](settings({})) as ConfigOf<Name>; // the function of this name
  if (problems.size > 0) throw new ConfigError([...problems].join('\n'));
  ignored.forEach((message) => {
    onIgnored(message);
  });
  return Object.freeze(config);
}

const within = (own: string, others: readonly string[]): readonly string[] | undefined =>
  others.length === 0 ? undefined : [...new Set([own, ...others])];

/** Gatehouse's namespace, for commands without the flag. */
export const ownNamespace = (environment: Environment = process.env): string =>
  resolveConfigOf('manifests', {}, environment).namespace;

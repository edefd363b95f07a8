/** Flags, environment and file become one frozen, validated Config: in this order of precedence, then the default. */
import { parseBytes } from './byte-size.ts';
import { parseClientNames } from './client-names.ts';
import { parseDevUrl } from './dev-url.ts';
import { parseDuration } from './duration.ts';

/** One setting: `--drain-delay`, `GATEHOUSE_DRAIN_DELAY`, or `drain-delay` in the file. */
interface Setting<T> {
  readonly description: string;
  /** As it would be written on the command line; undefined: absent. */
  readonly default: string | undefined;
  /** What the flag alone, without a value, stands for. Absent: it needs one. */
  readonly bare: string | undefined;
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

function count(value: string): number {
  if (!/^[1-9]\d{0,8}$/.test(value)) throw new Error(`"${value}" is not a number of at least 1`);
  return Number(value);
}

/** A list holds one object at least, and the API server takes objects of up to 3 MiB; a JavaScript string ends before 512 MiB. */
function bodyLimit(value: string): number {
  const bytes = parseBytes(value);
  if (bytes < 8 * 1024 ** 2) throw new Error(`"${value}" is too small: a single object may need 8MiB`);
  if (bytes > 256 * 1024 ** 2) throw new Error(`"${value}" is too large: at most 256MiB can be taken`);
  return bytes;
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

function yesOrNo(value: string): boolean {
  return choice(['true', 'false'])(value) === 'true';
}

/** Names out of a list, with commas between them. */
function choices<const Choices extends readonly string[]>(
  names: Choices,
): (value: string) => readonly Choices[number][] {
  const one = choice(names);
  return (value) => {
    const parts = value.split(',').map((part) => part.trim());
    return value.trim() === '' ? [] : [...new Set(parts.map(one))];
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
  bare?: string,
): Setting<T> => ({
  description,
  default: fallback,
  bare,
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
  'status-page': setting(
    'show a status page at /status of the operations port to those whom RBAC lets get that path',
    'false',
    yesOrNo,
    'true',
  ),
  exemplars: setting(
    'name a trace beside the numbers of the admission histogram, for scrapers that ask for OpenMetrics',
    'false',
    yesOrNo,
    'true',
  ),
  'connection-timeout': setting(
    'how long a client of the webhooks may take for a request, and before its first one',
    '120s',
    limit,
  ),
  'max-connections': setting(
    'connections to the webhook port at a time; of more, the one of least use is closed',
    '1500',
    count,
  ),
  'client-ca': setting(
    'file with CA certificates (PEM): clients of the webhooks have to show a certificate of one of these; read again when it changes',
    undefined,
    text,
  ),
  'client-names': setting(
    'common names or DNS names that those certificates may bear, with commas between them; without it, any',
    '',
    parseClientNames,
  ),
  'client-ca-for': setting(
    'what takes such a certificate: admission, or all; the API server shows none for conversions',
    'admission',
    choice(['admission', 'all']),
  ),
  'max-admission-reviews': setting(
    'admission reviews under way at a time, of which one webhook has half at most; more are to be sent again',
    '1000',
    count,
  ),
  'conversion-body-limit': setting(
    'largest list of objects that is converted at once; admission reviews have a limit of their own',
    '64MiB',
    bodyLimit,
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
  'unique-settle': setting(
    'how long a write that was let in may take to be stored: 10s more than --request-timeout of the API server',
    '70s',
    limit,
  ),
  'cluster-domain': setting(
    'DNS domain of the cluster; without it, found in /etc/resolv.conf',
    undefined,
    dnsName,
  ),
  compat: setting(
    'whose annotations are honoured beside our own: openshift, cert-manager, or both with a comma',
    '',
    choices(['openshift', 'cert-manager']),
  ),
  'serving-cert-dns-suffixes': setting(
    'domains in which Services may ask for DNS names of their own, with commas between them',
    '',
    dnsSuffixes,
  ),
  'serving-cert-on-removal': setting(
    'what becomes of the Secret when a Service no longer asks for it: retain or delete',
    'retain',
    choice(['retain', 'delete']),
  ),
  'ca-secret': setting(
    'Secret in our namespace with a CA of your own (tls.crt, tls.key); without it, Gatehouse makes its own',
    undefined,
    dnsName,
  ),
  'ca-lifetime': setting(
    'how long a CA lives that Gatehouse makes; rotated at half of it',
    '730d',
    caLifetime,
  ),
  'ca-propagation-wait': setting(
    'how long after a new CA is trusted everywhere it begins to sign',
    '10m',
    parseDuration,
  ),
  'ca-grace': setting(
    'how long a CA is trusted after its last certificate is replaced',
    '24h',
    parseDuration,
  ),
  'dev-url': setting(
    'serve from this machine: the webhook entries of the cluster lead to this URL (https://host:port) until the end',
    undefined,
    parseDevUrl,
  ),
  handlers: setting('folder with handlers in TypeScript, or a package that exports them', undefined, text),
  'log-level': setting(
    'least severe level that is logged',
    'info',
    choice(['debug', 'info', 'warn', 'error']),
  ),
} as const;

/** Domains of two labels or more: a single one would let a Service take the short name of another, `<service>.<namespace>`. */
function dnsSuffixes(value: string): readonly string[] {
  const suffixes = value
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  for (const suffix of suffixes) {
    if (!dnsName(suffix).includes('.')) throw new Error(`"${suffix}" is too wide: write two labels at least`);
  }
  return suffixes;
}

/** A serving cert ends an hour before its CA, and both begin before they are made. */
function caLifetime(value: string): number {
  const ms = parseDuration(value);
  if (ms < 2 * 3_600_000) throw new Error(`"${value}" is too short: a CA needs 2h at least to sign anything`);
  return ms;
}

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
  readonly statusPage: boolean;
  readonly exemplars: boolean;
  readonly connectionTimeoutMs: number;
  readonly maxConnections: number;
  readonly clients: {
    /** A file; undefined: whoever reaches the webhook port may send reviews. */
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
    /** Secret with a CA that somebody else makes; undefined: Gatehouse makes its own. */
    readonly secret: string | undefined;
    readonly lifetimeMs: number;
    readonly propagationWaitMs: number;
    readonly graceMs: number;
  };
  /** Where the cluster reaches this process, on a developer's machine; undefined: it runs in the cluster. */
  readonly devUrl: Value<'dev-url'> | undefined;
  /** A folder or a package; undefined: there are no handlers. */
  readonly handlers: string | undefined;
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
  const writtenAs = (name: SettingName) => flags[name] ?? environment[environmentName(name)] ?? file[name];
  let forDevelopment: Source = {};
  const read = <Name extends SettingName>(name: Name): Value<Name> | undefined => {
    const written = writtenAs(name) ?? forDevelopment[name] ?? SETTINGS[name].default;
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

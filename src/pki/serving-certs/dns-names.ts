import { isDnsLabel } from '../../json/kube-object.ts';
import { quote } from '../../json/printable.ts';
import {
  SERVING_CERT_CLUSTER_IPS,
  SERVING_CERT_DNS_NAMES,
  SERVING_CERT_POD_NAMES,
  SERVING_CERT_SHORT_NAMES,
  SERVING_CERT_WILDCARD,
} from '../annotations.ts';
import { canonicalAddress, isInside } from '../x509/certificate-fields.ts';

export const DEFAULT_CLUSTER_DOMAIN = 'cluster.local';

/** `db-0` names one pod, `db:3` names the pods of a StatefulSet: db-0, db-1, db-2. Undefined for any other text. */
export function podNames(text: string, max: number): readonly string[] | undefined {
  const [, set, replicas] = /^([^:]+):(\d{1,4})$/.exec(text) ?? [];
  if (set === undefined) return isDnsLabel(text) ? [text] : undefined;
  const count = Number(replicas);
  if (count < 1 || count > max || !isDnsLabel(`${set}-${count}`)) return undefined;
  return Array.from({ length: count }, (_, ordinal) => `${set}-${ordinal}`);
}

/** What the kubelet wrote into /etc/resolv.conf: `svc.<domain>`. The last search line counts (resolv.conf(5)). */
export function clusterDomainFrom(resolvConf: string): string | undefined {
  const search = resolvConf
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .findLast(([keyword]) => keyword === 'search');
  const domain = search
    ?.find((entry) => entry.startsWith('svc.'))
    ?.slice('svc.'.length)
    .replace(/\.$/, '');
  return domain === undefined || domain === '' ? undefined : domain;
}

const MAX_LABEL = 63;
const MAX_NAME = 253;

/** Why a serving cert cannot hold `name`, as the end of a sentence. Labels follow RFC 1123. */
export function dnsNameProblem(name: string): string | undefined {
  if (name.endsWith('.')) return 'ends with a dot: remove it';
  if (name.length > MAX_NAME) return `is ${name.length} characters long: at most ${MAX_NAME} are allowed`;
  const labels = name.split('.');
  for (const [position, label] of labels.entries()) {
    if (label === '*' && position === 0 && labels.length > 1) continue;
    if (label.includes('*')) return 'has a wildcard that is not the whole leftmost label';
    if (label.length > MAX_LABEL)
      return `has the label ${quote(label)} of ${label.length} characters: at most ${MAX_LABEL} are allowed`;
    if (!isDnsLabel(label) && isDnsLabel(label.toLowerCase()))
      return `has upper-case letters: write ${quote(name.toLowerCase())}`;
    if (!isDnsLabel(label))
      return `has the label ${quote(label)}: only lower-case letters, digits and, inside, "-" are allowed`;
  }
  return undefined;
}

/** Every TLS handshake carries all names. */
const MAX_NAMES = 100;
/** Each pod has two names, and so has the Service. */
const MAX_PODS = MAX_NAMES / 2 - 1;

export class InvalidAnnotation extends Error {
  override readonly name = 'InvalidAnnotation';
}

export interface NamedService {
  readonly name: string;
  readonly namespace: string;
  readonly headless: boolean;
  readonly clusterIPs?: readonly string[];
  readonly annotations: Readonly<Record<string, string>>;
}

export interface NameRules {
  readonly clusterDomain: string;
  /** Domains in which Services may request additional names, e.g. `apps.example.com`. */
  readonly dnsSuffixes: readonly string[];
  /** Domains in which only the Services of one namespace may do so, each with its namespace. */
  readonly namespaceSuffixes: ReadonlyMap<string, string>;
  /** Whether certificates hold `db` and `db.prod`, unless the Service says otherwise. */
  readonly shortNames: boolean;
  readonly clusterIPs: boolean;
  readonly nameConstraints: boolean;
}

/** The domains of all names that serving certs may hold, except short names. */
export const permittedDomains = (
  rules: Pick<NameRules, 'clusterDomain' | 'dnsSuffixes' | 'namespaceSuffixes'>,
): readonly string[] => [
  'svc',
  `svc.${rules.clusterDomain}`,
  ...rules.dnsSuffixes,
  ...rules.namespaceSuffixes.keys(),
];

/** Each name once. @throws InvalidAnnotation */
export function servingCertNames(service: NamedService, rules: NameRules): readonly string[] {
  const { name, namespace } = service;
  const domains = [`${name}.${namespace}.svc`, `${name}.${namespace}.svc.${rules.clusterDomain}`];
  const names = [
    ...shortNames(service, rules).held,
    ...domains,
    ...podLabels(service).flatMap((label) => domains.map((domain) => `${label}.${domain}`)),
    ...extraNames(service, rules),
  ];
  for (const one of names) {
    const problem = dnsNameProblem(one);
    if (problem !== undefined)
      throw new InvalidAnnotation(`the DNS name ${quote(one)} of the Service ${problem}`);
  }
  const unique = [...new Set(names)];
  if (unique.length > MAX_NAMES)
    throw new InvalidAnnotation(
      `the Service asks for ${unique.length} DNS names: at most ${MAX_NAMES} fit a cert`,
    );
  // Pods had no short names before: these must not keep a Service from its cert.
  const { ofPods } = shortNames(service, rules);
  return unique.length + ofPods.length > MAX_NAMES ? unique : [...new Set([...unique, ...ofPods])];
}

/** The names of its pods, or a wildcard for all of them. */
function podLabels(service: NamedService): readonly string[] {
  const { annotations, headless } = service;
  const pods = podsOf(service);
  const wildcard = flag(annotations, SERVING_CERT_WILDCARD) ?? (headless && pods.length === 0);
  return wildcard ? ['*', ...pods] : pods;
}

/** `omitted`: they belong to another namespace, but a default must not keep a Service from its cert. @throws InvalidAnnotation */
export function shortNames(service: NamedService, rules: NameRules) {
  const { name, namespace, annotations } = service;
  const asked = flag(annotations, SERVING_CERT_SHORT_NAMES);
  if (!(asked ?? rules.shortNames)) return { held: [], ofPods: [], omitted: [] };
  if (rules.nameConstraints)
    throw new InvalidAnnotation(
      `${SERVING_CERT_SHORT_NAMES}: the CA signs no short names (--ca-name-constraints): remove the annotation`,
    );
  const all = [name, `${name}.${namespace}`];
  const omitted = all.filter((one) => isReserved(one, namespace, rules));
  const [reserved] = omitted;
  if (asked === true && reserved !== undefined)
    throw new InvalidAnnotation(
      `${SERVING_CERT_SHORT_NAMES}: ${quote(reserved)} is in a domain that belongs to another namespace: set it to false`,
    );
  // Not `db-0.db`, because a pod `db` of a Service `prod` anywhere would get the name of Service db in namespace prod.
  const ofPods = podLabels(service).map((label) => `${label}.${name}.${namespace}`);
  const isOfCluster = (one: string) => isInside(one, 'svc') || isInside(one, rules.clusterDomain);
  return {
    held: all.filter((one) => !omitted.includes(one)),
    ofPods: ofPods.filter((one) => !isOfCluster(one) && !isReserved(one, namespace, rules)),
    omitted,
  };
}

/** In canonical form. Undefined: the operator does not allow them, so the cert has only DNS names. @throws InvalidAnnotation */
export function servingCertAddresses(
  { annotations, clusterIPs = [] }: NamedService,
  rules: NameRules,
): readonly string[] | undefined {
  if (flag(annotations, SERVING_CERT_CLUSTER_IPS) !== true) return [];
  if (!rules.clusterIPs) return undefined;
  const addresses = clusterIPs.map(canonicalAddress);
  if (addresses.length === 0 || !addresses.every((address) => address !== undefined))
    throw new InvalidAnnotation(
      `${SERVING_CERT_CLUSTER_IPS}: the Service lacks a cluster IP, because it is headless or an ExternalName: remove the annotation`,
    );
  return addresses;
}

function podsOf({ annotations, headless }: NamedService): readonly string[] {
  const text = annotations[SERVING_CERT_POD_NAMES];
  if (text === undefined) return [];
  if (!headless)
    throw new InvalidAnnotation(
      `${SERVING_CERT_POD_NAMES}: only the pods of a headless Service (clusterIP: None) have names below it`,
    );
  return listOf(text).flatMap((item) => {
    const pods = podNames(item, MAX_PODS);
    if (pods === undefined)
      throw new InvalidAnnotation(
        `${SERVING_CERT_POD_NAMES}: ${quote(item)} is neither a pod such as db-0 nor a StatefulSet with its replicas such as ` +
          `db:3 (1 to ${MAX_PODS}, for each has two names and ${MAX_NAMES} fit a cert)`,
      );
    return pods;
  });
}

function extraNames(service: NamedService, rules: NameRules): readonly string[] {
  const { clusterDomain, dnsSuffixes, namespaceSuffixes } = rules;
  const own = `${service.name}.${service.namespace}.svc`;
  return listOf(service.annotations[SERVING_CERT_DNS_NAMES] ?? '').map((name) => {
    const problem = dnsNameProblem(name);
    if (problem !== undefined)
      throw new InvalidAnnotation(`${SERVING_CERT_DNS_NAMES}: ${quote(name)} ${problem}`);
    if (isInside(name, own) || isInside(name, `${own}.${clusterDomain}`)) return name;
    const mine = [...namespaceSuffixes.keys()].filter(
      (suffix) => namespaceSuffixes.get(suffix) === service.namespace,
    );
    const allowed = [...dnsSuffixes, ...mine];
    // The Service itself in a cluster set: the Multi-Cluster Services API gives it name.namespace.svc.clusterset.local.
    if (allowed.some((suffix) => isInside(name, `${own}.${suffix}`))) return name;
    // A cert with such a name could impersonate another Service, so no allowed suffix permits it. Any svc label counts:
    // the cluster domain may be unknown.
    if (name.split('.').includes('svc') || isInside(name, clusterDomain))
      throw new InvalidAnnotation(
        `${SERVING_CERT_DNS_NAMES}: ${quote(name)} lies in the cluster's own domain or has the label svc, and is not below ${own}`,
      );
    if (isReserved(name, service.namespace, rules))
      throw new InvalidAnnotation(
        `${SERVING_CERT_DNS_NAMES}: ${quote(name)} is in a domain that belongs to another namespace`,
      );
    if (!allowed.some((suffix) => isInside(name, suffix)))
      throw new InvalidAnnotation(
        `${SERVING_CERT_DNS_NAMES}: ${quote(name)} is in none of the domains that the operator allows for this namespace (` +
          `${allowed.join(', ') || 'none'}; --serving-cert-dns-suffixes, --serving-cert-namespace-suffixes)`,
      );
    return name;
  });
}

/** The longest suffix around `name` decides. A wildcard also covers domains of other namespaces that are one label longer. */
function isReserved(name: string, namespace: string, { dnsSuffixes, namespaceSuffixes }: NameRules): boolean {
  const around = [...dnsSuffixes, ...namespaceSuffixes.keys()].filter((suffix) => isInside(name, suffix));
  const longest = around.reduce((one, other) => (other.length > one.length ? other : one), '');
  const covered = [...namespaceSuffixes.keys()].filter((suffix) => name === suffix.replace(/^[^.]*/, '*'));
  return [longest, ...covered].some((suffix) => (namespaceSuffixes.get(suffix) ?? namespace) !== namespace);
}

function flag(annotations: NamedService['annotations'], annotation: string): boolean | undefined {
  const text = annotations[annotation];
  if (text === undefined) return undefined;
  if (text !== 'true' && text !== 'false')
    throw new InvalidAnnotation(`${annotation}: ${quote(text)} is neither true nor false`);
  return text === 'true';
}

export const listOf = (text: string): readonly string[] =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');

export const DEFAULT_CLUSTER_DOMAIN = 'cluster.local';

export interface ServiceAddress {
  readonly name: string;
  readonly namespace: string;
  /** Whether its pods have names of their own below it (`clusterIP: None`). */
  readonly headless: boolean;
  /** E.g. `cluster.local`. */
  readonly clusterDomain: string;
}

/** The names under which a cluster reaches a Service, shortest first; of a headless one also those of its pods. */
export function serviceDnsNames({ name, namespace, headless, clusterDomain }: ServiceAddress): string[] {
  const short = `${name}.${namespace}.svc`;
  const full = `${short}.${clusterDomain}`;
  const names = [name, `${name}.${namespace}`, short, full];
  return headless ? [...names, `*.${short}`, `*.${full}`] : names;
}

/**
 * The cluster domain that the kubelet wrote into a pod's /etc/resolv.conf: its search list holds `svc.<domain>`.
 * Of several search lines the last one counts (resolv.conf(5)).
 */
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

const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const MAX_LABEL = 63;
const MAX_NAME = 253;

/** Why `name` cannot stand in a serving cert, as half a sentence; undefined if it can. Labels are those of RFC 1123. */
export function dnsNameProblem(name: string): string | undefined {
  if (name.length > MAX_NAME) return `is ${name.length} characters long: at most ${MAX_NAME} are allowed`;
  const labels = name.split('.');
  for (const [position, label] of labels.entries()) {
    if (label === '*' && position === 0 && labels.length > 1) continue;
    if (label.includes('*')) return 'has a wildcard that is not the whole leftmost label';
    if (label.length > MAX_LABEL)
      return `has the label "${label}" of ${label.length} characters: at most ${MAX_LABEL} are allowed`;
    if (!LABEL.test(label))
      return `has the label "${label}": only lower-case letters, digits and, inside, "-" are allowed`;
  }
  return undefined;
}

/** Whether an object can bear this name: a DNS-1123 subdomain, whose labels Kubernetes does not limit one by one. */
export const isObjectName = (name: string): boolean =>
  name.length <= MAX_NAME && name.split('.').every((label) => LABEL.test(label));

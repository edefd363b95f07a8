import { quote } from '../json/shown.ts';
import {
  SERVING_CERT_DNS_NAMES,
  SERVING_CERT_POD_NAMES,
  SERVING_CERT_SHORT_NAMES,
  SERVING_CERT_WILDCARD,
} from './annotations.ts';
import { dnsNameProblem, isInside, podDnsNames, podNames, serviceDnsNames } from './dns-names.ts';

/** More than this no client wants to read; each handshake carries them all. */
const MAX_NAMES = 100;

/** A sentence for the author of the Service: what is wrong with which annotation, and what would be right. */
export class InvalidNames extends Error {
  override readonly name = 'InvalidNames';
}

export interface NamedService {
  readonly name: string;
  readonly namespace: string;
  /** `clusterIP: None`. */
  readonly headless: boolean;
  readonly annotations: Readonly<Record<string, string>>;
}

/** What the operator decides. */
export interface NameRules {
  /** E.g. `cluster.local`. */
  readonly clusterDomain: string;
  /** Domains in which Services may ask for names of their own, e.g. `apps.example.com`. */
  readonly dnsSuffixes: readonly string[];
}

/**
 * The names that stand in the serving cert of a Service, each once.
 * @throws InvalidNames
 */
export function servingCertNames(service: NamedService, rules: NameRules): readonly string[] {
  const { annotations, headless } = service;
  const { clusterDomain } = rules;
  const pods = podsOf(service);
  const shortNames = flag(annotations, SERVING_CERT_SHORT_NAMES) ?? true;
  const wildcard = flag(annotations, SERVING_CERT_WILDCARD) ?? (headless && pods.length === 0);
  const names = [
    ...serviceDnsNames({ ...service, clusterDomain, shortNames, wildcard }),
    ...podDnsNames(pods, { ...service, clusterDomain }),
    ...extraNames(service, rules),
  ];
  for (const name of names) {
    const problem = dnsNameProblem(name);
    if (problem !== undefined)
      throw new InvalidNames(`the DNS name ${quote(name)} of the Service ${problem}`);
  }
  const unique = [...new Set(names)];
  if (unique.length > MAX_NAMES)
    throw new InvalidNames(
      `the Service asks for ${unique.length} DNS names: at most ${MAX_NAMES} fit a cert`,
    );
  return unique;
}

function podsOf({ annotations, headless }: NamedService): readonly string[] {
  const text = annotations[SERVING_CERT_POD_NAMES];
  if (text === undefined) return [];
  if (!headless)
    throw new InvalidNames(
      `${SERVING_CERT_POD_NAMES}: only the pods of a headless Service (clusterIP: None) have names below it`,
    );
  return listOf(text).flatMap((item) => {
    const pods = podNames(item, MAX_NAMES);
    if (pods === undefined)
      throw new InvalidNames(
        `${SERVING_CERT_POD_NAMES}: ${quote(item)} is neither a pod such as db-0 nor a StatefulSet with its replicas such as ` +
          `db:3 (1 to ${MAX_NAMES})`,
      );
    return pods;
  });
}

function extraNames(service: NamedService, { clusterDomain, dnsSuffixes }: NameRules): readonly string[] {
  const own = `${service.name}.${service.namespace}.svc`;
  return listOf(service.annotations[SERVING_CERT_DNS_NAMES] ?? '').map((name) => {
    if (isInside(name, own) || isInside(name, `${own}.${clusterDomain}`)) return name;
    // Whoever holds such a name is taken for somebody else's Service, whatever suffixes are allowed.
    if (isInside(name, 'svc') || isInside(name, clusterDomain))
      throw new InvalidNames(
        `${SERVING_CERT_DNS_NAMES}: ${quote(name)} lies in the cluster's own domain and not below ${own}`,
      );
    if (!dnsSuffixes.some((suffix) => isInside(name, suffix)))
      throw new InvalidNames(
        `${SERVING_CERT_DNS_NAMES}: ${quote(name)} is in none of the domains that --serving-cert-dns-suffixes allows (` +
          `${dnsSuffixes.join(', ') || 'it allows none'})`,
      );
    return name;
  });
}

function flag(annotations: NamedService['annotations'], annotation: string): boolean | undefined {
  const text = annotations[annotation];
  if (text === undefined) return undefined;
  if (text !== 'true' && text !== 'false')
    throw new InvalidNames(`${annotation}: ${quote(text)} is neither true nor false`);
  return text === 'true';
}

/** The items of a list with commas; spaces around them and empty items do not count. */
export const listOf = (text: string): readonly string[] =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');

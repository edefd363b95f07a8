/** The requests of Services. Gatehouse's own Service needs no annotation. */
import { readFileSync } from 'node:fs';

import type { Config } from '../../config/config.ts';
import type { TrialScope } from '../../pki/authority/trial.ts';
import { SERVING_CERT_SECRET_NAME, SERVING_SECRET } from '../../pki/annotations.ts';
import {
  clusterDomainFrom,
  DEFAULT_CLUSTER_DOMAIN,
  permittedDomains,
  servingCertNames,
} from '../../pki/serving-certs/dns-names.ts';
import { OWN_SERVING_CERT_LIFETIME } from '../../pki/durations.ts';
import {
  claimOf,
  requestedLifetime,
  servingCertRequest,
  type RequestRules,
  type SecretClaim,
  type Service,
  type ServingCertRequest,
} from '../../pki/serving-certs/request.ts';
import { LEAF_PURPOSES, type LeafPurpose } from '../../pki/x509/certificate-fields.ts';
import { ownStateLabels } from './ca-bundle.ts';

type Claim = SecretClaim & { readonly secretName: string };

export type ServiceRequests = ReturnType<typeof createServiceRequests>;

export function createServiceRequests(
  config: Pick<Config, 'namespace' | 'service' | 'clusterDomain' | 'compat' | 'servingCerts' | 'ca'>,
) {
  const rules: RequestRules = {
    ...config.servingCerts,
    clusterDomain: clusterDomainOf(config),
    nameConstraints: config.ca.nameConstraints,
    openshift: config.compat.includes('openshift'),
  };
  const isOwn = ({ metadata }: Service): boolean =>
    metadata?.namespace === config.namespace && metadata.name === config.service;
  const annotated = (service: Service): Service =>
    isOwn(service)
      ? {
          ...service,
          metadata: { ...service.metadata, annotations: { [SERVING_CERT_SECRET_NAME]: SERVING_SECRET } },
        }
      : service;
  const claimFor = (service: Service, purpose: LeafPurpose = 'serving'): Claim | undefined => {
    const claim = claimOf(annotated(service), rules, purpose);
    const { name = '', uid = '', creationTimestamp } = service.metadata ?? {};
    if (claim === undefined) return undefined;
    return { secretName: claim.secretName, name, uid, createdAt: creationTimestamp, own: isOwn(service) };
  };
  return {
    isOwn,
    /** The claim of the Service to a Secret in its namespace. */
    claimOf: claimFor,
    /** Its claims for all purposes. */
    claims: (service: Service): readonly Claim[] =>
      LEAF_PURPOSES.flatMap((purpose) => claimFor(service, purpose) ?? []),
    /** The longest life of the certs that this Service requests, in milliseconds; 0: it requests none. */
    lifetimeMs: (service: Service): number => {
      const asking = LEAF_PURPOSES.filter((purpose) => claimFor(service, purpose) !== undefined);
      return Math.max(0, ...asking.map((one) => requestedLifetime(annotated(service), rules, one) ?? 0));
    },
    request: (service: Service, purpose: LeafPurpose): ServingCertRequest => {
      const request = servingCertRequest(annotated(service), rules, purpose);
      return request.kind === 'request' && isOwn(service)
        ? { ...request, own: true, lifetimeMs: OWN_SERVING_CERT_LIFETIME, labels: ownStateLabels }
        : request;
    },
  };
}

const clusterDomainOf = ({ clusterDomain }: Pick<Config, 'clusterDomain'>): string =>
  clusterDomain ?? clusterDomainOfPod() ?? DEFAULT_CLUSTER_DOMAIN;

/** The domains in which a new CA may sign names; undefined: any name. */
export const domainsOfNewCa = ({
  ca,
  servingCerts,
  ...config
}: Pick<Config, 'ca' | 'servingCerts' | 'clusterDomain'>): readonly string[] | undefined =>
  ca.nameConstraints
    ? permittedDomains({ ...servingCerts, clusterDomain: clusterDomainOf(config) })
    : undefined;

/**
 * Names in every domain in which serving certs hold names, and the cluster IPs of some Service, if certs may hold such
 * addresses: a CA must be able to sign all of them.
 */
export function trialScope(
  { servingCerts, ca, ...config }: Pick<Config, 'servingCerts' | 'clusterDomain' | 'ca'>,
  clusterIPs: readonly string[],
): TrialScope {
  const service = { name: 'name', namespace: 'namespace', headless: true, annotations: {} };
  const { shortNames, dnsSuffixes, namespaceSuffixes } = servingCerts;
  const isConstrained = ca.secret === undefined && ca.nameConstraints;
  const names = servingCertNames(service, {
    ...{ ...servingCerts, clusterDomain: clusterDomainOf(config), nameConstraints: false },
    namespaceSuffixes: new Map(), // such a domain may contain name.namespace
    shortNames: shortNames && !isConstrained,
  });
  const suffixes = [...dnsSuffixes, ...namespaceSuffixes.keys()];
  return {
    dnsNames: [...names, ...suffixes.map((suffix) => `name.${suffix}`)],
    addresses: servingCerts.clusterIPs ? clusterIPs : [],
  };
}

/** The kubelet writes the cluster domain into the resolver configuration of every pod. */
function clusterDomainOfPod(): string | undefined {
  try {
    return clusterDomainFrom(readFileSync('/etc/resolv.conf', 'utf8'));
  } catch {
    return undefined; // only Linux has this file
  }
}

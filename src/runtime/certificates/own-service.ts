/** Gatehouse's own Service needs no annotation to get its certificate. */
import { readFileSync } from 'node:fs';

import { ownStateLabels } from './authority.ts';
import type { Config } from '../../config/config.ts';
import { SERVING_CERT_SECRET_NAME, SERVING_SECRET } from '../../pki/annotations.ts';
import { clusterDomainFrom, DEFAULT_CLUSTER_DOMAIN } from '../../pki/serving-certs/dns-names.ts';
import {
  type SecretClaim,
  claimOf,
  servingCertRequest,
  type RequestRules,
  type Service,
  type ServingCertRequest,
} from '../../pki/serving-certs/request.ts';
import { OWN_SERVING_CERT_LIFETIME } from '../../pki/serving-certs/issue.ts';

export interface ServiceRequests {
  readonly isOwn: (service: Service) => boolean;
  readonly request: (service: Service) => ServingCertRequest;
  /** What the Service lays claim to: the name of a Secret in its namespace. */
  readonly claimOf: (service: Service) => (SecretClaim & { readonly secretName: string }) | undefined;
}

type OwnServiceConfig = Pick<Config, 'namespace' | 'service' | 'clusterDomain' | 'compat' | 'servingCerts'>;

export function ownService(config: OwnServiceConfig): ServiceRequests {
  const rules: RequestRules = {
    clusterDomain: config.clusterDomain ?? clusterDomainOfPod() ?? DEFAULT_CLUSTER_DOMAIN,
    dnsSuffixes: config.servingCerts.dnsSuffixes,
    openshift: config.compat.includes('openshift'),
  };
  const isOwn = ({ metadata }: Service): boolean =>
    metadata?.namespace === config.namespace && metadata.name === config.service;
  const asked = (service: Service): Service => (isOwn(service) ? asking(service) : service);
  return {
    isOwn,
    claimOf: (service) => {
      const claim = claimOf(asked(service), rules);
      const { name = '', uid = '', creationTimestamp } = service.metadata ?? {};
      if (claim === undefined) return undefined;
      return { secretName: claim.secretName, name, uid, createdAt: creationTimestamp, own: isOwn(service) };
    },
    request: (service) => {
      const request = servingCertRequest(asked(service), rules);
      return request.kind === 'request' && isOwn(service)
        ? { ...request, own: true, lifetimeMs: OWN_SERVING_CERT_LIFETIME, labels: ownStateLabels }
        : request;
    },
  };
}

function asking(service: Service): Service {
  return {
    ...service,
    metadata: { ...service.metadata, annotations: { [SERVING_CERT_SECRET_NAME]: SERVING_SECRET } },
  };
}

/** The kubelet writes the cluster's domain into every pod's resolver configuration. */
function clusterDomainOfPod(): string | undefined {
  try {
    return clusterDomainFrom(readFileSync('/etc/resolv.conf', 'utf8'));
  } catch {
    return undefined; // no such file outside of Linux
  }
}

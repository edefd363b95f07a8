/** Gatehouse's own Service needs no annotation to get its certificate. */
import { readFileSync } from 'node:fs';

import { ownStateLabels } from '../../controllers/authority.ts';
import type { Config } from '../../config/config.ts';
import { SERVING_CERT_SECRET_NAME, SERVING_SECRET } from '../../pki/annotations.ts';
import { clusterDomainFrom, DEFAULT_CLUSTER_DOMAIN } from '../../pki/dns-names.ts';
import { servingCertRequest, type Service, type ServingCertRequest } from '../../pki/serving-cert-request.ts';
import { OWN_SERVING_CERT_LIFETIME } from '../../pki/serving-cert.ts';

export function ownService(config: Pick<Config, 'namespace' | 'service' | 'clusterDomain'>): {
  readonly request: (service: Service) => ServingCertRequest;
} {
  const domain = config.clusterDomain ?? clusterDomainOfPod() ?? DEFAULT_CLUSTER_DOMAIN;
  return {
    request: (service) => {
      const { namespace, name } = service.metadata ?? {};
      if (namespace !== config.namespace || name !== config.service)
        return servingCertRequest(service, domain);
      const request = servingCertRequest(asking(service), domain);
      return request.kind === 'request'
        ? { ...request, lifetimeMs: OWN_SERVING_CERT_LIFETIME, labels: ownStateLabels }
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

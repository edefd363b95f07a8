/** The endpoints of a Service that may serve its certificate, from its EndpointSlices. */
import { pick } from '../../json/objects.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { isDnsSubdomain } from '../../json/names.ts';
import { listOf } from '../../pki/serving-certs/dns-names.ts';
import { mayProbe } from './addresses.ts';

/** The fields of discovery.k8s.io/v1 that are read. */
export interface EndpointSlice extends KubeObject {
  readonly addressType?: string;
  readonly endpoints?: readonly {
    readonly addresses?: readonly string[];
    /** Absent: ready. */
    readonly conditions?: { readonly ready?: boolean };
    readonly targetRef?: { readonly kind?: string; readonly name?: string };
  }[];
  readonly ports?: readonly SlicePort[];
}

interface SlicePort {
  readonly name?: string;
  readonly port?: number;
  readonly protocol?: string;
  readonly appProtocol?: string;
}

/** One port of one pod. */
export interface Endpoint {
  readonly pod: string;
  readonly address: string;
  readonly port: number;
  /** Identifies the port of the Service, for all its pods. */
  readonly portId: string;
  /** Whether the Service says that the port serves TLS. */
  readonly isTls: boolean;
}

export const SERVICE_NAME_LABEL = 'kubernetes.io/service-name';

/** The Service of a slice, `namespace/name`; empty if it has none. */
export function servicesOf({ metadata }: EndpointSlice): readonly string[] {
  const name = metadata?.labels?.[SERVICE_NAME_LABEL];
  return name === undefined ? [] : [`${metadata?.namespace ?? ''}/${name}`];
}

/**
 * Drops everything that {@link endpointsOf} does not read, and pods with names that no pod can have: the API server does
 * not check them, and Events contain them. The watch sees every slice of the cluster.
 */
export function toStoredSlice({
  metadata = {},
  addressType = '',
  endpoints,
  ports,
}: EndpointSlice): EndpointSlice {
  const label = metadata.labels?.[SERVICE_NAME_LABEL];
  return {
    metadata: {
      ...pick(metadata, 'name', 'namespace', 'uid', 'resourceVersion'),
      ...(label === undefined ? {} : { labels: { [SERVICE_NAME_LABEL]: label } }),
    },
    addressType,
    endpoints: (endpoints ?? []).flatMap(({ addresses = [], conditions, targetRef }) =>
      conditions?.ready === false || targetRef?.kind !== 'Pod' || !isDnsSubdomain(targetRef.name ?? '')
        ? []
        : [{ addresses: addresses.slice(0, 1), targetRef: pick(targetRef, 'kind', 'name') }],
    ),
    ports: (ports ?? []).filter(({ protocol = 'TCP' }) => protocol === 'TCP'),
  };
}

/** Application protocols without TLS. */
const PLAIN = new Set(['http', 'kubernetes.io/h2c', 'kubernetes.io/ws']);
const TLS = new Set(['https', 'tls', 'kubernetes.io/wss']);

/**
 * Each port of each ready pod once. A pod with two addresses has one process behind both: IPv4 goes first.
 * @param named the annotation {@link SERVING_CERT_PORTS}: names or numbers of ports, or `none`
 * @param limit the result has at most one more, so that slices of a tenant with many pods and ports cost little
 */
export function endpointsOf(
  slices: readonly EndpointSlice[],
  named: string | undefined,
  limit: number,
): readonly Endpoint[] {
  const wanted = named === undefined ? undefined : new Set(listOf(named));
  const found = new Map<string, Endpoint>();
  for (const { ports = [], endpoints = [] } of slices.toSorted(byAddressType)) {
    for (const { name = '', port = 0, appProtocol = '' } of ports) {
      const isNamed = wanted !== undefined && (wanted.has(name) || wanted.has(String(port)));
      if (port < 1 || (wanted !== undefined && !isNamed) || (!isNamed && PLAIN.has(appProtocol))) continue;
      const portId = `${name}:${port}`;
      const isTls = isNamed || TLS.has(appProtocol);
      for (const { addresses: [address] = [], targetRef } of endpoints) {
        const pod = targetRef?.name ?? '';
        const key = `${pod} ${port}`;
        if (address === undefined || !mayProbe(address) || found.has(key)) continue;
        found.set(key, { pod, address, port, portId, isTls });
        if (found.size > limit) return [...found.values()];
      }
    }
  }
  return [...found.values()];
}

const byAddressType = (a: EndpointSlice, b: EndpointSlice): number =>
  (a.addressType ?? '') < (b.addressType ?? '') ? -1 : a.addressType === b.addressType ? 0 : 1;

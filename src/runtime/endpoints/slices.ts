/** The endpoints of a Service that may serve its certificate, from its EndpointSlices. */
import { BlockList, isIP } from 'node:net';

import { pick } from '../../json/json.ts';
import { isDnsSubdomain, type KubeObject } from '../../json/kube-object.ts';
import { listOf } from '../../pki/serving-certs/dns-names.ts';

export interface EndpointSlice extends KubeObject {
  readonly addressType?: string;
  readonly endpoints?: readonly {
    readonly addresses?: readonly string[];
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

export interface Endpoint {
  readonly pod: string;
  readonly address: string;
  readonly port: number;
  readonly portId: string;
  readonly isTls: boolean;
}

export const SERVICE_NAME_LABEL = 'kubernetes.io/service-name';

export function servicesOf({ metadata }: EndpointSlice): readonly string[] {
  const name = metadata?.labels?.[SERVICE_NAME_LABEL];
  return name === undefined ? [] : [`${metadata?.namespace ?? ''}/${name}`];
}

/** Drops what {@link endpointsOf} does not read, and pods with impossible names: nothing else checks them. */
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

const PLAIN = new Set(['http', 'kubernetes.io/h2c', 'kubernetes.io/ws']);
const TLS = new Set(['https', 'tls', 'kubernetes.io/wss']);

/** Each port of each ready pod once, at most one more than `limit`. Of two addresses of a pod, IPv4 goes first. */
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
  (a.addressType ?? '').localeCompare(b.addressType ?? '');

/** The leader itself, its node, and services of the node or the cloud: never a pod. Also addresses that embed such ones. */
const REFUSED = [
  '0.0.0.0/8', // this host
  '100.100.100.200/32', // metadata of Alibaba Cloud
  '127.0.0.0/8', // loopback
  '168.63.129.16/32', // the platform of Azure
  '169.254.0.0/16', // link-local, with the metadata of most clouds
  '192.0.0.192/32', // metadata of Oracle Cloud
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, broadcast
  '::/96', // unspecified, loopback, embedded IPv4
  '64:ff9b::/96', // embedded IPv4 (NAT64)
  '64:ff9b:1::/48', // embedded IPv4 (local NAT64)
  '2001::/32', // embedded IPv4 (Teredo)
  '2002::/16', // embedded IPv4 (6to4)
  'fd00:ec2::254/128', // metadata of AWS
  'fd20:ce::254/128', // metadata of Google Cloud
  'fe80::/10', // link-local
  'ff00::/8', // multicast
] as const;

const refused = new BlockList();
for (const network of REFUSED) {
  const [address = '', prefix] = network.split('/');
  refused.addSubnet(address, Number(prefix), isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

/** Users who may write EndpointSlices choose the addresses. False for names too: what they resolve to can change. */
export function mayProbe(address: string): boolean {
  const family = isIP(address);
  if (family === 0 || address.includes('%')) return false;
  // Node also finds an IPv4 address that is written as an IPv6 address (::ffff:127.0.0.1).
  return !refused.check(address, family === 6 ? 'ipv6' : 'ipv4');
}

import { isEqual, isJsonObject, type JsonObject, type JsonValue } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import {
  records,
  text,
  texts,
  changed,
  has,
  items,
  number,
  section,
  spec,
  withFields,
} from '../../fields.ts';
import type { Storage } from '../../storage/stored.ts';

/** Allocates values for Services. Each call returns a value that no stored Service has. */
export interface ServiceAllocators {
  readonly allocateClusterIp: () => string;
  readonly allocateNodePort: () => number;
}

const needsClusterIp = (type: string) => type !== 'ExternalName';
const needsNodePort = (type: string) => type === 'NodePort' || type === 'LoadBalancer';
const typeOf = (service: ApiObject) => text(spec(service), 'type') || 'ClusterIP';

/** Carries over what an update may omit and drops what the new type lacks (patchAllocatedValues, dropTypeDependentFields). */
export function carryOver(service: ApiObject, old: ApiObject): ApiObject {
  const [wanted, before] = [spec(service), spec(old)];
  const [oldType, newType] = [typeOf(old), typeOf(service)];
  const addresses = needsClusterIp(oldType) ? addressChanges(wanted, before, newType) : {};
  const ports = needsNodePort(oldType) ? nodePortChanges(wanted, before, newType) : {};
  return withFields(service, { spec: changed(wanted, { ...addresses, ...ports }) });
}

type Changes = Readonly<Record<string, JsonValue | undefined>>;

const OF_ADDRESS = ['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy'];

function addressChanges(wanted: JsonObject, before: JsonObject, newType: string): Changes {
  const address = text(wanted, 'clusterIP');
  const isSame = address === '' || address === text(before, 'clusterIP');
  const isStale = isEqual(items(wanted, 'clusterIPs'), items(before, 'clusterIPs'));
  if (!isSame) return isStale && needsClusterIp(newType) ? { clusterIPs: [address] } : {};
  const keeps = needsClusterIp(newType);
  const names = keeps
    ? OF_ADDRESS.filter((name) => !has(wanted, name))
    : [...OF_ADDRESS, 'internalTrafficPolicy'];
  return Object.fromEntries(names.map((name) => [name, keeps ? before[name] : undefined]));
}

function nodePortChanges(wanted: JsonObject, before: JsonObject, newType: string): Changes {
  const known = new Map(records(before, 'ports').map((port) => [portKey(port), number(port, 'nodePort')]));
  const ports = items(wanted, 'ports').map((port) => {
    if (!isJsonObject(port)) return port;
    const was = known.get(portKey(port));
    if (needsNodePort(newType)) return has(port, 'nodePort') ? port : changed(port, { nodePort: was });
    return number(port, 'nodePort') === was ? changed(port, { nodePort: undefined }) : port;
  });
  const policy = text(wanted, 'externalTrafficPolicy') === text(before, 'externalTrafficPolicy');
  return {
    ...(has(wanted, 'ports') ? { ports } : {}),
    ...(needsNodePort(newType) || !policy ? {} : { externalTrafficPolicy: undefined }),
    ...(newType === 'LoadBalancer' ? {} : { allocateLoadBalancerNodePorts: undefined }),
  };
}

const portKey = (port: JsonObject) => `${text(port, 'protocol')}/${number(port, 'port') ?? 0}`;

/** The Service with a cluster IP, IP families and node ports, as its type requires. */
export function withAllocations(
  service: ApiObject,
  { allocateClusterIp, allocateNodePort }: ServiceAllocators,
): ApiObject {
  const given = spec(service);
  const type = typeOf(service);
  if (!needsClusterIp(type)) return service;
  const address = text(given, 'clusterIP') || (texts(given, 'clusterIPs')[0] ?? '') || allocateClusterIp();
  const wantsNodePorts =
    type === 'NodePort' || (type === 'LoadBalancer' && given.allocateLoadBalancerNodePorts !== false);
  const ports = items(given, 'ports').map((port) =>
    isJsonObject(port) && wantsNodePorts && (number(port, 'nodePort') ?? 0) === 0
      ? changed(port, { nodePort: allocateNodePort() })
      : port,
  );
  return withFields(service, {
    spec: changed(given, {
      clusterIP: address,
      clusterIPs: items(given, 'clusterIPs').length > 0 ? given.clusterIPs : [address],
      ...familiesOf(given, address),
      ...(has(given, 'ports') ? { ports } : {}),
    }),
  });
}

function familiesOf(given: JsonObject, address: string): Changes {
  // Without a selector, only the owner of the endpoints knows their family, so the Service may have both.
  const open = address === 'None' && Object.keys(section(given, 'selector')).length === 0;
  const policy = text(given, 'ipFamilyPolicy') || (open ? 'RequireDualStack' : 'SingleStack');
  const family = address.includes(':') ? 'IPv6' : 'IPv4';
  const families = open && policy !== 'SingleStack' ? ['IPv4', 'IPv6'] : [family];
  return {
    ipFamilies: items(given, 'ipFamilies').length > 0 ? given.ipFamilies : families,
    ipFamilyPolicy: policy,
  };
}

const SERVICES = { group: '', resource: 'services' };
/** 10.96.0.0/16 without its first addresses, which clusters reserve for the API server and DNS. */
const FIRST_ADDRESS = 256;
const ADDRESSES = 65_000;
const FIRST_NODE_PORT = 30_000;
const NODE_PORTS = 2_768;

/** Allocates values that no stored Service has. Values taken by a dry run or a rejected create are reused later. */
export function createServiceAllocators(storage: Pick<Storage, 'list'>): ServiceAllocators {
  let next = 0;
  const firstFree = (count: number, name: (n: number) => string): string => {
    const used = new Set(storage.list(SERVICES).items.flatMap(numbersOf));
    for (let tried = 0; tried < count; tried++) {
      const candidate = name(next++ % count);
      if (!used.has(candidate)) return candidate;
    }
    throw new Error('no cluster IP or node port is left: delete a Service in the sandbox');
  };
  return {
    allocateClusterIp: () =>
      firstFree(
        ADDRESSES,
        (n) => `10.96.${Math.floor((FIRST_ADDRESS + n) / 256)}.${(FIRST_ADDRESS + n) % 256}`,
      ),
    allocateNodePort: () => Number(firstFree(NODE_PORTS, (n) => String(FIRST_NODE_PORT + n))),
  };
}

const numbersOf = (service: ApiObject): readonly string[] => [
  ...texts(spec(service), 'clusterIPs'),
  ...records(spec(service), 'ports').map((port) => String(number(port, 'nodePort') ?? '')),
];

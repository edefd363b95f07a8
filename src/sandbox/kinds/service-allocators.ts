import type { ApiObject } from '../api-object.ts';
import { records, texts } from '../reading.ts';
import type { Storage, StoredEvent } from '../storage/stored.ts';
import { number, spec } from './reading.ts';
import type { ServiceAllocators } from './service-allocation.ts';

const SERVICES = { group: '', resource: 'services' };
/** 10.96.0.0/16 without its first addresses, which clusters keep for the API server and DNS. */
const FIRST_ADDRESS = 256;
const ADDRESSES = 65_000;
const FIRST_NODE_PORT = 30_000;
const NODE_PORTS = 2_768;

/** Numbers that no stored Service has. What a dry run or a refused create took comes round again. */
export function createServiceAllocators(
  storage: Pick<Storage, 'list' | 'watch' | 'revision'>,
): ServiceAllocators {
  const used = new Set<string>();
  let next = 0;
  const follow = ({ type, object, previous }: StoredEvent) => {
    for (const taken of previous === undefined ? [] : numbersOf(previous)) used.delete(taken);
    if (type !== 'DELETED') for (const taken of numbersOf(object)) used.add(taken);
  };
  for (const service of storage.list(SERVICES).items) for (const taken of numbersOf(service)) used.add(taken);
  storage.watch(SERVICES, storage.revision(), follow);

  const firstFree = (count: number, name: (n: number) => string): string => {
    for (let tried = 0; tried < count; tried++) {
      const candidate = name(next++ % count);
      if (!used.has(candidate)) return candidate;
    }
    throw new Error('the sandbox has no address left for another Service');
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

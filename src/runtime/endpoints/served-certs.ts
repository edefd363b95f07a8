/** What servers present, compared with their Secrets, and when to ask next, in milliseconds of a monotonic clock. */
import type { Endpoint } from './slices.ts';

export interface ServedService {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly secretName: string;
  readonly leaf: string;
  /** The first name in the leaf, for SNI. */
  readonly serverName: string;
  readonly endpoints: readonly Endpoint[];
}

export type Served =
  | {
      readonly kind: 'leaf';
      readonly leaf: string;
      readonly notAfter: Date;
      readonly isFor: boolean;
    }
  | { readonly kind: 'unreachable' | 'no-tls' };

/**
 * - `stale`: the server presents another certificate for the same names, in most cases an earlier one of the Secret;
 * - `foreign`: a certificate for other names, such as a sidecar's certificate;
 * - `unreachable`: no certificate from a port that should serve TLS, e.g. because of a NetworkPolicy;
 * - `plain`: a port without TLS;
 * - `unknown`: not asked yet.
 */
export type EndpointState = 'current' | 'stale' | 'foreign' | 'unreachable' | 'plain' | 'unknown';

interface Seen {
  readonly endpoint: Endpoint;
  served?: Served;
  staleSince: number | undefined;
  isOverdue: boolean;
  failures: number;
}

interface Watched {
  service: ServedService;
  readonly replacedAt: Map<string, number>;
  readonly endpoints: Map<string, Seen>;
  readonly tlsPorts: Set<string>;
}

export type StaleService = NonNullable<ReturnType<typeof staleService>>;
export type StaleServer = StaleService['servers'][number];

export type ServedCerts = ReturnType<typeof createServedCerts>;
const HOUR = 60 * 60_000;
/** A container that restarts is back within seconds. Doubles up to an hour. */
const UNREACHABLE_RECHECK_MS = 10_000;
/** A port without TLS may be configured later. Its server may log every attempt. */
const PLAIN_RECHECK_MS = 6 * HOUR;
const MAX_REPLACED = 10;

/** All namespaces have as many endpoints as this many full ones. */
const ALL_NAMESPACES = 10;

export function createServedCerts(reloadMs: number) {
  const services = new Map<string, Watched>();
  const sizes = new Map<string, number>();

  const grow = (namespace: string, by: number): void => {
    const size = (sizes.get(namespace) ?? 0) + by;
    if (size > 0) sizes.set(namespace, size);
    else sizes.delete(namespace);
  };
  const find = (key: string) => {
    const [serviceKey = ''] = key.split(' ', 1);
    const watched = services.get(serviceKey);
    const seen = watched?.endpoints.get(key);
    return watched === undefined || seen === undefined ? undefined : { serviceKey, watched, seen };
  };
  return {
    update: (serviceKey: string, service: ServedService, now: number) => {
      const watched = services.get(serviceKey) ?? {
        service,
        replacedAt: new Map(),
        endpoints: new Map(),
        tlsPorts: new Set(),
      };
      services.set(serviceKey, watched);
      const changes = renew(watched, serviceKey, service, now);
      grow(service.namespace, changes.added.length - changes.gone.length);
      return changes;
    },
    remove: (serviceKey: string): readonly string[] => {
      const { endpoints, service } = services.get(serviceKey) ?? {};
      const gone = [...(endpoints?.keys() ?? [])];
      if (service !== undefined) grow(service.namespace, -gone.length);
      services.delete(serviceKey);
      return gone;
    },
    /** A tenant can write EndpointSlices without an end: no namespace may use the whole memory. */
    roomFor: (serviceKey: string, namespace: string, maxPerNamespace: number): number => {
      const own = services.get(serviceKey)?.endpoints.size ?? 0;
      const all = [...sizes.values()].reduce((sum, size) => sum + size, 0);
      const here = maxPerNamespace - (sizes.get(namespace) ?? 0);
      return Math.max(0, own + Math.min(here, ALL_NAMESPACES * maxPerNamespace - all));
    },
    question: (key: string) => {
      const found = find(key);
      if (found === undefined) return undefined;
      const { service } = found.watched;
      const { address, port } = found.seen.endpoint;
      return { namespace: service.namespace, serverName: service.serverName, address, port };
    },
    record: (key: string, served: Served, now: number) => {
      const found = find(key);
      if (found === undefined) return undefined;
      const { serviceKey, watched, seen } = found;
      const [before, wasOverdue] = [stateOf(seen, watched), seen.isOverdue];
      if (served.kind === 'leaf') seen.staleSince = watched.replacedAt.get(served.leaf) ?? seen.staleSince;
      take(seen, served, watched);
      judge(seen, watched, now);
      const state = stateOf(seen, watched);
      if (state === 'stale') seen.isOverdue = now >= (seen.staleSince ?? now) + reloadMs;
      seen.failures = state === 'unreachable' ? seen.failures + 1 : 0;
      const isChanged = state !== before || seen.isOverdue !== wasOverdue;
      return { serviceKey, state, isChanged, askAt: askAt(state, seen, now, reloadMs) };
    },
    counts: (): Readonly<Record<EndpointState, number>> => {
      const counts = { current: 0, stale: 0, foreign: 0, unreachable: 0, plain: 0, unknown: 0 };
      for (const watched of services.values())
        for (const seen of watched.endpoints.values()) counts[stateOf(seen, watched)] += 1;
      return counts;
    },
    /** Undefined if all servers of the Service have loaded the leaf, or still have time for it. */
    staleIn: (serviceKey: string): StaleService | undefined => {
      const watched = services.get(serviceKey);
      return watched && staleService(watched);
    },
    stale: (): readonly StaleService[] =>
      [...services.values()].flatMap((watched) => staleService(watched) ?? []),
  };
}

function renew(watched: Watched, serviceKey: string, service: ServedService, now: number) {
  const isRenewed = watched.service.leaf !== service.leaf;
  if (isRenewed) noteReplaced(watched, service.leaf, now);
  watched.service = service;
  const { endpoints } = watched;
  const wanted = new Map(service.endpoints.map((endpoint) => [keyOf(serviceKey, endpoint), endpoint]));
  const gone = [...endpoints.keys()].filter((key) => !wanted.has(key));
  for (const key of gone) endpoints.delete(key);
  const added = [...wanted.keys()].filter((key) => !endpoints.has(key));
  for (const seen of endpoints.values()) judge(seen, watched, now);
  for (const [key, endpoint] of wanted) if (!endpoints.has(key)) endpoints.set(key, unseen(endpoint));
  return { added, renewed: isRenewed ? [...wanted.keys()] : [], gone };
}

function noteReplaced({ service, replacedAt }: Watched, leaf: string, now: number): void {
  replacedAt.set(service.leaf, now);
  replacedAt.delete(leaf);
  const [oldest] = replacedAt.keys();
  if (replacedAt.size > MAX_REPLACED && oldest !== undefined) replacedAt.delete(oldest);
}

const unseen = (endpoint: Endpoint) => ({ endpoint, staleSince: undefined, isOverdue: false, failures: 0 });

const keyOf = (serviceKey: string, { pod, address, port }: Endpoint): string =>
  `${serviceKey} ${pod} ${address} ${port}`;

/** The leaf in the Secret is ours, even after the Secret has changed. */
function take(seen: Seen, served: Served, { service, tlsPorts }: Watched): void {
  if (served.kind !== 'leaf') {
    seen.served = served;
    return;
  }
  seen.served = { ...served, isFor: served.isFor || served.leaf === service.leaf };
  tlsPorts.add(seen.endpoint.portId);
}

function stateOf({ endpoint, served }: Seen, { service, tlsPorts }: Watched): EndpointState {
  switch (served?.kind) {
    case undefined:
      return 'unknown';
    case 'unreachable':
      return 'unreachable';
    case 'no-tls':
      return endpoint.isTls || tlsPorts.has(endpoint.portId) ? 'unreachable' : 'plain';
    case 'leaf':
      return served.leaf === service.leaf ? 'current' : served.isFor ? 'stale' : 'foreign';
  }
}

/** The time to reload starts when the presented leaf was replaced, or first seen. Further renewals do not extend it. */
function judge(seen: Seen, watched: Watched, now: number): void {
  const state = stateOf(seen, watched);
  if (state === 'stale') seen.staleSince ??= now;
  // A server that cannot be reached for a moment has not reloaded.
  else if (state === 'current' || state === 'foreign') [seen.staleSince, seen.isOverdue] = [undefined, false];
}

function askAt(
  state: EndpointState,
  { staleSince, isOverdue, failures }: Seen,
  now: number,
  reloadMs: number,
): number {
  switch (state) {
    case 'stale':
      return isOverdue ? now + reloadMs : (staleSince ?? now) + reloadMs;
    case 'unreachable':
      return now + Math.min(HOUR, UNREACHABLE_RECHECK_MS * 2 ** Math.min(failures - 1, 10));
    case 'plain':
      return now + PLAIN_RECHECK_MS;
    case 'current':
    case 'foreign':
    case 'unknown':
      return now + HOUR;
  }
}

function staleService({ service, endpoints }: Watched) {
  const servers = [...endpoints.values()].flatMap(({ endpoint, served, staleSince, isOverdue }) =>
    isOverdue && staleSince !== undefined && served?.kind === 'leaf' && served.leaf !== service.leaf
      ? [{ pod: endpoint.pod, address: endpoint.address, since: staleSince, notAfter: served.notAfter }]
      : [],
  );
  return servers.length === 0 ? undefined : { service, servers };
}

/**
 * What servers present, compared with their Secrets, and when to ask next. Holds no timer, and reads no clock: times are
 * milliseconds of a monotonic clock.
 */
import type { Endpoint } from './slices.ts';

/** A Service with a serving cert, and its endpoints. */
export interface ServedService {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly secretName: string;
  /** The fingerprint of the leaf in the Secret. */
  readonly leaf: string;
  /** The first name in the leaf, for SNI. */
  readonly serverName: string;
  readonly endpoints: readonly Endpoint[];
}

/** The result of one handshake. */
export type Served =
  | {
      readonly kind: 'leaf';
      /** The fingerprint. */
      readonly leaf: string;
      readonly notAfter: Date;
      /** Whether it holds the name that the question asked for. */
      readonly isFor: boolean;
    }
  | { readonly kind: 'unreachable' | 'no-tls' };

/**
 * - `stale`: the server presents another certificate for the same names, in most cases an earlier one of the Secret;
 * - `foreign`: a certificate for other names, such as that of a sidecar;
 * - `unreachable`: no certificate from a port that should serve TLS, e.g. because of a NetworkPolicy;
 * - `plain`: a port without TLS;
 * - `unknown`: not asked yet.
 */
export type EndpointState = 'current' | 'stale' | 'foreign' | 'unreachable' | 'plain' | 'unknown';

interface Seen {
  readonly endpoint: Endpoint;
  served?: Served;
  /** When the leaf that it presents became stale. */
  staleSince: number | undefined;
  /** Whether it presented the old leaf after it had time to reload. */
  isOverdue: boolean;
  failures: number;
}

interface Watched {
  service: ServedService;
  /** When the Secret lost its latest earlier leaves. */
  readonly replacedAt: Map<string, number>;
  readonly endpoints: Map<string, Seen>;
  /** The ports that have answered with a certificate at least once. */
  readonly tlsPorts: Set<string>;
}

/** The keys of endpoints that are new, of those whose leaf was renewed, and of those that are gone. */
interface Changes {
  readonly added: readonly string[];
  readonly renewed: readonly string[];
  readonly gone: readonly string[];
}

export interface StaleServer {
  readonly pod: string;
  readonly address: string;
  readonly since: number;
  readonly notAfter: Date;
}

export interface StaleService {
  readonly service: ServedService;
  /** The servers that had time to load the leaf of the Secret. */
  readonly servers: readonly StaleServer[];
}

export type ServedCerts = ReturnType<typeof createServedCerts>;

const HOUR = 60 * 60_000;
/** A container that restarts is back within seconds. Doubles up to an hour. */
const UNREACHABLE_RECHECK_MS = 10_000;
/** A port without TLS may be configured later. Its server may log every attempt. */
const PLAIN_RECHECK_MS = 6 * HOUR;

/** A server that reloads presents one of the latest leaves. */
const MAX_REPLACED = 10;

/** All namespaces have as many endpoints as this many full ones. */
const ALL_NAMESPACES = 10;

/** @param reloadMs how long a server may take to load a new leaf */
export function createServedCerts(reloadMs: number) {
  const services = new Map<string, Watched>();
  /** The Service of each endpoint. */
  const owners = new Map<string, string>();
  const perNamespace = new Map<string, number>();

  const note = (serviceKey: string, namespace: string, { added, gone }: Omit<Changes, 'renewed'>): void => {
    for (const key of added) owners.set(key, serviceKey);
    for (const key of gone) owners.delete(key);
    const count = (perNamespace.get(namespace) ?? 0) + added.length - gone.length;
    if (count > 0) perNamespace.set(namespace, count);
    else perNamespace.delete(namespace);
  };
  const find = (key: string) => {
    const serviceKey = owners.get(key) ?? '';
    const watched = services.get(serviceKey);
    const seen = watched?.endpoints.get(key);
    return watched === undefined || seen === undefined ? undefined : { serviceKey, watched, seen };
  };
  return {
    update: (serviceKey: string, service: ServedService, now: number): Changes => {
      const watched = services.get(serviceKey) ?? {
        ...{ service, replacedAt: new Map(), endpoints: new Map(), tlsPorts: new Set() },
      };
      services.set(serviceKey, watched);
      const changes = renew(watched, serviceKey, service, now);
      note(serviceKey, service.namespace, changes);
      return changes;
    },
    /** The Service is gone, or has no serving cert. Returns the keys of its endpoints. */
    remove: (serviceKey: string): readonly string[] => {
      const { endpoints, service } = services.get(serviceKey) ?? {};
      const gone = [...(endpoints?.keys() ?? [])];
      if (service !== undefined) note(serviceKey, service.namespace, { added: [], gone });
      services.delete(serviceKey);
      return gone;
    },
    /**
     * How many endpoints the Service may have. A tenant can write EndpointSlices without an end: no namespace may use the
     * whole memory.
     */
    roomFor: (serviceKey: string, namespace: string, maxPerNamespace: number): number => {
      const own = services.get(serviceKey)?.endpoints.size ?? 0;
      const here = maxPerNamespace - (perNamespace.get(namespace) ?? 0);
      return Math.max(0, own + Math.min(here, ALL_NAMESPACES * maxPerNamespace - owners.size));
    },
    /** The namespace of an endpoint, and the question to its server; undefined: it is gone. */
    question: (key: string) => {
      const found = find(key);
      if (found === undefined) return undefined;
      const { service } = found.watched;
      const { address, port } = found.seen.endpoint;
      return { namespace: service.namespace, serverName: service.serverName, address, port };
    },
    /** Takes note of an answer. Returns the state, and when to ask again; undefined: the endpoint is gone. */
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
      return {
        serviceKey,
        state,
        isChanged: state !== before || seen.isOverdue !== wasOverdue,
        askAt: askAt(state, seen, now, reloadMs),
      };
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
    /** All Services with stale servers. */
    stale: (): readonly StaleService[] =>
      [...services.values()].flatMap((watched) => staleService(watched) ?? []),
  };
}

/** Brings the endpoints of a Service up to date. */
function renew(watched: Watched, serviceKey: string, service: ServedService, now: number): Changes {
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

const unseen = (endpoint: Endpoint): Seen => ({
  ...{ endpoint, staleSince: undefined, isOverdue: false, failures: 0 },
});

const keyOf = (serviceKey: string, { pod, address, port }: Endpoint): string =>
  `${serviceKey} ${pod} ${address} ${port}`;

/** The leaf in the Secret is ours, also after the Secret has changed. */
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

/**
 * The time to reload starts when the leaf that the server presents was replaced, or when this leader first saw an old one.
 * A server that reloads gets the time again. Further renewals give no more time to one that does not.
 */
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

function staleService({ service, endpoints }: Watched): StaleService | undefined {
  const servers = [...endpoints.values()].flatMap(({ endpoint, served, staleSince, isOverdue }) =>
    isOverdue && staleSince !== undefined && served?.kind === 'leaf' && served.leaf !== service.leaf
      ? [{ pod: endpoint.pod, address: endpoint.address, since: staleSince, notAfter: served.notAfter }]
      : [],
  );
  return servers.length === 0 ? undefined : { service, servers };
}

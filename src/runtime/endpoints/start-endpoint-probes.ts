/**
 * On the leader: proof that servers have loaded their renewed certificates. Opens a TLS handshake to the endpoints of
 * Services with serving certs, and compares the leaf with the Secret.
 */
import { createHash } from 'node:crypto';

import { createDelayedKeys } from '../../kube/delayed-keys.ts';
import { systemClock } from '../../kube/clock.ts';
import { endpointSlices } from '../../kube/well-known.ts';
import { SERVING_CERT_PORTS } from '../../pki/annotations.ts';
import { markedService } from '../../pki/serving-certs/secret.ts';
import type { ServiceRequests } from '../certificates/service-requests.ts';
import { regardingService } from '../certificates/serving-cert-events.ts';
import type { ServingCertStores } from '../certificates/serving-cert-stores.ts';
import { identityOf } from '../certificates/serving-cert-task.ts';
import { inLocalTime, startController, type LeaderContext } from '../controller.ts';
import { versionsOf, watch } from '../watch.ts';
import { announceAt, announcementOf, type Announced } from './announce.ts';
import { askForLeaf, type Answer } from './handshake.ts';
import { createProber } from './prober.ts';
import { createReportReconciler, reportOf, SERVED_CERTS_CONFIGMAP } from './report.ts';
import { createRestarts } from './restarts.ts';
import { createServedCerts, type Served, type ServedCerts, type ServedService } from './served-certs.ts';
import { endpointsOf, servicesOf, toStoredSlice, type EndpointSlice } from './slices.ts';

type Stores = Pick<ServingCertStores, 'service' | 'serviceKeys' | 'secret' | 'whenSynced'>;

const BY_SERVICE = 'service';
/** A rollout changes a slice many times per second: gather, in milliseconds. */
const GATHER_MS = 1_000;
/** Another Service may make room: check again after this time, in milliseconds. */
const ROOM_MS = 60 * 60_000;
/** The report has a reader only now and then. */
const REPORT_MS = 5_000;

/** Returns a function that takes note of a change of a Service (`namespace/name`) or its Secret. */
export function startEndpointProbes(
  context: LeaderContext,
  stores: Stores,
  requests: Pick<ServiceRequests, 'claimOf'>,
  signal: AbortSignal,
): (serviceKey: string) => void {
  const { endpointProbes, without } = context.config;
  const { maxEndpoints, reloadMs } = endpointProbes;
  if (maxEndpoints === 0 || without.includes('certificates')) return () => undefined;
  const served = createServedCerts(reloadMs);
  const report = startReport(context, served, signal);
  const restart = createRestarts({ ...context, clock: systemClock }, served, signal);
  const announce = startAnnouncements(context, stores, served, restart, signal);
  const prober = createProber(
    {
      served,
      ask: askForLeaf,
      read: servedBy,
      onAnswer: (serviceKey, state, isChanged) => {
        if (isChanged) report();
        announce(serviceKey, state === 'stale');
      },
      clock: systemClock,
    },
    signal,
  );
  let slicesOf: ((serviceKey: string) => readonly EndpointSlice[]) | undefined;
  const changes = createDelayedKeys(systemClock, (key) => {
    if (slicesOf === undefined) return;
    const found = servedServiceOf(key, stores, requests, slicesOf(key), maxEndpoints);
    if (found === 'unissued') return; // for a moment, in most cases
    const limit = found === undefined ? 0 : served.roomFor(key, found.namespace, maxEndpoints);
    const isTooLarge = found !== undefined && found.endpoints.length > limit;
    if (isTooLarge) {
      context.log.warn({ key, limit }, 'too many endpoints for handshakes');
      changes.set(key, systemClock.monotonic() + ROOM_MS);
    }
    if (found === undefined || isTooLarge) prober.remove(key);
    else prober.update(key, found);
    announce(key, false);
    report();
  });
  signal.addEventListener('abort', changes.clear);
  const changed = (key: string): void => {
    if (slicesOf !== undefined && !signal.aborted) changes.set(key, systemClock.monotonic() + GATHER_MS);
  };
  const follow = async (): Promise<void> => {
    [slicesOf] = await Promise.all([watchSlices(context, changed, signal), stores.whenSynced(signal)]);
    for (const key of stores.serviceKeys()) changed(key);
    context.metrics.scrape({ servedCerts: served.counts }, signal);
  };
  void follow().catch((err: unknown) => {
    if (!signal.aborted) context.log.error({ err }, 'no server is asked for its certificate');
  });
  return changed;
}

/** Returns the lookup of the slices of a Service, once all are known. */
async function watchSlices(
  context: LeaderContext,
  changed: (serviceKey: string) => void,
  signal: AbortSignal,
): Promise<(serviceKey: string) => readonly EndpointSlice[]> {
  const slices = watch<EndpointSlice>(
    context,
    {
      resource: endpointSlices,
      transform: toStoredSlice,
      indexes: { [BY_SERVICE]: servicesOf },
      onChange: (_key, change) => {
        for (const key of new Set(versionsOf(change).flatMap(servicesOf))) changed(key);
      },
    },
    signal,
  );
  await slices.whenSynced(signal);
  return (key) => slices.store.byIndex(BY_SERVICE, key);
}

/** Undefined if the Service requests no serving cert, `unissued` if its Secret has none. */
function servedServiceOf(
  key: string,
  stores: Stores,
  requests: Pick<ServiceRequests, 'claimOf'>,
  slices: readonly EndpointSlice[],
  maxEndpoints: number,
): ServedService | 'unissued' | undefined {
  const service = stores.service(key);
  const claim = service && requests.claimOf(service);
  if (service === undefined || claim === undefined) return undefined;
  const { namespace, name, uid } = identityOf(service);
  const secret = stores.secret(`${namespace}/${claim.secretName}`);
  if (secret?.summary?.kind !== 'usable' || markedService(secret) !== name) return 'unissued';
  return {
    ...{ namespace, name, uid, secretName: claim.secretName },
    leaf: fingerprint(Buffer.from(secret.summary.leaf, 'base64')),
    serverName: `${name}.${namespace}.svc`,
    endpoints: endpointsOf(slices, service.metadata?.annotations?.[SERVING_CERT_PORTS], maxEndpoints),
  };
}

const fingerprint = (der: Uint8Array): string => createHash('sha256').update(der).digest('base64');

export function servedBy(answer: Answer, serverName: string): Served {
  if (answer.kind !== 'leaf') return answer;
  const { leaf } = answer;
  return {
    kind: 'leaf',
    leaf: fingerprint(leaf.raw),
    notAfter: leaf.validToDate,
    isFor: leaf.checkHost(serverName, { subject: 'never' }) !== undefined,
  };
}

/** Returns a function that has the report compared with the ConfigMap soon. */
function startReport(context: LeaderContext, served: ServedCerts, signal: AbortSignal): () => void {
  const { client, config, serverClock } = context;
  const { now } = serverClock;
  const sinceOf = (at: number) => new Date(now().getTime() - (systemClock.monotonic() - at));
  const read = () => reportOf(served.counts(), served.stale(), now(), sinceOf);
  const reconcile = inLocalTime(createReportReconciler(client, config.namespace, read), now);
  const controller = startController(context, { name: 'served-certs', reconcile }, signal);
  const later = createDelayedKeys(systemClock, controller.add);
  signal.addEventListener('abort', later.clear);
  return () => later.set(SERVED_CERTS_CONFIGMAP, systemClock.monotonic() + REPORT_MS);
}

/** Returns a function that takes note of an answer of a server of a Service. */
function startAnnouncements(
  { record, log }: LeaderContext,
  stores: Stores,
  served: ServedCerts,
  restart: (serviceKey: string) => void,
  signal: AbortSignal,
): (serviceKey: string, isStale: boolean) => void {
  const announced = new Map<string, Announced>();
  const { monotonic } = systemClock;
  const later = createDelayedKeys(systemClock, (key) => {
    const service = stores.service(key);
    const stale = served.staleIn(key);
    if (stale !== undefined) restart(key);
    const next = announcementOf(stale, announced.get(key), monotonic());
    if (next.announced === undefined || service === undefined) announced.delete(key);
    else announced.set(key, next.announced);
    if (next.event === undefined || service === undefined) return;
    record({ regarding: regardingService(identityOf(service)), ...next.event });
    log.info({ key, reason: next.event.reason }, next.event.message);
  });
  signal.addEventListener('abort', later.clear);
  return (key, isStale) => {
    const before = announced.get(key);
    if (isStale || before !== undefined) later.set(key, announceAt(before, monotonic()));
  };
}

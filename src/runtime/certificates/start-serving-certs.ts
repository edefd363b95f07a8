/** Leader: serving certs for the Services that ask for one. */
import { createServingCertsReconciler, type ServingCertsDeps } from './serving-certs.ts';
import { createLeaves, type Leaves } from './serving-certs-leaves.ts';
import { createPacer } from './serving-certs-pacer.ts';
import { type RecordEvent, startController, type RunningController, inLocalTime } from '../controller.ts';
import type { TrustEvidence } from './trust-evidence.ts';
import type { KubeClient } from '../../kube/client.ts';
import { systemClock } from '../../kube/clock.ts';
import { generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import type { Context } from '../context.ts';
import { ownService, type ServiceRequests } from './own-service.ts';
import type { RunningAuthority } from './start-authority.ts';
import { followClock } from './clock-jumps.ts';
import type { Derived } from './derived.ts';
import { watchServingCerts, type ServingCertStores } from './serving-cert-stores.ts';
import { servingSecretsOf } from './serving-secrets.ts';

interface ServingCertParts extends Pick<RunningAuthority, 'authority'> {
  readonly record: RecordEvent;
  /** What `leavesOf` says may have changed. */
  readonly onEvidence: () => void;
}

/** Several at a time: most of the time goes by waiting for the API server. */
const SERVING_CERT_WORKERS = 8;
/** When all are due at once. At this rate 10,000 take 8 min, and the API server has time for others. */
const REISSUE = { perSecond: 20, burst: 50 } as const;
/** A certificate made by clocks that differ by more might be valid for one side only. */
const MAX_SKEW_MS = 60 * 60_000;

type LeaderContext = Context & { readonly client: KubeClient };

export function startServingCerts(
  context: LeaderContext,
  { authority, record, onEvidence }: ServingCertParts,
  signal: AbortSignal,
): Derived & Pick<TrustEvidence, 'leavesOf'> {
  const { config, serverClock, metrics } = context;
  const requests = ownService(config);
  const { now } = serverClock;
  const add = (key: string): void => {
    controller.add(key);
  };
  const pacer = createPacer({
    ...REISSUE,
    monotonic: systemClock.monotonic,
    after: systemClock.after,
    release: add,
  });
  const stores = watchServingCerts(
    context,
    requests,
    {
      onService: add,
      onEdit: pacer.hurry,
      onLeaf: onEvidence,
      onSecretGone: (secretKey) => {
        leaves.renewed(secretKey);
      },
    },
    signal,
  );
  const leaves = createLeaves({ ...stores, authority, now });
  const controller = startReconciling(
    context,
    { requests, stores, leaves, pacer, authority, record },
    signal,
  );
  const resync = (): void => {
    for (const key of inOrder(stores, requests.isOwn)) add(key);
  };
  void stores.whenSynced(signal).then(resync, () => undefined); // no longer leading
  resyncOnJumps(context, resync, signal);
  metrics.servingCerts(viewOf(leaves, pacer.waiting, now));
  signal.addEventListener('abort', () => {
    metrics.servingCerts(undefined);
    pacer.stop();
  });
  return { resync, leavesOf: leaves.leavesOf, stopped: controller.stopped };
}

interface ReconcilingParts extends Pick<ServingCertsDeps, 'authority' | 'record' | 'pacer'> {
  readonly requests: ServiceRequests;
  readonly stores: ServingCertStores;
  readonly leaves: Leaves;
}

function startReconciling(
  context: LeaderContext,
  { requests, stores, ...parts }: ReconcilingParts,
  signal: AbortSignal,
): RunningController {
  const { client, config, serverClock, metrics, log } = context;
  const { now } = serverClock;
  const reconcile = createServingCertsReconciler({
    ...servingSecretsOf(client),
    ...parts,
    synced: stores.synced,
    service: stores.service,
    claimants: stores.claimants,
    storedSecret: stores.secret,
    storedSecretsOf: stores.secretsOf,
    isClaimed: (secretKey) => stores.claimants(secretKey).length > 0,
    request: requests.request,
    claimOf: requests.claimOf,
    secretNameOf: (service) => requests.claimOf(service)?.secretName,
    onRemoval: config.servingCerts.onRemoval,
    openshift: config.compat.includes('openshift'),
    clockProblem: () => skewProblem(serverClock.skewMs()),
    generateKeyPair,
    randomSerial,
    observe: metrics.issue,
    now,
    log,
  });
  return startController(
    context,
    { name: 'serving-certs', concurrency: SERVING_CERT_WORKERS, reconcile: inLocalTime(reconcile, now) },
    signal,
  );
}

function resyncOnJumps({ serverClock, log }: Context, resync: () => void, signal: AbortSignal): void {
  followClock(
    serverClock.now,
    (jumpMs) => {
      log.warn(
        { jumpMs: Math.round(jumpMs), problem: skewProblem(serverClock.skewMs()) },
        'the clock jumped',
      );
      resync();
    },
    signal,
  );
}

function skewProblem(skewMs: number | undefined): string | undefined {
  if (skewMs === undefined || Math.abs(skewMs) <= MAX_SKEW_MS) return undefined;
  const [minutes, where] = [Math.round(Math.abs(skewMs) / 60_000), skewMs > 0 ? 'ahead of' : 'behind'];
  return `our clock is ${minutes} minutes ${where} that of the API server, and either may be wrong: correct it`;
}

/** Gatehouse's own Service first, for the API server calls us by its cert; then those whose certs end first. */
function inOrder(
  { serviceKeys, service, claimants, secrets }: ServingCertStores,
  isOwn: ReturnType<typeof ownService>['isOwn'],
): readonly string[] {
  const ends = new Map<string, number>();
  for (const { metadata, sketch } of secrets()) {
    if (sketch?.kind !== 'usable') continue;
    for (const claimant of claimants(`${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`))
      ends.set(
        `${claimant.metadata?.namespace ?? ''}/${claimant.metadata?.name ?? ''}`,
        sketch.notAfter.getTime(),
      );
  }
  const rank = (key: string): number => {
    const one = service(key);
    return one !== undefined && isOwn(one) ? Number.NEGATIVE_INFINITY : (ends.get(key) ?? 0);
  };
  const ranked = serviceKeys().map((key) => ({ key, rank: rank(key) }));
  return ranked.sort((a, b) => (a.rank < b.rank ? -1 : a.rank > b.rank ? 1 : 0)).map(({ key }) => key);
}

const viewOf = (leaves: Leaves, waiting: () => number, now: () => Date) => ({
  all: leaves.all,
  stoppedByReason: leaves.stoppedByReason,
  waiting,
  now,
});

/**
 * On the leader: restarts workloads that ask for it when their pods present an earlier certificate, as `kubectl rollout
 * restart` does. One workload at a time in the cluster, and once for each certificate.
 */
import type { Config } from '../../config/config.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { isConflict, isForbidden, isRefused } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { sleep, type Clock } from '../../kube/clock.ts';
import type { LeaseObject } from '../../kube/lease/lease-record.ts';
import { withKind } from '../../kube/object.ts';
import { leases, services } from '../../kube/well-known.ts';
import type { Log } from '../../log.ts';
import { after } from '../../pki/durations.ts';
import { regardingService } from '../certificates/serving-cert-events.ts';
import { restorePause } from '../certificates/rotation.ts';
import { createReminders, regarding, type LeaderContext, type Reminders } from '../controller.ts';
import { LEADER_LEASE } from '../leadership/own-lease.ts';
import { isRollingOut, planRestart, restartPatch, type Workload } from './restart-plan.ts';
import type { ServedCerts, StaleService } from './served-certs.ts';
import { createTurns } from './turns.ts';
import { workloadOf, type FoundWorkload } from './workloads.ts';

/** A rollout that takes longer no longer holds up the next workload, in milliseconds. */
const ROLLOUT_MS = 10 * 60_000;
const LOOK_MS = 5_000;
/** The pods of a Service have few owners. */
const MAX_PODS = 10;
const FIELD_MANAGER = 'gatehouse-restarts';

export interface RestartContext extends Pick<LeaderContext, 'record'> {
  readonly log: Log;
  readonly client: Pick<KubeClient, 'get' | 'listAll' | 'patchMerge'>;
  readonly config: Pick<Config, 'namespace'> & {
    readonly endpointProbes: Pick<Config['endpointProbes'], 'reloadMs'>;
  };
  readonly metrics: Pick<LeaderContext['metrics'], 'workloadRestart'>;
  readonly serverClock: Pick<LeaderContext['serverClock'], 'now'>;
  readonly clock: Clock;
}

interface Running extends RestartContext {
  readonly reminders: Reminders;
  /**
   * The leaf of the last restart by this process, for each workload and Service: a GitOps tool may remove the annotations
   * that record it.
   */
  readonly done: Map<string, string>;
  /** By the monotonic clock. */
  readonly startedAt: number;
}

/** Returns a function that takes note of a Service with stale servers (`namespace/name`). */
export function createRestarts(
  context: RestartContext,
  served: Pick<ServedCerts, 'staleIn'>,
  signal: AbortSignal,
): (serviceKey: string) => void {
  const startedAt = context.clock.monotonic();
  const running: Running = { ...context, reminders: createReminders(), done: new Map(), startedAt };
  const turns = createTurns(); // a tenant with many stale workloads must not hold up others
  let isBusy = false;
  const work = async (): Promise<void> => {
    if (isBusy) return;
    isBusy = true;
    for (let key = turns.next(always); key !== undefined && !signal.aborted; key = turns.next(always)) {
      const stale = served.staleIn(key);
      if (stale !== undefined && (await restartNext(stale, running, signal).catch(failed))) enqueue(key);
    }
    isBusy = false;
  };
  const failed = (err: unknown): boolean => {
    if (!signal.aborted) context.log.warn({ err }, 'could not restart a stale workload');
    return false;
  };
  const enqueue = (key: string): void => turns.add(key.split('/')[0] ?? '', key, false);
  return (key) => {
    enqueue(key);
    void work();
  };
}

const always = (): boolean => true;

/** Restarts one workload at most, and waits for its rollout. Returns false if there was none to restart. */
async function restartNext(stale: StaleService, running: Running, signal: AbortSignal): Promise<boolean> {
  const { client, config, serverClock } = running;
  const { namespace, name, uid } = stale.service;
  const service = await client.get<KubeObject>(services, { namespace, name }, { signal });
  if (service?.metadata?.uid !== uid) return false;
  const createdBefore = after(serverClock.now(), -config.endpointProbes.reloadMs);
  const seen = new Set<string>();
  for (const server of stale.servers.slice(0, MAX_PODS)) {
    const found = await workloadOf(client, service, server, createdBefore, signal).catch(withoutPermission);
    const id = found?.workload.metadata?.uid;
    if (found === undefined || id === undefined || seen.has(id)) continue;
    seen.add(id);
    if (!(await restart(found, stale, running, signal))) continue;
    await untilRolledOut(found, running, signal);
    return true;
  }
  return false;
}

/** The administrator has not permitted restarts in this namespace. */
function withoutPermission(error: unknown): undefined {
  if (isForbidden(error)) return undefined;
  throw error;
}

/** Whether the workload was restarted. */
async function restart(
  found: FoundWorkload,
  stale: StaleService,
  running: Running,
  signal: AbortSignal,
): Promise<boolean> {
  const { client, done, metrics, serverClock } = running;
  const { resource, workload } = found;
  const { namespace = '', name = '', uid = '' } = workload.metadata ?? {};
  const { leaf, secretName, uid: serviceUid } = stale.service;
  const say = (type: 'Normal' | 'Warning', reason: string, message: string) =>
    report(found, stale, { type, reason, message }, running);
  const refused = (why: string): void => {
    const message = `not restarted for the certificate in secret ${secretName}: ${why}`;
    if (say('Warning', 'RestartRefused', message)) metrics.workloadRestart('refused');
  };

  const plan = planRestart(workload, leaf, done.get(`${uid} ${serviceUid}`) === leaf);
  const pause = plan.kind === 'restart' ? await pauseOf(running, signal) : undefined;
  const why = plan.kind === 'wait' ? plan.why : pause;
  if (why !== undefined)
    say('Normal', 'RestartWaiting', `the restart for the certificate in secret ${secretName} waits: ${why}`);
  if (plan.kind === 'refuse') refused(plan.why);
  if (plan.kind !== 'restart' || why !== undefined) return false;
  try {
    const patch = restartPatch(workload, leaf, serverClock.now());
    await client.patchMerge(resource, { namespace, name }, patch, { signal, fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (!isRefused(error)) {
      // After e.g. a timeout, the API server may have restarted it.
      if (!isConflict(error)) await untilRolledOut(found, running, signal);
      throw error; // the next answer of a server leads here again
    }
    refused(`the API server refuses it. It says: ${error.message}`);
    return false;
  }
  done.set(`${uid} ${serviceUid}`, leaf);
  metrics.workloadRestart('restarted');
  const message = `restarted, because pods still presented an earlier certificate than secret ${secretName} contains`;
  say('Normal', 'RestartedForCertificate', message);
  return true;
}

/** Why nothing is restarted in the whole cluster, for users. */
async function pauseOf(running: Running, signal: AbortSignal): Promise<string | undefined> {
  const { client, clock, config, serverClock, startedAt } = running;
  const open = await restorePause(running, serverClock.now(), signal);
  if (open !== undefined || clock.monotonic() - startedAt >= ROLLOUT_MS) return open;
  const ref = { namespace: config.namespace, name: LEADER_LEASE };
  const lease = await client.get<LeaseObject>(leases, ref, { signal });
  return lease?.spec?.leaseTransitions === 0
    ? undefined
    : 'the previous leader may have restarted another workload less than ten minutes ago';
}

/** Events on the workload and on the Service. Returns false if both were recorded already. */
function report(
  { resource, workload }: FoundWorkload,
  { service }: StaleService,
  event: { readonly type: 'Normal' | 'Warning'; readonly reason: string; readonly message: string },
  { log, record, reminders, serverClock }: Running,
): boolean {
  const { name = '', uid = '' } = workload.metadata ?? {};
  if (!reminders.isDue(`${uid} ${service.uid}`, event.reason + event.message, serverClock.now()))
    return false;
  const message = `${resource.kind.toLowerCase()} ${name}: ${event.message}`;
  record({ regarding: regarding(withKind(resource, workload)), ...event });
  record({ regarding: regardingService(service), ...event, message });
  log.info({ namespace: service.namespace, service: service.name, reason: event.reason }, message);
  return true;
}

async function untilRolledOut(
  { resource, workload }: FoundWorkload,
  { client, clock, log, metrics }: Running,
  signal: AbortSignal,
): Promise<void> {
  const { namespace = '', name = '' } = workload.metadata ?? {};
  const end = clock.monotonic() + ROLLOUT_MS;
  while (clock.monotonic() < end) {
    await sleep(clock, LOOK_MS, signal);
    try {
      const now = await client.get<Workload>(resource, { namespace, name }, { signal });
      if (now === undefined || !isRollingOut(now)) return;
    } catch {
      signal.throwIfAborted(); // otherwise unknown: the rollout may still run
    }
  }
  metrics.workloadRestart('unfinished');
  log.warn(
    { namespace, workload: name },
    'the rollout after a restart takes long: the next workload may start',
  );
}

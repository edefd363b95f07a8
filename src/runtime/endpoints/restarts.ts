/** On the leader: restarts workloads whose pods present an earlier certificate, one at a time and once per certificate. */
import type { Config } from '../../config/config.ts';
import { keyOf, type KubeObject } from '../../json/kube-object.ts';
import { listIn, objectIn, textIn } from '../../json/json.ts';
import { insteadOf, isConflict, isForbidden, isRefused } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { sleep, type Clock } from '../../kube/clock.ts';
import { withKind, type Resource } from '../../kube/object.ts';
import { services, daemonSets, deployments, pods, replicaSets, statefulSets } from '../../kube/well-known.ts';
import type { Log } from '../../log.ts';
import { after, DAY } from '../../pki/durations.ts';
import { regardingService } from '../certificates/serving-cert-task.ts';
import { restorePause } from '../certificates/rotation-step.ts';
import { createReminders, regarding, type LeaderContext, type Reminders } from '../controller.ts';
import { createRecent } from '../claims/recent.ts';
import { REFUSED_RECHECK_MS } from '../write-refused.ts';
import { createRestartRecord, ROLLOUT_MS, type RestartRecord } from './report.ts';
import { isRollingOut, planRestart, restartPatch, type Workload } from './restart-plan.ts';
import type { ServedCerts, StaleServer, StaleService } from './served-certs.ts';
import { createTurns } from './turns.ts';
import { matchesSelector, normaliseSelector } from '../../json/label-selector.ts';

const LOOK_MS = 5_000;

/** Each pod costs up to three reads, and the pods of a Service have few owners: others have their turn later. */
const PODS_PER_TURN = 10;
const DONE = { most: 10_000, keepMs: 365 * DAY } as const;
const FIELD_MANAGER = 'gatehouse-restarts';

interface RestartContext extends Pick<LeaderContext, 'record'> {
  readonly log: Log;
  readonly client: Pick<KubeClient, 'get' | 'listAll' | 'patchMerge' | 'create' | 'replace'>;
  readonly config: Pick<Config, 'namespace' | 'without'> & {
    readonly endpointProbes: Pick<Config['endpointProbes'], 'reloadMs'>;
  };
  readonly metrics: Pick<LeaderContext['metrics'], 'workloadRestart'>;
  readonly serverClock: Pick<LeaderContext['serverClock'], 'now'>;
  readonly clock: Clock;
}

interface Running extends RestartContext {
  readonly reminders: Reminders;
  /** Restarts by this process, by {@link restartId}: a GitOps tool may remove the annotations that record them. */
  readonly done: ReturnType<typeof createRecent>;
  /** Those that the API server refused, by the same id. It is asked again after some time. */
  readonly refused: ReturnType<typeof createRecent>;
  readonly inProgress: RestartRecord;
  /** The number of servers of a Service that had their turn, if it has more than fit one turn. */
  readonly positions: Map<string, number>;
  readonly signal: AbortSignal;
}

export function createRestarts(
  context: RestartContext,
  served: Pick<ServedCerts, 'staleIn'>,
  signal: AbortSignal,
): (serviceKey: string) => void {
  const positions = new Map<string, number>();
  const inProgress = createRestartRecord(context.client, context.config.namespace);
  const done = createRecent(DONE.most, DONE.keepMs);
  const refused = createRecent(DONE.most, REFUSED_RECHECK_MS);
  const running = { ...context, reminders: createReminders(), done, refused, inProgress, positions, signal };
  const turns = createTurns(); // a tenant with many stale workloads must not hold up others
  let isBusy = false;
  const work = async (): Promise<void> => {
    if (isBusy) return;
    isBusy = true;
    for (let key = turns.next(always); key !== undefined && !signal.aborted; key = turns.next(always)) {
      const stale = served.staleIn(key);
      if (stale !== undefined && (await restartNext(key, stale, running).catch(failed))) enqueue(key);
    }
    for (const key of positions.keys()) if (served.staleIn(key) === undefined) positions.delete(key);
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
async function restartNext(key: string, stale: StaleService, running: Running): Promise<boolean> {
  const { client, config, serverClock, signal } = running;
  const { namespace, name, uid } = stale.service;
  const service = await client.get<KubeObject>(services, { namespace, name }, { signal });
  if (service?.metadata?.uid !== uid) return false;
  const createdBefore = after(serverClock.now(), -config.endpointProbes.reloadMs);
  const seen = new Set<string>();
  for (const server of serversOfTurn(key, stale, running)) {
    const finding = workloadOf(service, server, createdBefore, running);
    const found = await finding.catch(insteadOf(isForbidden, undefined));
    const id = found?.workload.metadata?.uid;
    if (found === undefined || id === undefined || seen.has(id)) continue;
    seen.add(id);
    if (await restart(found, stale, running)) return true;
  }
  return false;
}

function serversOfTurn(key: string, { servers }: StaleService, { positions }: Running) {
  const from = positions.get(key) ?? 0;
  const next = from + PODS_PER_TURN;
  if (next < servers.length) positions.set(key, next);
  else positions.delete(key);
  return from < servers.length ? servers.slice(from, next) : servers.slice(0, PODS_PER_TURN);
}

async function restart(found: FoundWorkload, stale: StaleService, running: Running): Promise<boolean> {
  const { done, inProgress, metrics, refused, signal } = running;
  const { leaf, secretName } = stale.service;
  const id = restartId(found, stale);
  const say = (type: 'Normal' | 'Warning', reason: string, message: string) =>
    report(found, stale, { type, reason, message }, running);
  const refuse = (why: string): void => {
    const message = `not restarted for the certificate in secret ${secretName}: ${why}`;
    if (say('Warning', 'RestartRefused', message)) metrics.workloadRestart('refused');
  };

  if (refused.has(id)) return false;
  const plan = planRestart(found.workload, leaf, done.has(id));
  const pause = plan.kind === 'restart' ? await pauseOf(found, running) : undefined;
  const why = plan.kind === 'wait' ? plan.why : pause;
  if (why !== undefined)
    say('Normal', 'RestartWaiting', `the restart for the certificate in secret ${secretName} waits: ${why}`);
  if (plan.kind === 'refuse') refuse(plan.why);
  if (plan.kind !== 'restart' || why !== undefined) return false;
  try {
    await patch(found, leaf, running);
    done.add(id);
    metrics.workloadRestart('restarted');
    const message = `restarted, because pods still presented an earlier certificate than secret ${secretName} contains`;
    say('Normal', 'RestartedForCertificate', message);
    await untilRolledOut(found, running);
    return true;
  } catch (error) {
    if (!isRefused(error)) throw error; // the next answer of a server leads here again
    refused.add(id);
    refuse(`the API server refuses it. It says: ${error.message}`);
    return false;
  } finally {
    if (!signal.aborted) await inProgress.end(signal);
  }
}

const restartId = ({ workload }: FoundWorkload, { service }: StaleService): string =>
  `${workload.metadata?.uid ?? ''} ${service.uid} ${service.leaf}`;

async function patch(found: FoundWorkload, leaf: string, running: Running): Promise<void> {
  const { client, serverClock, signal } = running;
  const { resource, workload } = found;
  const { namespace = '', name = '' } = workload.metadata ?? {};
  try {
    const body = restartPatch(workload, leaf, serverClock.now());
    await client.patchMerge(resource, { namespace, name }, body, { signal, fieldManager: FIELD_MANAGER });
  } catch (error) {
    // After e.g. a timeout, the API server may have restarted it.
    if (!isRefused(error) && !isConflict(error)) await untilRolledOut(found, running);
    throw error;
  }
}

async function pauseOf({ resource, workload }: FoundWorkload, running: Running): Promise<string | undefined> {
  const { serverClock, signal } = running;
  const now = serverClock.now();
  const open = await restorePause(running, now, signal);
  return open ?? (await running.inProgress.begin(`${resource.kind} ${keyOf(workload)}`, now, signal));
}

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

async function untilRolledOut({ resource, workload }: FoundWorkload, running: Running): Promise<void> {
  const { client, clock, log, metrics, signal } = running;
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

type FoundWorkload = NonNullable<Awaited<ReturnType<typeof workloadOf>>>;

/**
 * Undefined if no such workload controls the pod. Tenants write EndpointSlices, pods and owner references: each link is
 * read live, and checked in both directions. A pod that is younger than `createdBefore` may have replaced it.
 */
async function workloadOf(
  service: KubeObject,
  server: Pick<StaleServer, 'pod' | 'address'>,
  createdBefore: Date,
  { client, signal }: Running,
) {
  const { namespace = '' } = service.metadata ?? {};
  const pod = await client.get<KubeObject>(pods, { namespace, name: server.pod }, { signal });
  const { labels = {}, creationTimestamp = '', deletionTimestamp } = pod?.metadata ?? {};
  if (deletionTimestamp !== undefined || !(Date.parse(creationTimestamp) < createdBefore.getTime()))
    return undefined;
  const others = listIn(pod, 'status', 'podIPs').map((one) => textIn(one, 'ip'));
  const isAt = [textIn(pod, 'status', 'podIP'), ...others].includes(server.address);
  if (!isAt || !isSelected({ matchLabels: objectIn(service, 'spec', 'selector') }, labels)) return undefined;

  let child: KubeObject | undefined = pod;
  while (child !== undefined) {
    const owner = child.metadata?.ownerReferences?.find(({ controller }) => controller === true);
    const resource = OWNERS.find(({ kind }) => owner?.kind === kind && owner.apiVersion === 'apps/v1');
    if (owner === undefined || resource === undefined) return undefined;
    const workload = await client.get<Workload>(resource, { namespace, name: owner.name }, { signal });
    if (workload?.metadata?.uid !== owner.uid || !isSelected(workload.spec?.selector, labels))
      return undefined;
    if (resource !== replicaSets) return { resource, workload };
    child = child === pod ? workload : undefined;
  }
  return undefined;
}

const OWNERS: readonly Resource[] = [replicaSets, deployments, statefulSets, daemonSets];

/** An empty selector selects nothing here: users write the endpoints of a Service without a selector. */
function isSelected(selector: unknown, labels: Readonly<Record<string, string>>): boolean {
  const { selector: normal, problems } = normaliseSelector(selector, 'spec.selector');
  return problems.length === 0 && Object.keys(normal).length > 0 && matchesSelector(normal, labels);
}

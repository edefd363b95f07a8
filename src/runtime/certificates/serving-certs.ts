/** On the leader: maintains a serving cert in the Secret of every Service that asks for one, and reports about it. */
import type { StoredSecret } from '../../pki/serving-certs/facts.ts';
import { LEAF_PURPOSES, type LeafPurpose } from '../../pki/x509/certificate-fields.ts';
import { OutsideConstraints, TrustTooShort } from '../../pki/serving-certs/issue.ts';
import type { ServingCertPlan, IssueReason } from '../../pki/serving-certs/plan.ts';
import { isContended, type RevertHistory } from '../../pki/revert-backoff.ts';
import { firstClaim, type Service, type ServingCertRequest } from '../../pki/serving-certs/request.ts';
import { hasLabel, ownership } from '../../pki/serving-certs/secret.ts';
import {
  AWAIT_CHANGE,
  createReminders,
  GONE,
  REPEAT_MS,
  requeueIn,
  soonest,
  type Reconcile,
  type ReconcileResult,
  type Reminders,
} from '../controller.ts';
import {
  createRefusedWrites,
  REFUSED_RECHECK_MS,
  type RefusedWrites,
  WriteRefused,
  refusable,
  isWritten,
} from '../write-refused.ts';
import { skewProblem } from '../clock-skew.ts';
import { releaseOrphans } from './orphaned-secrets.ts';
import { repairSecret, type RepairResult } from './repair-secret.ts';
import {
  explain,
  NOTICES,
  noticesOf,
  regardingSecret,
  type Refusal,
  regardingService,
  type Explanation,
} from './serving-cert-events.ts';
import {
  checkedOutputs,
  createSigningCache,
  hasChecked,
  identityOf,
  isMarked,
  isPaced,
  needsClock,
  passwordRecheckAt,
  planOf,
  secretKeyOf,
  taskKeyOf,
  signingIdOf,
  type CheckedOutputs,
  type ServingCertsContext,
  type ServingCertTask,
  signerName,
} from './serving-cert-task.ts';
import { services } from '../../kube/well-known.ts';
import { openshiftServiceChange, type OpenshiftOutcome } from '../../pki/serving-certs/openshift.ts';

/** What is known of a key only in memory. A new leader finds everything else in the objects. */
interface Known {
  /** The Secret exists, although it is not in the store. */
  isUnseen?: boolean;
  /** Since when it waits until the leader has recorded a later trust. */
  untrustedSince?: Date;
  checked?: CheckedOutputs;
}

interface Running extends ServingCertsContext {
  readonly known: Map<string, Known>;
  readonly reminders: Reminders;
  readonly refusedWrites: RefusedWrites;
}

/** The record of this key, to be changed. */
function knownOf(key: string, { known }: Pick<Running, 'known'>): Known {
  const found = known.get(key) ?? {};
  known.set(key, found);
  return found;
}

export function createServingCertsReconciler(context: ServingCertsContext): Reconcile {
  const { stores, requests, serverClock } = context;
  const signingOf = createSigningCache();
  const running: Running = {
    ...context,
    known: new Map(),
    reminders: createReminders(),
    refusedWrites: createRefusedWrites(serverClock.now),
  };
  return async (key, signal) => {
    const service = stores.service(key);
    const authority = context.authority();
    if (!stores.synced() || authority === undefined) return AWAIT_CHANGE; // a change of either causes a resync
    const isRefused = await releaseOrphans(key, service, running, signal);
    // A failure of one purpose does not keep the other from its cert.
    const results = await Promise.allSettled(
      LEAF_PURPOSES.map(async (purpose) => {
        const taskKey = taskKeyOf(key, purpose);
        const request = service && requests.request(service, purpose);
        if (service === undefined || request === undefined || request.kind === 'none')
          return forget(taskKey, running);
        if (request.kind === 'invalid')
          return await reject({ key: taskKey, service, signal }, purpose, request, running);
        const now = serverClock.now();
        const [identity, signing] = [identityOf(service), signingOf(authority, now)];
        const task = { key: taskKey, service, identity, request, authority, signing, now, signal };
        for (const notice of noticesOf(request))
          warn({ ...task, key: noticeKey(taskKey, notice.reason) }, notice, running);
        return await reconcileTask(task, running);
      }),
    );
    const retry = isRefused ? [requeueIn(REFUSED_RECHECK_MS, serverClock.now())] : [];
    return soonest([...results.map(valueOf), ...retry]);
  };
}

function valueOf<T>(result: PromiseSettledResult<T>): T {
  if (result.status === 'rejected') throw result.reason;
  return result.value;
}

/** The Service is gone, or no longer asks for a cert. */
function forget(key: string, running: Running): ReconcileResult {
  const { known, pacer, refusedWrites, reminders } = running;
  known.delete(key);
  refusedWrites.over(key);
  pacer.forget(key);
  reminders.clear(key);
  for (const notice of NOTICES) reminders.clear(noticeKey(key, notice));
  return GONE;
}

/** Of a reminder that lasts while the cert is renewed. */
const noticeKey = (key: string, reason: string): string => `${key}/${reason}`;

/** Decides from the stores whether a write may be needed. */
async function reconcileTask(task: ServingCertTask, running: Running): Promise<ReconcileResult> {
  const { stores, inventory, serverClock, pacer } = running;
  const secretKey = secretKeyOf(task);
  const first = firstClaim(claimsTo(secretKey, task.request.secretName, running));
  if (first !== undefined && first.name !== task.identity.name)
    return await refuse(task, { kind: 'taken', by: first.name }, running);

  const stored = stores.secret(secretKey);
  const facts = stored === undefined ? undefined : inventory.factsOf(stored, task.authority);
  const plan = planOf(facts, task);
  if (stored !== undefined && isSettled(stored, task, plan, running)) {
    settle(task, running);
    const calmAt = running.contended.contendedUntil(task.key, task.now);
    if (calmAt === undefined) running.reminders.clear(task.key);
    const answered = await annotateSigned(task, running);
    return answered ? recheck(plan, task, calmAt) : requeueIn(REFUSED_RECHECK_MS, task.now);
  }
  const problem =
    facts?.kind === 'usable' && needsClock(plan) ? skewProblem(serverClock.skewMs()) : undefined;
  if (problem !== undefined) return await refuse(task, { kind: 'clock', message: problem }, running);
  const attempt = running.contended.attempt(task.key, signingIdOf(task.signing), task.now);
  if (attempt.kind === 'wait') {
    running.contended.remember(task.key, attempt.history, task.now);
    return { ...(await refuse(task, { kind: 'contended' }, running)), at: attempt.until };
  }
  const endsAt = facts?.kind === 'usable' ? facts.notAfter : undefined;
  if (isPaced(plan, stored, task) && !pacer.take(task.key, endsAt)) return AWAIT_CHANGE; // the pacer adds the key again
  return await repair(task, stored, attempt.history, running);
}

const claimsTo = (secretKey: string, name: string, { stores, requests }: Running) =>
  stores
    .claimants(secretKey)
    .flatMap(requests.claims)
    .filter(({ secretName }) => secretName === name);

function isSettled(
  stored: StoredSecret,
  task: ServingCertTask,
  plan: ServingCertPlan,
  running: Running,
): boolean {
  return (
    plan.kind === 'keep' &&
    stored.summary?.kind === 'usable' &&
    ownership(stored, task.identity, running) === 'ours' &&
    isMarked(stored, task, stored.summary.notAfter) &&
    hasChecked(running.known.get(task.key)?.checked, stored, task)
  );
}

async function repair(
  task: ServingCertTask,
  stored: StoredSecret | undefined,
  history: RevertHistory,
  running: Running,
): Promise<ReconcileResult> {
  const { contended, reminders, refusedWrites, observe } = running;
  const known = knownOf(task.key, running);
  const isAbsent = stored === undefined && known.isUnseen !== true;
  const done = await refusedWrites
    .attempt(task.key, () => repairSecret(task, isAbsent, running))
    .catch((error: unknown) => {
      if (error instanceof TrustTooShort) return error;
      if (error instanceof OutsideConstraints)
        return { kind: 'refused', refusal: { kind: 'constraints', message: error.message } } as const;
      observe('failed', 'Error');
      throw error;
    });
  if (done instanceof TrustTooShort) return await awaitTrust(task, done, running);
  delete known.untrustedSince;
  if (done instanceof WriteRefused || done.kind === 'refused') {
    known.isUnseen = true;
    const refusal =
      done instanceof WriteRefused ? { kind: 'write-refused' as const, message: done.message } : done.refusal;
    return await refuse(task, refusal, running);
  }
  known.isUnseen = !hasLabel(done.secret);
  settle(task, running);
  if (done.kind !== 'unchanged') contended.remember(task.key, history, task.now);
  if (done.missing === undefined) {
    known.checked = checkedOutputs(done.secret, task);
    if (!isContended(history)) reminders.clear(task.key);
  }
  reportDone(task, done, running);
  const answered = await annotateSigned(task, running);
  if (!answered || done.missing !== undefined) return requeueIn(REFUSED_RECHECK_MS, task.now);
  const plan = done.kind === 'issued' ? { kind: 'keep' as const, recheckAt: done.recheckAt } : done.plan;
  return recheck(plan, task, contended.contendedUntil(task.key, task.now));
}

/** The leader records a later end within seconds, unless it cannot write the authority. */
async function awaitTrust(task: ServingCertTask, { message }: TrustTooShort, running: Running) {
  running.extendTrust();
  const since = (knownOf(task.key, running).untrustedSince ??= task.now);
  return task.now.getTime() - since.getTime() < REFUSED_RECHECK_MS
    ? requeueIn(REFUSED_RECHECK_MS, task.now)
    : await refuse(task, { kind: 'trust', message }, running);
}

/** The request is invalid until the Service is edited. Until then its cert is not renewed. */
async function reject(
  { key, service, signal }: Pick<ServingCertTask, 'key' | 'service' | 'signal'>,
  purpose: LeafPurpose,
  { message, via }: Extract<ServingCertRequest, { kind: 'invalid' }>,
  running: Running,
): Promise<ReconcileResult> {
  const { pacer, observe, requests, inventory, serverClock } = running;
  const identity = identityOf(service);
  const now = serverClock.now();
  pacer.forget(key);
  observe('refused', 'InvalidRequest');
  warn({ key, identity, now }, { reason: 'InvalidRequest', message }, running);
  const secretName = requests.claimOf(service, purpose)?.secretName ?? '';
  const secretKey = `${identity.namespace}/${secretName}`;
  if (!isRenewed(secretKey, secretName, service, running)) inventory.stopped(secretKey, 'InvalidRequest');
  if (via === 'openshift') await annotate(service, { kind: 'failed', message }, running, signal);
  return requeueIn(REPEAT_MS, now);
}

/** Whether there is nothing to renew, or another Service or another request of this one renews it. */
function isRenewed(secretKey: string, secretName: string, service: Service, running: Running): boolean {
  const { stores, requests } = running;
  if (stores.secret(secretKey) === undefined) return true;
  if (firstClaim(claimsTo(secretKey, secretName, running))?.name !== service.metadata?.name) return true;
  return LEAF_PURPOSES.some((purpose) => {
    const other = requests.request(service, purpose);
    return other.kind === 'request' && other.secretName === secretName;
  });
}

async function refuse(task: ServingCertTask, refusal: Refusal, running: Running) {
  const { reason, message } = explain(refusal, task.request);
  running.observe('refused', reason);
  running.pacer.forget(task.key);
  // The clock check reports a wrong clock once, and a namespace that is being deleted has no readers.
  const isReported = refusal.kind !== 'clock' && refusal.kind !== 'namespace-ends';
  if (isReported && warn(task, { reason, message }, running)) {
    running.log.warn({ key: task.key, reason, problem: message }, 'serving secret is left as it is');
    const secret = running.stores.secret(secretKeyOf(task));
    if (['write-refused', 'contended'].includes(refusal.kind) && secret !== undefined)
      running.record({ regarding: regardingSecret(secret), type: 'Warning', reason, message });
  }
  if (isReported && task.request.via === 'openshift')
    await annotate(task.service, { kind: 'failed', message }, running, task.signal);
  return requeueIn(REFUSED_RECHECK_MS, task.now);
}

function settle(task: ServingCertTask, { pacer, inventory }: Running): void {
  pacer.forget(task.key);
  inventory.renewed(secretKeyOf(task));
}

function recheck(plan: ServingCertPlan, task: ServingCertTask, calmAt?: Date): ReconcileResult {
  if (plan.kind !== 'keep') return requeueIn(0, task.now);
  const instants = [plan.recheckAt.getTime(), passwordRecheckAt(task), calmAt?.getTime() ?? Infinity];
  return { kind: 'requeue', at: new Date(Math.min(...instants)) };
}

/** Events, log lines and metrics about the cert of a Service. */
function reportDone(
  task: ServingCertTask,
  done: Exclude<RepairResult, { kind: 'refused' }>,
  running: Running,
): void {
  const { observe, record, log } = running;
  const { key, identity, request } = task;
  const { secretName, purpose } = request;
  if (done.kind === 'issued') {
    observe('issued', done.reason);
    log.info({ key, secret: secretName, reason: done.reason }, `issued ${purpose} cert`);
    const reason = eventReasonOf(done.reason);
    const message = `${purpose} cert in secret ${secretName} (${done.reason})`;
    if (reason !== undefined)
      record({ regarding: regardingService(identity), type: 'Normal', reason, message });
  } else if (done.kind === 'updated') {
    log.info({ key, secret: secretName, reason: done.plan.kind }, 'updated serving secret');
  }
  if (done.missing !== undefined) warn(task, explain(done.missing, request), running);
}

/** Reports the state of a Service. Returns whether an Event was recorded now. */
function warn(
  { key, identity, now }: Pick<ServingCertTask, 'key' | 'identity' | 'now'>,
  { reason, message }: Explanation,
  { reminders, record }: Pick<Running, 'reminders' | 'record'>,
): boolean {
  const isDue = reminders.isDue(key, `${identity.uid} ${reason} ${message}`, now);
  if (isDue) record({ regarding: regardingService(identity), type: 'Warning', reason, message });
  return isDue;
}

/** Undefined for a rotation, which would record an Event for each of ten thousand Services. */
function eventReasonOf(reason: IssueReason): 'Renewed' | 'Issued' | undefined {
  if (reason === 'SignerChanged') return undefined;
  return reason === 'RenewalDue' ? 'Renewed' : 'Issued';
}

/** Users of OpenShift's annotations look for the outcome on the Service. */
async function annotateSigned(task: ServingCertTask, context: ServingCertsContext): Promise<boolean> {
  if (task.request.via !== 'openshift') return true;
  const signedBy = signerName(task.authority);
  return await annotate(task.service, { kind: 'signed', signedBy }, context, task.signal);
}

/**
 * The cert is as good without the annotation: returns false if it is not written. The patch applies only to the
 * resourceVersion that was read; `null` removes an annotation.
 */
async function annotate(
  service: Service,
  outcome: OpenshiftOutcome,
  { client, log }: ServingCertsContext,
  signal: AbortSignal,
): Promise<boolean> {
  const annotations = openshiftServiceChange(service.metadata?.annotations ?? {}, outcome);
  if (annotations === undefined) return true;
  const { namespace, name = '', resourceVersion } = service.metadata ?? {};
  const patch = { metadata: { resourceVersion, annotations } };
  const write = () => client.patchMerge(services, { namespace, name }, patch, { signal });
  const key = `${namespace ?? ''}/${name}`;
  return await isWritten(
    () => refusable('deploy/components/openshift-compat', write),
    (problem) => log.warn({ key, problem }, 'a Service is not annotated with the outcome of its request'),
  );
}

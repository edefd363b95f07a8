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
} from '../controller.ts';
import {
  createRefusedWrites,
  REFUSED_RECHECK_MS,
  WriteRefused,
  refusable,
  isWritten,
} from '../write-refused.ts';
import { skewProblem } from '../clock-skew.ts';
import { releaseOrphans, repairSecret, type RepairResult } from './repair-secret.ts';
import {
  explain,
  NOTICES,
  noticesOf,
  regardingSecret,
  type Refusal,
  regardingService,
  type Explanation,
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
  type Known,
  type ServingCertsPass,
  type ServingCertsContext,
  type ServingCertTask,
  signerName,
} from './serving-cert-task.ts';
import { services } from '../../kube/well-known.ts';
import { openshiftServiceChange, type OpenshiftOutcome } from '../../pki/serving-certs/openshift.ts';

function knownOf({ key, known }: ServingCertTask): Known {
  const found = known.get(key) ?? {};
  known.set(key, found);
  return found;
}

export function createServingCertsReconciler(context: ServingCertsContext): Reconcile {
  const { stores, requests, serverClock } = context;
  const signingOf = createSigningCache();
  const known: ServingCertsPass['known'] = new Map();
  const reminders = createReminders();
  const refusedWrites = createRefusedWrites(serverClock.now);
  return async (key, signal) => {
    const service = stores.service(key);
    const authority = context.authority();
    if (!stores.synced() || authority === undefined) return AWAIT_CHANGE; // a change of either causes a resync
    const pass = { ...context, known, reminders, refusedWrites, signal };
    const isRefused = await releaseOrphans(key, service, pass);
    // A failure of one purpose does not keep the other from its cert.
    const results = await Promise.allSettled(
      LEAF_PURPOSES.map(async (purpose) => {
        const taskKey = taskKeyOf(key, purpose);
        const request = service && requests.request(service, purpose);
        if (service === undefined || request === undefined || request.kind === 'none')
          return forget(taskKey, pass);
        if (request.kind === 'invalid') return await reject(taskKey, service, purpose, request, pass);
        const now = serverClock.now();
        const [identity, signing] = [identityOf(service), signingOf(authority, now)];
        const task = { ...pass, key: taskKey, service, identity, request, authority, signing, now };
        for (const notice of noticesOf(request))
          warn({ ...task, key: noticeKey(taskKey, notice.reason) }, notice);
        return await reconcileTask(task);
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

function forget(key: string, pass: ServingCertsPass): ReconcileResult {
  const { known, pacer, refusedWrites, reminders } = pass;
  known.delete(key);
  refusedWrites.over(key);
  pacer.forget(key);
  reminders.clear(key);
  for (const notice of NOTICES) reminders.clear(noticeKey(key, notice));
  return GONE;
}

const noticeKey = (key: string, reason: string): string => `${key}/${reason}`;

async function reconcileTask(task: ServingCertTask): Promise<ReconcileResult> {
  const { stores, inventory, serverClock, pacer, contended } = task;
  const secretKey = secretKeyOf(task);
  const first = firstClaim(claimsTo(secretKey, task.request.secretName, task));
  if (first !== undefined && first.name !== task.identity.name)
    return await refuse(task, { kind: 'taken', by: first.name });

  const stored = stores.secret(secretKey);
  const facts = stored === undefined ? undefined : inventory.factsOf(stored, task.authority);
  const plan = planOf(facts, task);
  if (stored !== undefined && isSettled(stored, task, plan)) {
    task.pacer.forget(task.key);
    const calmAt = contended.contendedUntil(task.key, task.now);
    if (calmAt === undefined && knownOf(task).part === undefined) task.reminders.clear(task.key);
    const answered = await annotateSigned(task);
    return answered ? recheck(plan, task, calmAt) : requeueIn(REFUSED_RECHECK_MS, task.now);
  }
  const problem =
    facts?.kind === 'usable' && needsClock(plan) ? skewProblem(serverClock.skewMs()) : undefined;
  if (problem !== undefined) return await refuse(task, { kind: 'clock', message: problem });
  const attempt = contended.attempt(task.key, signingIdOf(task.signing), task.now);
  if (attempt.kind === 'wait') {
    contended.remember(task.key, attempt.history, task.now);
    return { ...(await refuse(task, { kind: 'contended' })), at: attempt.until };
  }
  const endsAt = facts?.kind === 'usable' ? facts.notAfter : undefined;
  if (isPaced(plan, stored, task) && !pacer.take(task.key, endsAt)) return AWAIT_CHANGE; // the pacer adds the key again
  return await repair(task, stored, attempt.history);
}

const claimsTo = (
  secretKey: string,
  name: string,
  { stores, requests }: Pick<ServingCertsPass, 'stores' | 'requests'>,
) =>
  stores
    .claimants(secretKey)
    .flatMap(requests.claims)
    .filter(({ secretName }) => secretName === name);

function isSettled(stored: StoredSecret, task: ServingCertTask, plan: ServingCertPlan): boolean {
  return (
    plan.kind === 'keep' &&
    stored.summary?.kind === 'usable' &&
    ownership(stored, task.identity, task) === 'ours' &&
    isMarked(stored, task, stored.summary.notAfter) &&
    hasChecked(task.known.get(task.key)?.checked, stored, task)
  );
}

async function repair(
  task: ServingCertTask,
  stored: StoredSecret | undefined,
  history: RevertHistory,
): Promise<ReconcileResult> {
  const { contended, reminders, refusedWrites, observe } = task;
  const known = knownOf(task);
  const isAbsent = stored === undefined && known.isUnseen !== true;
  const done = await refusedWrites
    .attempt(task.key, () => repairSecret(task, isAbsent))
    .catch((error: unknown) => {
      if (error instanceof TrustTooShort) return error;
      if (error instanceof OutsideConstraints)
        return { kind: 'refused', refusal: { kind: 'constraints', message: error.message } } as const;
      observe('failed', 'Error');
      throw error;
    });
  if (done instanceof TrustTooShort) return await awaitTrust(task, done);
  delete known.untrustedSince;
  if (done instanceof WriteRefused || done.kind === 'refused') {
    known.isUnseen = true;
    const refusal =
      done instanceof WriteRefused ? { kind: 'write-refused' as const, message: done.message } : done.refusal;
    return await refuse(task, refusal);
  }
  known.isUnseen = !hasLabel(done.secret);
  task.pacer.forget(task.key);
  const { missing } = done;
  const until = new Date(task.now.getTime() + PART_RECHECK_MS);
  known.part = missing?.kind === 'part' ? { fields: missing.fields, until } : undefined;
  if (done.kind !== 'unchanged') contended.remember(task.key, history, task.now);
  const isComplete = missing === undefined || missing.kind === 'part';
  if (isComplete) known.checked = checkedOutputs(done.secret, task);
  if (missing === undefined && !isContended(history)) reminders.clear(task.key);
  reportDone(task, done);
  const answered = await annotateSigned(task);
  if (!answered || !isComplete) return requeueIn(REFUSED_RECHECK_MS, task.now);
  const plan = done.kind === 'issued' ? { kind: 'keep' as const, recheckAt: done.recheckAt } : done.plan;
  return recheck(plan, task, contended.contendedUntil(task.key, task.now));
}

/** A permission may be granted. Each attempt costs a refused write. */
const PART_RECHECK_MS = 10 * 60_000;

/** The leader records a later end within seconds, unless it cannot write the authority. */
async function awaitTrust(task: ServingCertTask, { message }: TrustTooShort) {
  task.extendTrust();
  const since = (knownOf(task).untrustedSince ??= task.now);
  return task.now.getTime() - since.getTime() < REFUSED_RECHECK_MS
    ? requeueIn(REFUSED_RECHECK_MS, task.now)
    : await refuse(task, { kind: 'trust', message });
}

/** The request is invalid until the Service is edited. Until then its cert is not renewed. */
async function reject(
  key: string,
  service: Service,
  purpose: LeafPurpose,
  { message, via }: Extract<ServingCertRequest, { kind: 'invalid' }>,
  pass: ServingCertsPass,
): Promise<ReconcileResult> {
  const { pacer, observe, serverClock } = pass;
  const identity = identityOf(service);
  const now = serverClock.now();
  pacer.forget(key);
  observe('refused', 'InvalidRequest');
  warn({ ...pass, key, identity, now }, { reason: 'InvalidRequest', message });
  if (via === 'openshift') await annotate(service, { kind: 'failed', message }, pass);
  return requeueIn(REPEAT_MS, now);
}

async function refuse(task: ServingCertTask, refusal: Refusal) {
  const { reason, message } = explain(refusal, task.request);
  task.observe('refused', reason);
  task.pacer.forget(task.key);
  // The clock check reports a wrong clock once, and Events in a namespace that is being deleted are useless.
  const isReported = refusal.kind !== 'clock' && refusal.kind !== 'namespace-ends';
  if (isReported && warn(task, { reason, message })) {
    task.log.warn({ key: task.key, reason, problem: message }, 'serving secret is left as it is');
    const secret = task.stores.secret(secretKeyOf(task));
    if (['write-refused', 'contended'].includes(refusal.kind) && secret !== undefined)
      task.record({ regarding: regardingSecret(secret), type: 'Warning', reason, message });
  }
  if (isReported && task.request.via === 'openshift')
    await annotate(task.service, { kind: 'failed', message }, task);
  return requeueIn(REFUSED_RECHECK_MS, task.now);
}

function recheck(plan: ServingCertPlan, task: ServingCertTask, calmAt?: Date): ReconcileResult {
  if (plan.kind !== 'keep') return requeueIn(0, task.now);
  const { part } = task.known.get(task.key) ?? {};
  const instants = [plan.recheckAt.getTime(), passwordRecheckAt(task)];
  for (const end of [calmAt, part?.until])
    if (end !== undefined && end > task.now) instants.push(end.getTime());
  return { kind: 'requeue', at: new Date(Math.min(...instants)) };
}

function reportDone(task: ServingCertTask, done: Exclude<RepairResult, { kind: 'refused' }>): void {
  const { observe, record, log, key, identity, request } = task;
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
    if (done.plan.kind === 'rewrite') {
      const message =
        `some clients and servers cannot read the text of ${done.plan.keys.join(', ')} in secret ${secretName}: Gatehouse wrote it again. ` +
        'Find the client that changed it in metadata.managedFields of the secret';
      record({ regarding: regardingService(identity), type: 'Warning', reason: 'SecretRepaired', message });
    }
  }
  if (done.missing !== undefined) warn(task, explain(done.missing, request));
}

function warn(
  task: Pick<ServingCertTask, 'key' | 'identity' | 'now' | 'reminders' | 'record'>,
  { reason, message }: Explanation,
): boolean {
  const { key, identity, now, reminders, record } = task;
  const isDue = reminders.isDue(key, `${identity.uid} ${reason} ${message}`, now);
  if (isDue) record({ regarding: regardingService(identity), type: 'Warning', reason, message });
  return isDue;
}

/** Undefined for a rotation, which would record an Event for each of ten thousand Services. */
function eventReasonOf(reason: IssueReason): 'Renewed' | 'Issued' | undefined {
  if (reason === 'SignerChanged') return undefined;
  return reason === 'RenewalDue' ? 'Renewed' : 'Issued';
}

async function annotateSigned(task: ServingCertTask): Promise<boolean> {
  if (task.request.via !== 'openshift') return true;
  const signedBy = signerName(task.authority);
  return await annotate(task.service, { kind: 'signed', signedBy }, task);
}

/** Returns false if it is not written: the cert is as good without. The patch applies only to the version that was read. */
async function annotate(
  service: Service,
  outcome: OpenshiftOutcome,
  { client, log, signal }: Pick<ServingCertsPass, 'client' | 'log' | 'signal'>,
): Promise<boolean> {
  const annotations = openshiftServiceChange(service.metadata?.annotations ?? {}, outcome);
  if (annotations === undefined) return true;
  const { namespace, name = '', resourceVersion } = service.metadata ?? {};
  const patch = { metadata: { resourceVersion, annotations } };
  const write = () => client.patchMerge(services, { namespace, name }, patch, { signal });
  const key = `${namespace ?? ''}/${name}`;
  return await isWritten(
    () => refusable(write),
    (problem) => log.warn({ key, problem }, 'a Service is not annotated with the outcome of its request'),
  );
}

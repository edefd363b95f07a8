/** On the leader: every Service that asks for one has a serving cert in its Secret, whatever happens to that Secret. */
import type { Authority } from '../../pki/authority/authority.ts';
import { firstClaim, type Service, type ServingCertRequest } from '../../pki/serving-certs/request.ts';
import { openshiftServiceChange, type OpenshiftOutcome } from '../../pki/serving-certs/openshift.ts';
import type { StoredSecret } from '../../pki/serving-certs/facts.ts';
import { ownership } from '../../pki/serving-certs/secret.ts';
import type { IssueReason, ServingCertPlan } from '../../pki/serving-certs/plan.ts';
import { AWAIT_CHANGE, GONE, requeueIn, type Reconcile, type ReconcileResult } from '../controller.ts';
import {
  createSigningView,
  identityOf,
  isMarked,
  planOf,
  secretKeyOf,
  signerName,
  waitsForItsTurn,
  type Case,
} from './serving-certs-case.ts';
import type { Leaves } from './serving-certs-leaves.ts';
import { createNotices, regardingSecret, REPEAT_MS, type Notices } from './serving-certs-notices.ts';
import { releaseOrphans, type OrphansDeps } from './serving-certs-orphans.ts';
import { createCheckedOutputs, PASSWORD_RECHECK_MS, type CheckedOutputs } from './serving-certs-outputs.ts';
import type { Pacer } from './serving-certs-pacer.ts';
import { toldOf, type Refusal } from './serving-certs-refusal.ts';
import { repair, type RepairDeps, type RepairResult } from './serving-certs-repair.ts';
import { createRefusedWrites, WriteRefused, type RefusedWrites } from '../write-refused.ts';

export interface ServingCertsDeps extends RepairDeps, OrphansDeps {
  /** Whether both stores are filled: before, nothing can be said about who goes first, or what is there. */
  readonly synced: () => boolean;
  readonly service: (key: string) => Service | undefined;
  readonly request: (service: Service) => ServingCertRequest;
  /** From the store: the Services that lay claim to a Secret (`namespace/name`). */
  readonly claimants: (secretKey: string) => readonly Service[];
  /** From the store: good enough to see that nothing is to be done. */
  readonly storedSecret: (key: string) => StoredSecret | undefined;
  /** Merges into the annotations of the Service if it still has its resourceVersion; `null` removes one. @throws WriteRefused */
  readonly annotateService: (
    service: Service,
    annotations: Readonly<Record<string, string | null>>,
    signal: AbortSignal,
  ) => Promise<unknown>;
  readonly authority: () => Authority | undefined;
  readonly leaves: Pick<Leaves, 'factsOf' | 'stopped' | 'renewed'>;
  readonly pacer: Pick<Pacer, 'take' | 'forget'>;
  readonly observe: (result: 'issued' | 'refused' | 'failed', reason: string) => void;
  readonly now: () => Date;
}

/** A Secret that is not ours sends us no events: it is looked at again after this time, in milliseconds. */
const REFUSED_RECHECK_MS = 60_000;

/** With what is remembered in memory only: a new leader finds all that matters in the objects. */
interface Running extends ServingCertsDeps {
  readonly notices: Notices;
  readonly checked: CheckedOutputs;
  readonly refusedWrites: RefusedWrites;
  /** Services whose Secret exists, although it is not in the store. */
  readonly unseen: Set<string>;
}

export function createServingCertsReconciler(deps: ServingCertsDeps): Reconcile {
  const signingOf = createSigningView();
  const running: Running = {
    ...deps,
    notices: createNotices(deps.record),
    checked: createCheckedOutputs(),
    refusedWrites: createRefusedWrites(deps.now),
    unseen: new Set(),
  };
  return async (key, signal) => {
    const service = deps.service(key);
    const authority = deps.authority();
    if (!deps.synced() || authority === undefined) return AWAIT_CHANGE; // both are told as a change
    await releaseOrphans(key, service, deps, signal);
    if (service === undefined) return rest(key, running);
    const request = deps.request(service);
    switch (request.kind) {
      case 'none':
        return rest(key, running);
      case 'invalid':
        return await reject(service, request, running, signal);
      case 'request': {
        const now = deps.now();
        const identity = identityOf(service);
        const signing = signingOf(authority, now);
        return await serve(
          { key, service, identity, order: request, authority, signing, now },
          running,
          signal,
        );
      }
    }
  };
}

/** It asks for nothing, or is no more. */
function rest(key: string, { pacer, refusedWrites, unseen, checked, notices }: Running): ReconcileResult {
  unseen.delete(key);
  refusedWrites.over(key);
  pacer.forget(key);
  checked.forget(key);
  notices.forget(key);
  return GONE;
}

/** As far as the stores can tell; what is to be written is decided on what the API server holds. */
async function serve(work: Case, running: Running, signal: AbortSignal): Promise<ReconcileResult> {
  const secretKey = secretKeyOf(work);
  const first = firstClaim(running.claimants(secretKey).flatMap((one) => running.claimOf(one) ?? []));
  if (first !== undefined && first.name !== work.identity.name)
    return await refuse(work, { kind: 'taken', by: first.name }, running, signal);

  const stored = running.storedSecret(secretKey);
  const facts = stored === undefined ? undefined : running.leaves.factsOf(stored, work.authority);
  const plan = planOf(facts, work);
  if (stored !== undefined && isSettled(stored, work, plan, running)) {
    settled(work, running);
    running.notices.allWell(work.identity);
    const answered = await answerSigned(work, running, signal);
    return answered ? recheck(plan, work) : requeueIn(REFUSED_RECHECK_MS, work.now);
  }
  const problem = facts?.kind === 'usable' && plan.kind === 'issue' ? running.clockProblem() : undefined;
  if (problem !== undefined) return await refuse(work, { kind: 'clock', message: problem }, running, signal);
  const endsAt = facts?.kind === 'usable' ? facts.notAfter : undefined;
  if (waitsForItsTurn(plan, work) && !running.pacer.take(work.key, endsAt)) return AWAIT_CHANGE; // the pacer calls
  return await mend(work, stored, running, signal);
}

function isSettled(stored: StoredSecret, work: Case, plan: ServingCertPlan, running: Running): boolean {
  return (
    plan.kind === 'keep' &&
    stored.sketch?.kind === 'usable' &&
    ownership(stored, work.identity, running) === 'ours' &&
    isMarked(stored, work, stored.sketch.notAfter) &&
    running.checked.holds(stored, work)
  );
}

async function mend(
  work: Case,
  stored: StoredSecret | undefined,
  running: Running,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const { notices, checked, unseen } = running;
  const isAbsent = stored === undefined && !unseen.has(work.key);
  const done = await observed(work.key, running, () => repair(work, isAbsent, running, signal));
  if (done.kind === 'refused') {
    unseen.add(work.key);
    return await refuse(work, done.refusal, running, signal);
  }
  unseen.delete(work.key);
  settled(work, running);
  if (done.missing === undefined) {
    checked.add(done.secret, work);
    notices.allWell(work.identity);
  }
  report(work, done, running);
  const answered = await answerSigned(work, running, signal);
  if (!answered || done.missing !== undefined) return requeueIn(REFUSED_RECHECK_MS, work.now);
  return done.kind === 'issued' ? AWAIT_CHANGE : recheck(done.plan, work);
}

/** Only an edit of the Service mends it, and until then its cert is not renewed. */
async function reject(
  service: Service,
  { message, via }: Extract<ServingCertRequest, { kind: 'invalid' }>,
  deps: Running,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const identity = identityOf(service);
  const now = deps.now();
  deps.pacer.forget(`${identity.namespace}/${identity.name}`);
  deps.observe('refused', 'InvalidRequest');
  deps.notices.warn(identity, 'InvalidRequest', message, now);
  const secretKey = `${identity.namespace}/${deps.claimOf(service)?.secretName ?? ''}`;
  if (deps.storedSecret(secretKey) !== undefined) deps.leaves.stopped(secretKey, 'InvalidRequest');
  if (via === 'openshift') await annotate(service, { kind: 'failed', message }, deps, signal);
  return requeueIn(REPEAT_MS, now);
}

async function refuse(
  work: Case,
  refusal: Refusal,
  deps: Running,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const { reason, message } = toldOf(refusal, work.order.secretName);
  deps.observe('refused', reason);
  deps.pacer.forget(work.key);
  // A wrong clock is told once, by whoever watches it; and nobody reads about a namespace that is going.
  const forPeople = refusal.kind !== 'clock' && refusal.kind !== 'namespace-ends';
  if (forPeople && deps.notices.warn(work.identity, reason, message, work.now)) {
    deps.log.warn({ key: work.key, reason, problem: message }, 'serving secret is left as it is');
    const secret = deps.storedSecret(secretKeyOf(work));
    if (refusal.kind === 'write-refused' && secret !== undefined)
      deps.record({ regarding: regardingSecret(secret), type: 'Warning', reason, message });
  }
  if (forPeople && work.order.via === 'openshift')
    await annotate(work.service, { kind: 'failed', message }, deps, signal);
  return requeueIn(REFUSED_RECHECK_MS, work.now);
}

function settled(work: Case, deps: ServingCertsDeps): void {
  deps.pacer.forget(work.key);
  deps.leaves.renewed(secretKeyOf(work));
}

function report(
  { key, identity, order, now }: Case,
  done: Exclude<RepairResult, { kind: 'refused' }>,
  { notices, ...deps }: Running,
): void {
  if (done.kind === 'issued') {
    deps.observe('issued', done.reason);
    deps.log.info({ key, secret: order.secretName, reason: done.reason }, 'issued serving cert');
    const word = wordFor(done.reason);
    const message = `serving cert in secret ${order.secretName} (${done.reason})`;
    if (word !== undefined) notices.tell(identity, 'Normal', word, message);
  } else if (done.kind === 'mended') {
    deps.log.info({ key, secret: order.secretName, reason: done.plan.kind }, 'mended serving secret');
  }
  if (done.missing !== undefined) {
    const { reason, message } = toldOf(done.missing, order.secretName);
    notices.warn(identity, reason, message, now);
  }
}

/** A rotation is one thing that happens to the cluster, and not ten thousand: nobody reads as many Events. */
function wordFor(reason: IssueReason): string | undefined {
  if (reason === 'SignerChanged' || reason === 'ChainChanged') return undefined;
  return reason === 'RenewalDue' ? 'Renewed' : 'Issued';
}

async function observed(
  key: string,
  { refusedWrites, observe }: Running,
  work: () => Promise<RepairResult>,
): Promise<RepairResult> {
  try {
    const result = await work();
    refusedWrites.over(key);
    return result;
  } catch (error) {
    if (refusedWrites.isConfirmed(key, error))
      return { kind: 'refused', refusal: { kind: 'write-refused', message: error.message } };
    observe('failed', 'Error');
    throw error;
  }
}

/** Whether the answer stands where it is looked for. */
async function answerSigned(work: Case, deps: ServingCertsDeps, signal: AbortSignal): Promise<boolean> {
  if (work.order.via !== 'openshift') return true;
  return await annotate(work.service, { kind: 'signed', signedBy: signerName(work.authority) }, deps, signal);
}

/** Whoever asks in OpenShift's way looks for the answer on the Service. Without it, the cert is as good. */
async function annotate(
  service: Service,
  outcome: OpenshiftOutcome,
  deps: ServingCertsDeps,
  signal: AbortSignal,
): Promise<boolean> {
  const change = openshiftServiceChange(service.metadata?.annotations ?? {}, outcome);
  if (change === undefined) return true;
  try {
    await deps.annotateService(service, change, signal);
    return true;
  } catch (error) {
    if (!(error instanceof WriteRefused)) throw error;
    const { namespace, name } = identityOf(service);
    deps.log.warn(
      { key: `${namespace}/${name}`, problem: error.message },
      'a Service is not told about its cert',
    );
    return false;
  }
}

function recheck(plan: ServingCertPlan, { order, now }: Case): ReconcileResult {
  if (plan.kind !== 'keep') return requeueIn(0, now);
  const look = requeueIn(PASSWORD_RECHECK_MS, now);
  const passwordFirst =
    order.keystorePassword !== undefined && look.kind === 'requeue' && look.at < plan.recheckAt;
  return passwordFirst ? look : { kind: 'requeue', at: plan.recheckAt };
}

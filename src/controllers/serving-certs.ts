/** On the leader: every Service that asks for one has a serving cert in its Secret, whatever happens to that Secret. */
import type { Authority } from '../pki/authority.ts';
import { firstClaim } from '../pki/secret-claim.ts';
import { openshiftServiceChange, type OpenshiftOutcome } from '../pki/secret-openshift.ts';
import type { StoredSecret } from '../pki/secret-sketch.ts';
import { ownership } from '../pki/secret.ts';
import type { IssueReason, ServingCertPlan } from '../pki/serving-cert-plan.ts';
import type { Service, ServingCertRequest } from '../pki/serving-cert-request.ts';
import { AWAIT_CHANGE, requeueIn, type Reconcile, type ReconcileResult } from './reconcile.ts';
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
import { createNotices, REPEAT_MS, type Notices } from './serving-certs-notices.ts';
import { releaseOrphans, type OrphansDeps } from './serving-certs-orphans.ts';
import { createCheckedOutputs, PASSWORD_RECHECK_MS } from './serving-certs-outputs.ts';
import type { Pacer } from './serving-certs-pacer.ts';
import { toldOf, type Refusal } from './serving-certs-refusal.ts';
import { repair, type RepairDeps, type RepairResult } from './serving-certs-repair.ts';

export interface ServingCertsDeps extends RepairDeps, OrphansDeps {
  /** Whether both stores are filled: before, nothing can be said about who goes first, or what is there. */
  readonly synced: () => boolean;
  readonly service: (key: string) => Service | undefined;
  readonly request: (service: Service) => ServingCertRequest;
  /** From the store: the Services that lay claim to a Secret (`namespace/name`). */
  readonly claimants: (secretKey: string) => readonly Service[];
  /** From the store: good enough to see that nothing is to be done. */
  readonly storedSecret: (key: string) => StoredSecret | undefined;
  /** Merges into the annotations of the Service if it still has its resourceVersion; `null` removes one. */
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

export function createServingCertsReconciler(deps: ServingCertsDeps): Reconcile {
  const signingOf = createSigningView();
  const notices = createNotices(deps.record);
  const checked = createCheckedOutputs();
  /** Services whose Secret exists, although it is not in the store. */
  const unseen = new Set<string>();

  const isSettled = (stored: StoredSecret, work: Case, plan: ServingCertPlan): boolean =>
    plan.kind === 'keep' &&
    stored.sketch?.kind === 'usable' &&
    ownership(stored, work.identity, deps) === 'ours' &&
    isMarked(stored, work, stored.sketch.notAfter) &&
    checked.holds(stored, work);

  const serve = async (work: Case, signal: AbortSignal): Promise<ReconcileResult> => {
    const secretKey = secretKeyOf(work);
    const claims = deps.claimants(secretKey).flatMap((one) => deps.claimOf(one) ?? []);
    const first = firstClaim(claims);
    if (first !== undefined && first.name !== work.identity.name)
      return await refuse(work, { kind: 'taken', by: first.name }, deps, notices, signal);

    const stored = deps.storedSecret(secretKey);
    const facts = stored === undefined ? undefined : deps.leaves.factsOf(stored, work.authority);
    const plan = planOf(facts, work);
    if (stored !== undefined && isSettled(stored, work, plan)) {
      settled(work, deps);
      notices.allWell(work.identity);
      await answerSigned(work, deps, signal);
      return recheck(plan, work);
    }
    const problem = facts?.kind === 'usable' && plan.kind === 'issue' ? deps.clockProblem() : undefined;
    if (problem !== undefined)
      return await refuse(work, { kind: 'clock', message: problem }, deps, notices, signal);
    const endsAt = facts?.kind === 'usable' ? facts.notAfter : undefined;
    if (waitsForItsTurn(plan, work) && !deps.pacer.take(work.key, endsAt)) return AWAIT_CHANGE; // the pacer calls

    const isAbsent = stored === undefined && !unseen.has(work.key);
    const done = await observed(deps, () => repair(work, isAbsent, deps, signal));
    if (done.kind === 'refused') {
      unseen.add(work.key);
      return await refuse(work, done.refusal, deps, notices, signal);
    }
    unseen.delete(work.key);
    settled(work, deps);
    if (done.missing === undefined) {
      checked.add(done.secret, work);
      notices.allWell(work.identity);
    }
    report(work, done, deps, notices);
    await answerSigned(work, deps, signal);
    if (done.missing !== undefined) return requeueIn(REFUSED_RECHECK_MS, work.now);
    return done.kind === 'issued' ? AWAIT_CHANGE : recheck(done.plan, work);
  };

  const rest = (key: string): ReconcileResult => {
    unseen.delete(key);
    deps.pacer.forget(key);
    return AWAIT_CHANGE;
  };

  return async (key, signal) => {
    const service = deps.service(key);
    const authority = deps.authority();
    if (!deps.synced() || authority === undefined) return AWAIT_CHANGE; // both are told as a change
    await releaseOrphans(key, service, deps, signal);
    if (service === undefined) return rest(key);
    const request = deps.request(service);
    switch (request.kind) {
      case 'none':
        return rest(key);
      case 'invalid':
        return await reject(service, request, deps, notices, signal);
      case 'request': {
        const now = deps.now();
        const identity = identityOf(service);
        const signing = signingOf(authority, now);
        return await serve({ key, service, identity, order: request, authority, signing, now }, signal);
      }
    }
  };
}

/** Only an edit of the Service mends it, and until then its cert is not renewed. */
async function reject(
  service: Service,
  { message, via }: Extract<ServingCertRequest, { kind: 'invalid' }>,
  deps: ServingCertsDeps,
  notices: Notices,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const identity = identityOf(service);
  const now = deps.now();
  deps.pacer.forget(`${identity.namespace}/${identity.name}`);
  deps.observe('refused', 'InvalidRequest');
  notices.warn(identity, 'InvalidRequest', message, now);
  const secretKey = `${identity.namespace}/${deps.claimOf(service)?.secretName ?? ''}`;
  if (deps.storedSecret(secretKey) !== undefined) deps.leaves.stopped(secretKey, 'InvalidRequest');
  if (via === 'openshift') await annotate(service, { kind: 'failed', message }, deps, signal);
  return requeueIn(REPEAT_MS, now);
}

async function refuse(
  work: Case,
  refusal: Refusal,
  deps: ServingCertsDeps,
  notices: Notices,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const { reason, message } = toldOf(refusal, work.order.secretName);
  deps.observe('refused', reason);
  deps.pacer.forget(work.key);
  // A wrong clock is told once, by whoever watches it; and nobody reads about a namespace that is going.
  const forPeople = refusal.kind !== 'clock' && refusal.kind !== 'namespace-ends';
  if (forPeople) notices.warn(work.identity, reason, message, work.now);
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
  deps: ServingCertsDeps,
  notices: Notices,
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

async function observed(deps: ServingCertsDeps, work: () => Promise<RepairResult>): Promise<RepairResult> {
  try {
    return await work();
  } catch (error) {
    deps.observe('failed', 'Error');
    throw error;
  }
}

async function answerSigned(work: Case, deps: ServingCertsDeps, signal: AbortSignal): Promise<void> {
  if (work.order.via !== 'openshift') return;
  await annotate(work.service, { kind: 'signed', signedBy: signerName(work.authority) }, deps, signal);
}

/** Whoever asks in OpenShift's way looks for the answer on the Service. */
async function annotate(
  service: Service,
  outcome: OpenshiftOutcome,
  deps: ServingCertsDeps,
  signal: AbortSignal,
): Promise<void> {
  const change = openshiftServiceChange(service.metadata?.annotations ?? {}, outcome);
  if (change !== undefined) await deps.annotateService(service, change, signal);
}

function recheck(plan: ServingCertPlan, { order, now }: Case): ReconcileResult {
  if (plan.kind !== 'keep') return requeueIn(0, now);
  const look = requeueIn(PASSWORD_RECHECK_MS, now);
  const passwordFirst =
    order.keystorePassword !== undefined && look.kind === 'requeue' && look.at < plan.recheckAt;
  return passwordFirst ? look : { kind: 'requeue', at: plan.recheckAt };
}

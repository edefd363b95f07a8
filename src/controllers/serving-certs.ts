/** On the leader: every Service that asks for one has a serving cert in its Secret, whatever happens to that Secret. */
import { isDeepStrictEqual } from 'node:util';

import type { Authority } from '../pki/authority.ts';
import type { KeyAlgorithm, KeyPair } from '../pki/keys.ts';
import {
  ownership,
  withBundle,
  withMarks,
  withServingCert,
  type Secret,
  type SecretOwnership,
  type ServiceIdentity,
} from '../pki/secret.ts';
import { readServingCert } from '../pki/serving-cert-facts.ts';
import { planServingCert, type ServingCertPlan } from '../pki/serving-cert-plan.ts';
import type { Service, ServingCertRequest } from '../pki/serving-cert-request.ts';
import { issueServingCert } from '../pki/serving-cert.ts';
import { signingOf } from '../pki/signing.ts';
import { AWAIT_CHANGE, requeueIn, type Log, type Reconcile, type RecordEvent } from './reconcile.ts';

export interface ServingCertsDeps {
  readonly service: (key: string) => Service | undefined;
  readonly request: (service: Service) => ServingCertRequest;
  /** From the store: good enough to see that nothing is to be done. */
  readonly storedSecret: (key: string) => Secret | undefined;
  /** From the API server: what is written is decided on this. */
  readonly readSecret: (namespace: string, name: string, signal: AbortSignal) => Promise<Secret | undefined>;
  readonly createSecret: (secret: Secret, signal: AbortSignal) => Promise<unknown>;
  /** Writes the Secret if it still has the resourceVersion in its metadata. */
  readonly replaceSecret: (secret: Secret, signal: AbortSignal) => Promise<unknown>;
  readonly authority: () => Authority | undefined;
  readonly generateKeyPair: (algorithm: KeyAlgorithm) => Promise<KeyPair>;
  readonly randomSerial: () => Uint8Array;
  readonly record: RecordEvent;
  readonly now: () => Date;
  readonly log: Log;
}

type Order = Extract<ServingCertRequest, { kind: 'request' }>;

/** What one pass works on. */
interface Case {
  readonly key: string;
  readonly identity: ServiceIdentity;
  readonly order: Order;
  readonly authority: Authority;
  readonly now: Date;
}

/** A Secret that is not ours sends us no events: it is looked at again after this time, in milliseconds. */
const REFUSED_RECHECK_MS = 60_000;

export function createServingCertsReconciler(deps: ServingCertsDeps): Reconcile {
  return async (key, signal) => {
    const service = deps.service(key);
    const authority = deps.authority();
    if (service === undefined || authority === undefined) return AWAIT_CHANGE; // both come back as a change
    const identity = identityOf(service);
    const request = deps.request(service);
    if (request.kind === 'none') return AWAIT_CHANGE;
    if (request.kind === 'invalid') {
      record(identity, 'Warning', 'InvalidRequest', request.message, deps);
      return AWAIT_CHANGE; // only an edit of the Service mends it
    }
    const work: Case = { key, identity, order: request, authority, now: deps.now() };
    const stored = deps.storedSecret(`${identity.namespace}/${request.secretName}`);
    if (stored !== undefined && isSettled(stored, work)) return recheck(plan(stored, work), work.now);
    return await repair(work, deps, signal);
  };
}

/** Decides again on what the API server holds, and writes at most once. */
async function repair(work: Case, deps: ServingCertsDeps, signal: AbortSignal) {
  const { key, identity, order, now } = work;
  const live = await deps.readSecret(identity.namespace, order.secretName, signal);
  const owner = live === undefined ? 'ours' : ownership(live, identity);
  if (owner !== 'ours') {
    record(identity, 'Warning', ...refusal(owner, order.secretName), deps);
    return requeueIn(REFUSED_RECHECK_MS, now);
  }
  const next = plan(live, work);
  switch (next.kind) {
    case 'issue': {
      const secret = await issue(live, work, deps);
      await (live === undefined ? deps.createSecret(secret, signal) : deps.replaceSecret(secret, signal));
      deps.log.info({ key, secret: order.secretName, reason: next.reason }, 'issued serving cert');
      const reason = next.reason === 'RenewalDue' ? 'Renewed' : 'Issued';
      record(identity, 'Normal', reason, `serving cert in secret ${order.secretName} (${next.reason})`, deps);
      return AWAIT_CHANGE;
    }
    case 'refresh-bundle':
    case 'keep': {
      if (live === undefined) return AWAIT_CHANGE; // there is nothing to keep: the plan is to issue
      const refreshed = next.kind === 'keep' ? live : withBundle(live, signingOf(work.authority, now).bundle);
      const secret = withMarks(refreshed, identity, order.labels);
      if (!isDeepStrictEqual(secret, live)) {
        await deps.replaceSecret(secret, signal);
        deps.log.info({ key, secret: order.secretName, reason: next.kind }, 'mended serving secret');
      }
      return recheck(next, now);
    }
  }
}

async function issue(
  existing: Secret | undefined,
  { identity, order, authority, now }: Case,
  deps: ServingCertsDeps,
): Promise<Secret> {
  const keyPair = await deps.generateKeyPair(order.algorithm);
  const { dnsNames, lifetimeMs, secretName, labels = {} } = order;
  const { chain } = issueServingCert({
    authority,
    dnsNames,
    keyPair,
    serial: deps.randomSerial(),
    now,
    lifetimeMs,
  });
  const { bundle } = signingOf(authority, now);
  return withServingCert(existing, {
    service: identity,
    labels,
    secretName,
    chain,
    privateKey: keyPair.privateKey,
    bundle,
  });
}

function plan(secret: Secret | undefined, { identity, order, authority, now }: Case): ServingCertPlan {
  return planServingCert({
    now,
    serviceUid: identity.uid,
    dnsNames: order.dnsNames,
    algorithm: order.algorithm,
    signing: signingOf(authority, now),
    current: readServingCert(secret?.data, authority),
  });
}

function isSettled(secret: Secret, work: Case): boolean {
  return (
    ownership(secret, work.identity) === 'ours' &&
    plan(secret, work).kind === 'keep' &&
    isDeepStrictEqual(withMarks(secret, work.identity, work.order.labels), secret)
  );
}

function recheck(plan: ServingCertPlan, now: Date) {
  return plan.kind === 'keep' ? ({ kind: 'requeue', at: plan.recheckAt } as const) : requeueIn(0, now);
}

function refusal(owner: Exclude<SecretOwnership, 'ours'>, name: string): [reason: string, message: string] {
  switch (owner) {
    case 'foreign':
      return [
        'ForeignSecret',
        `secret ${name} belongs to someone else and is left alone: name another one, or delete it`,
      ];
    case 'wrong-type':
      return [
        'SecretTypeConflict',
        `secret ${name} is not of type kubernetes.io/tls, which cannot be changed: delete it`,
      ];
    case 'immutable':
      return ['SecretImmutable', `secret ${name} is immutable: delete it, and it will be made again`];
  }
}

function identityOf({ metadata }: Service): ServiceIdentity {
  return { namespace: metadata?.namespace ?? '', name: metadata?.name ?? '', uid: metadata?.uid ?? '' };
}

function record(
  { namespace, name, uid }: ServiceIdentity,
  type: 'Normal' | 'Warning',
  reason: string,
  message: string,
  deps: Pick<ServingCertsDeps, 'record'>,
): void {
  deps.record({
    regarding: { apiVersion: 'v1', kind: 'Service', namespace, name, uid },
    type,
    reason,
    message,
  });
}

/** One Service with a valid request, and how its Secret is measured. */
import { isDeepStrictEqual } from 'node:util';

import { activeGeneration, type Authority } from '../../pki/authority/authority.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import { openshiftSecretMarks } from '../../pki/serving-certs/openshift.ts';
import {
  withMarks,
  writtenOutputs,
  type ExtraMarks,
  type Secret,
  type ServiceIdentity,
} from '../../pki/serving-certs/secret.ts';
import type { ServingCertFacts } from '../../pki/serving-certs/facts.ts';
import { planServingCert, type IssueReason, type ServingCertPlan } from '../../pki/serving-certs/plan.ts';
import type { AcceptedRequest, Service } from '../../pki/serving-certs/request.ts';
import { signingOf, type Signing } from '../../pki/authority/bundle.ts';

export interface Case {
  /** Of the Service: `namespace/name`. */
  readonly key: string;
  readonly service: Service;
  readonly identity: ServiceIdentity;
  readonly order: AcceptedRequest;
  readonly authority: Authority;
  /** Of `authority`, at `now`. */
  readonly signing: Signing;
  readonly now: Date;
}

export const secretKeyOf = ({ identity, order }: Pick<Case, 'identity' | 'order'>): string =>
  `${identity.namespace}/${order.secretName}`;

export function identityOf({ metadata }: Service): ServiceIdentity {
  return { namespace: metadata?.namespace ?? '', name: metadata?.name ?? '', uid: metadata?.uid ?? '' };
}

export function planOf(
  facts: ServingCertFacts | undefined,
  { identity, order, signing, now }: Case,
): ServingCertPlan {
  return planServingCert({
    now,
    serviceUid: identity.uid,
    dnsNames: order.dnsNames,
    algorithm: order.algorithm,
    signing,
    current: facts,
  });
}

/**
 * What a change of the authority or of the clock brings about for all certs at once, so that they have to take turns; and what
 * nobody notices for some minutes, because the chain and the bundle before it still hold.
 */
const IN_TURN: ReadonlySet<IssueReason> = new Set<IssueReason>([
  'SignerChanged',
  'ChainChanged',
  'RenewalDue',
]);

export function waitsForItsTurn(plan: ServingCertPlan, { order }: Case): boolean {
  if (order.own === true) return false; // the API server calls us by it: it goes first
  return plan.kind === 'refresh-bundle' || (plan.kind === 'issue' && IN_TURN.has(plan.reason));
}

/** What the Secret has to carry beside our own marks, if it holds this cert. */
export function extraMarks({ identity, order }: Case, notAfter: Date | undefined): ExtraMarks {
  const { labels, via } = order;
  return via === 'openshift' && notAfter !== undefined
    ? { labels, annotations: openshiftSecretMarks(identity, notAfter) }
    : { labels };
}

/** Whether marks and outputs are those that should stand there; the content of the outputs is not looked at. */
export function isMarked(secret: Secret, work: Case, notAfter: Date): boolean {
  return (
    writtenOutputs(secret).join() === work.order.outputs.join() &&
    isDeepStrictEqual(withMarks(secret, work.identity, extraMarks(work, notAfter)), secret)
  );
}

/** The measure of thousands of Secrets, worked out once per authority, and again when one of its certificates ends. */
export function createSigningView(): (authority: Authority, now: Date) => Signing {
  let known: { readonly authority: Authority; readonly madeAt: Date; readonly signing: Signing } | undefined;
  return (authority, now) => {
    const holds = known?.authority === authority && now >= known.madeAt && now < known.signing.validUntil;
    if (known === undefined || !holds) known = { authority, madeAt: now, signing: signingOf(authority, now) };
    return known.signing;
  };
}

/** The common name of the CA, as OpenShift's users know it. */
export function signerName(authority: Authority): string {
  const { subject } = rootOf(activeGeneration(authority));
  return /^CN=(.*)$/m.exec(subject)?.[1] ?? subject;
}

import { createHash } from 'node:crypto';
import { after, earliest, HOUR } from '../durations.ts';
import type { KeyAlgorithm } from '../x509/keys.ts';
import { fingerprintsOf } from '../x509/pem.ts';
import { latestServingCertEnd } from './issue.ts';
import type { ServingCertFacts, UnusableReason, UsableServingCert } from './facts.ts';
import type { Signing } from '../authority/bundle.ts';

export interface ServingCertState {
  readonly now: Date;
  readonly serviceUid: string;
  /** What the Service asks for. */
  readonly dnsNames: readonly string[];
  readonly algorithm: KeyAlgorithm;
  /** Made at the same `now`. */
  readonly signing: Signing;
  /** What is in its Secret. */
  readonly current: ServingCertFacts | undefined;
}

export type IssueReason = 'Missing' | UnusableReason | (typeof CHECKS)[number]['reason'];

export type ServingCertPlan =
  | { readonly kind: 'keep'; readonly recheckAt: Date }
  | { readonly kind: 'issue'; readonly reason: IssueReason }
  /** The cert is good; only `ca.crt` beside it is not the CA bundle of today. */
  | { readonly kind: 'refresh-bundle' };

type When = (cert: UsableServingCert, state: ServingCertState) => boolean;

/** Why a cert that can be used is replaced. The first that applies is the reason that people get to see. */
const CHECKS = [
  { reason: 'SignerChanged', when: (cert, { signing }) => cert.signedBy !== signing.generationId },
  { reason: 'DnsNamesChanged', when: (cert, { dnsNames }) => !sameNames(cert.dnsNames, dnsNames) },
  { reason: 'AlgorithmChanged', when: (cert, { algorithm }) => cert.algorithm !== algorithm },
  {
    reason: 'ChainChanged',
    when: (cert, { signing }) => cert.bridges.join() !== fingerprintsIn(signing).bridges,
  },
  { reason: 'NotYetValid', when: beginsFarAhead },
  { reason: 'RenewalDue', when: isRenewalDue },
] as const satisfies readonly { readonly reason: string; readonly when: When }[];

/** What to do about a serving cert, judged from `state` alone: no clock, no I/O. */
export function planServingCert(state: ServingCertState): ServingCertPlan {
  const { current, signing } = state;
  if (current === undefined) return { kind: 'issue', reason: 'Missing' };
  if (current.kind === 'unusable') return { kind: 'issue', reason: current.reason };

  const broken = CHECKS.find(({ when }) => when(current, state));
  if (broken !== undefined) return { kind: 'issue', reason: broken.reason };
  if (current.bundle !== fingerprintsIn(signing).bundle) return { kind: 'refresh-bundle' };
  return { kind: 'keep', recheckAt: recheckTime(current, state) };
}

interface Fingerprints {
  readonly bridges: string;
  readonly bundle: string | undefined;
}

/** One authority is the measure of thousands of certs: its side of the comparison is worked out once. */
const fingerprints = new WeakMap<Signing, Fingerprints>();

function fingerprintsIn(signing: Signing): Fingerprints {
  const known = fingerprints.get(signing) ?? {
    bridges: signing.bridges.map((bridge) => fingerprintsOf(bridge)).join(),
    bundle: fingerprintsOf(signing.bundle),
  };
  fingerprints.set(signing, known);
  return known;
}

function sameNames(a: readonly string[], b: readonly string[]): boolean {
  const [left, right] = [new Set(a), new Set(b)];
  return left.size === right.size && [...left].every((name) => right.has(name));
}

/** Replicas and nodes may disagree by this much without anybody's clock being wrong. */
const CLOCK_TOLERANCE = HOUR;

/**
 * The cert was made by a clock far ahead of ours. If by our clock the authority itself does not exist yet, it is our clock that is
 * behind: a cert made now could be expired for everybody else, so the one there is kept.
 */
function beginsFarAhead({ notBefore }: UsableServingCert, { now, signing }: ServingCertState): boolean {
  return notBefore > after(now, CLOCK_TOLERANCE) && now >= signing.notBefore;
}

/**
 * A cert that already reaches as far as its authority is not renewed: the new one would end at the same time and be due again at
 * once. Once expired it is, so that the attempt fails with the true cause.
 */
function isRenewalDue(cert: UsableServingCert, state: ServingCertState): boolean {
  const { now, signing } = state;
  if (now < renewalTime(cert, state.serviceUid)) return false;
  return now >= cert.notAfter || cert.notAfter < latestServingCertEnd(signing.notAfter);
}

/**
 * A third of the life and more stays in hand, so that an outage has to last for days before it hurts. The jitter (up to a tenth
 * of the life) spreads certs made in one minute; it comes from the uid, so a restart does not draw it again.
 */
export function renewalTime(
  { notBefore, notAfter }: Pick<UsableServingCert, 'notBefore' | 'notAfter'>,
  serviceUid: string,
): Date {
  const life = notAfter.getTime() - notBefore.getTime();
  const jitter = 0.1 * fractionOf(serviceUid);
  return after(notBefore, Math.floor(life * (2 / 3 - jitter)));
}

/** A number from 0 up to 1 that belongs to `text`. */
function fractionOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0) / 2 ** 32;
}

/** When time alone will change the plan: the first instant ahead at which a check may turn out otherwise. */
function recheckTime(cert: UsableServingCert, { now, serviceUid, signing }: ServingCertState): Date {
  const instants = [renewalTime(cert, serviceUid), cert.notAfter, signing.validUntil, signing.notBefore];
  const ahead = instants.filter((instant) => instant > now);
  return ahead.length === 0 ? after(now, HOUR) : earliest(...ahead);
}

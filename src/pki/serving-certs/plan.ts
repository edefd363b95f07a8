import { createHash } from 'node:crypto';
import { memoizeWeak } from '../../json/json.ts';
import { after, earliest, HOUR, MINUTE, CLOCK_TOLERANCE } from '../durations.ts';
import type { LeafPurpose } from '../x509/certificate-fields.ts';
import type { KeyAlgorithm } from '../x509/keys.ts';
import { fingerprintsOf } from '../x509/pem.ts';
import { issueTime, latestServingCertEnd, servingCertEnd } from './issue.ts';
import type { ServingCertFacts, UnusableReason, UsableServingCert } from './facts.ts';
import type { Signing } from '../authority/authority.ts';

export interface ServingCertState {
  readonly now: Date;
  readonly serviceUid: string;
  readonly purpose: LeafPurpose;
  readonly dnsNames: readonly string[];
  readonly addresses: readonly string[];
  readonly algorithm: KeyAlgorithm;
  readonly lifetimeMs: number;
  readonly renewAfter: number;
  readonly signing: Signing;
  readonly current: ServingCertFacts | undefined;
}

export type IssueReason = 'Missing' | UnusableReason | (typeof CHECKS)[number]['reason'];

export type ServingCertPlan =
  | { readonly kind: 'keep'; readonly recheckAt: Date }
  | { readonly kind: 'issue'; readonly reason: IssueReason }
  /** Some clients cannot read the text of these keys. Their content stays. */
  | { readonly kind: 'rewrite'; readonly keys: readonly string[] }
  /** The leaf is good, but its chain is not the current one. The leaf and its key stay. */
  | { readonly kind: 'rechain' }
  /** The chain is good, but `ca.crt` is not the current CA bundle. */
  | { readonly kind: 'refresh-bundle' };

type When = (cert: UsableServingCert, state: ServingCertState) => boolean;

/** Why a usable cert is replaced. Users see the reason of the first check that applies. */
const CHECKS = [
  { reason: 'SignerChanged', when: (cert, { signing }) => cert.signedBy !== signing.generationId },
  { reason: 'WrongUsage', when: (cert, { purpose }) => cert.purpose !== purpose },
  { reason: 'DnsNamesChanged', when: (cert, { dnsNames }) => !sameNames(cert.dnsNames, dnsNames) },
  { reason: 'AddressesChanged', when: (cert, { addresses }) => !sameNames(cert.addresses, addresses) },
  { reason: 'AlgorithmChanged', when: (cert, { algorithm }) => cert.algorithm !== algorithm },
  { reason: 'NotYetValid', when: startsInFuture },
  { reason: 'RenewalDue', when: isRenewalDue },
  { reason: 'DurationChanged', when: hasOtherDuration },
] as const satisfies readonly { readonly reason: string; readonly when: When }[];

export function planServingCert(state: ServingCertState): ServingCertPlan {
  const { current, signing } = state;
  if (current === undefined) return { kind: 'issue', reason: 'Missing' };
  if (current.kind === 'unusable') return { kind: 'issue', reason: current.reason };

  const broken = CHECKS.find(({ when }) => when(current, state));
  if (broken !== undefined) return { kind: 'issue', reason: broken.reason };
  if (current.damaged.length > 0) return { kind: 'rewrite', keys: current.damaged };
  if (current.bridges.join() !== fingerprintsIn(signing).bridges) return { kind: 'rechain' };
  if (current.bundle !== fingerprintsIn(signing).bundle) return { kind: 'refresh-bundle' };
  return { kind: 'keep', recheckAt: recheckTime(current, state) };
}

const fingerprintsIn = memoizeWeak(({ bridges, bundle }: Signing) => ({
  bridges: bridges.map(fingerprintsOf).join(),
  bundle: fingerprintsOf(bundle),
}));

function sameNames(a: readonly string[], b: readonly string[]): boolean {
  const [left, right] = [new Set(a), new Set(b)];
  return left.size === right.size && [...left].every((name) => right.has(name));
}

/** A clock far ahead made the cert. But if ours is before the start of the authority, ours is behind: the cert stays. */
function startsInFuture({ notBefore }: UsableServingCert, { now, signing }: ServingCertState): boolean {
  return notBefore > after(now, CLOCK_TOLERANCE) && now >= signing.notBefore;
}

/** A cert that lasts as long as its authority allows stays, until it is expired and an attempt fails with the real cause. */
function isRenewalDue(cert: UsableServingCert, state: ServingCertState): boolean {
  const { now, signing } = state;
  if (now < renewalTime(cert, state)) return false;
  return now >= cert.notAfter || cert.notAfter < latestServingCertEnd(signing.notAfter);
}

/** Version 0.1 back-dated certs by 30 minutes less. An upgrade must not replace all of them. */
const SAME_DURATION = 31 * MINUTE;

/** A cert that ends sooner than the Service asks because its CA ends stays: a new one would end at the same time. */
function hasOtherDuration({ notBefore, notAfter }: UsableServingCert, state: ServingCertState): boolean {
  const expected = servingCertEnd(issueTime(notBefore), state.lifetimeMs, state.signing.notAfter);
  return Math.abs(expected.getTime() - notAfter.getTime()) > SAME_DURATION;
}

const JITTER = 10;

/** The jitter spreads certs of the same minute. The life counts from the issue: a cert of one hour must not be due then. */
export function renewalTime(
  { notBefore, notAfter }: Pick<UsableServingCert, 'notBefore' | 'notAfter'>,
  { serviceUid, renewAfter }: Pick<ServingCertState, 'serviceUid' | 'renewAfter'>,
): Date {
  const issuedAt = issueTime(notBefore);
  const life = notAfter.getTime() - issuedAt.getTime();
  return after(issuedAt, Math.floor((life * (renewAfter - JITTER * fractionOf(serviceUid))) / 100));
}

function fractionOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0) / 2 ** 32;
}

export function recheckTime(
  cert: Pick<UsableServingCert, 'notBefore' | 'notAfter'>,
  state: Pick<ServingCertState, 'now' | 'serviceUid' | 'renewAfter' | 'signing'>,
): Date {
  const { now, signing } = state;
  const instants = [renewalTime(cert, state), cert.notAfter, signing.validUntil, signing.notBefore];
  const ahead = instants.filter((instant) => instant > now);
  return ahead.length === 0 ? after(now, HOUR) : earliest(...ahead);
}

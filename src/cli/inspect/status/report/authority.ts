/** The generations of the certificate authority: from its Secret, or from the published bundle. */
import type { X509Certificate } from 'node:crypto';

import type { ConfigMap } from '../../../../runtime/certificates/ca-bundle.ts';
import { AUTHORITY_SECRET, CA_BUNDLE_KEY, CABUNDLE_CONFIGMAP } from '../../../../pki/annotations.ts';
import { parseAuthority } from '../../../../pki/authority/secret.ts';
import { type Authority, caBundle } from '../../../../pki/authority/authority.ts';
import { after } from '../../../../pki/durations.ts';
import {
  caOf,
  type Generation,
  generationId,
  type GenerationState,
  isOwnGeneration,
  isOwnRoot,
  lifeOf,
} from '../../../../pki/authority/generation.ts';
import type { BundleState } from '../../../../pki/injection/source.ts';
import { parseCertificatePem, readableCertificates, splitCertificates } from '../../../../pki/x509/pem.ts';
import { lateRecord, retirementTime } from '../../../../pki/authority/trust-record.ts';
import { rotationPhase, type RotationPhase, rotationTime } from '../../../../pki/authority/rotation-plan.ts';
import type { Secret } from '../../../../pki/serving-certs/secret.ts';
import type { ClusterReadings } from '../../read-cluster/read-cluster.ts';
import { messageOf } from '../../../../json/abort.ts';
import {
  type Judged,
  type Problems,
  type Reading,
  type Unread,
  unreadOf,
} from '../../read-cluster/reading.ts';

export interface AuthorityPart {
  readonly unread: readonly Unread[];
  /** The source of the generations. The ConfigMap does not contain their states. */
  readonly source?: 'Secret' | 'ConfigMap';
  readonly phase?: RotationPhase;
  readonly generations: readonly GenerationRow[];
}

export interface GenerationRow {
  readonly id: string;
  /** `trusted`: read from the published bundle, which does not contain the state. */
  readonly state: GenerationState | 'trusted';
  readonly notBefore: string;
  readonly notAfter: string;
  readonly expired: boolean;
  readonly createdAt?: string;
  readonly publishedAt?: string | undefined;
  readonly activatedAt?: string | undefined;
  /** Of a pending generation that all targets hold: when it starts to sign. */
  readonly signsAt?: string | undefined;
  /** Of the active generation: when the next one is due. Absent for an imported CA, which its owner replaces. */
  readonly rotationAt?: string | undefined;
  /** Of a retiring generation: when its root is removed. Restart before then what loads certificates only at start. */
  readonly retiresAt?: string | undefined;
}

export interface KnownSigner {
  readonly id: string;
  readonly certificate: X509Certificate;
  /** When it or the first of its issuers expires. */
  readonly notAfter: Date;
}

export interface JudgedAuthority extends Judged<AuthorityPart> {
  readonly bundle: BundleState;
  /** Empty: unknown. */
  readonly signers: readonly KnownSigner[];
}

/** Never returns private keys. */
export function authorityPart(
  readings: Pick<ClusterReadings, 'authority' | 'caBundle' | 'propagationWaitMs'>,
  namespace: string,
  now: Date,
): JudgedAuthority {
  const object = `Secret ${namespace}/${AUTHORITY_SECRET}`;
  const problems: Problems[number][] = [];
  if (readings.authority.kind === 'read') {
    const secret = readings.authority.value;
    const parsed = secret === undefined ? MISSING : parseSecret(secret);
    if (typeof parsed !== 'string') return ofSecret(parsed, object, readings.propagationWaitMs, now);
    problems.push({ object, message: parsed });
  }
  const published = ofConfigMap(readings.caBundle, namespace, now);
  const unread = [...unreadOf(object, readings.authority), ...published.part.unread];
  return {
    ...published,
    part: { ...published.part, unread },
    problems: [...problems, ...published.problems],
  };
}

const MISSING = 'it does not exist: the leader creates it when Gatehouse runs in this namespace';

function parseSecret({ data = {} }: Secret): Authority | string {
  try {
    return parseAuthority(data);
  } catch (error) {
    return messageOf(error);
  }
}

function ofSecret(authority: Authority, object: string, waitMs: number, now: Date): JudgedAuthority {
  const { generations } = authority;
  const phase = rotationPhase({ authority, paused: undefined });
  const rows = generations.map((generation) => rowOf(generation, waitMs, now));
  return {
    part: { unread: [], source: 'Secret', phase, generations: rows },
    problems: [...activeProblems(authority, object, now), ...recordProblems(authority, object, now)],
    bundle: bundleOf(authority, now),
    signers: generations.map((generation) => ({
      id: generation.id,
      certificate: caOf(generation),
      notAfter: lifeOf(generation).notAfter,
    })),
  };
}

function rowOf(generation: Generation, waitMs: number, now: Date): GenerationRow {
  const { id, state, createdAt, publishedAt, activatedAt } = generation;
  return {
    ...rowOfLife(id, state, lifeOf(generation), now),
    createdAt: createdAt.toISOString(),
    publishedAt: publishedAt?.toISOString(),
    activatedAt: activatedAt?.toISOString(),
    signsAt:
      state === 'pending' && publishedAt !== undefined ? after(publishedAt, waitMs).toISOString() : undefined,
    rotationAt:
      state === 'active' && isOwnGeneration(generation) ? rotationTime(generation).toISOString() : undefined,
    retiresAt: retirementTime(generation)?.toISOString(),
  };
}

const rowOfLife = (
  id: string,
  state: GenerationRow['state'],
  { notBefore, notAfter }: ReturnType<typeof lifeOf>,
  now: Date,
): GenerationRow => ({
  id,
  state,
  notBefore: notBefore.toISOString(),
  notAfter: notAfter.toISOString(),
  expired: notAfter <= now,
});

function bundleOf(authority: Authority, now: Date): BundleState {
  try {
    return { kind: 'bundle', pem: caBundle(authority, now) };
  } catch (error) {
    return { kind: 'unusable', message: messageOf(error) };
  }
}

/** A rotation is due at half of the lifetime, and late at three quarters. */
function activeProblems({ generations }: Authority, object: string, now: Date): Problems {
  const active = generations.find(({ state }) => state === 'active');
  if (active === undefined) return [];
  const { notBefore, notAfter } = lifeOf(active);
  const end = notAfter.toISOString();
  if (notAfter <= now) {
    const message = `the active generation ${active.id} expired at ${end}: rotate the authority now`;
    return [{ object, message }];
  }
  const isLate = now.getTime() > notBefore.getTime() * 0.25 + notAfter.getTime() * 0.75;
  if (!isLate || generations.some(({ state }) => state === 'pending')) return [];
  const next = isOwnGeneration(active)
    ? 'find out why the leader does not rotate the authority'
    : 'the CA is imported, so store a new CA in its Secret';
  const seen = `the active generation ${active.id} expires at ${end}, and no next generation is prepared`;
  return [{ object, message: `${seen}: ${next}` }];
}

function recordProblems(authority: Authority, object: string, now: Date): Problems {
  const late = lateRecord(authority, now);
  if (late === undefined) return [];
  const message =
    `certificates have been shortened since ${late.toISOString()}, because the leader cannot record how long clients must trust their root: ` +
    'check its events';
  return [{ object, message }];
}

function ofConfigMap(reading: Reading<ConfigMap | undefined>, namespace: string, now: Date): JudgedAuthority {
  const object = `ConfigMap ${namespace}/${CABUNDLE_CONFIGMAP}`;
  const unusable = (...messages: readonly string[]): JudgedAuthority => ({
    part: { unread: unreadOf(object, reading), generations: [] },
    problems: messages.map((message) => ({ object, message })),
    bundle: { kind: 'unknown' },
    signers: [],
  });
  if (reading.kind === 'unread') return unusable();
  const text = reading.value?.data?.[CA_BUNDLE_KEY];
  if (text === undefined) return unusable('it lacks a CA bundle: the leader has not published one yet');
  try {
    const pem = parseCertificatePem(text);
    const roots = splitCertificates(pem);
    if (readableCertificates(text) === undefined) return unusable('some clients cannot read its CA bundle');
    const signers = roots.map((certificate) => ({
      id: generationId(certificate.publicKey),
      certificate,
      notAfter: certificate.validToDate,
    }));
    const generations = signers.map(({ id, certificate: { validFromDate, validToDate } }) =>
      rowOfLife(id, 'trusted', { notBefore: validFromDate, notAfter: validToDate }, now),
    );
    const message = 'all its certificates have expired: rotate the authority now';
    return {
      part: { unread: [], source: 'ConfigMap', generations },
      problems: generations.every(({ expired }) => expired) ? [{ object, message }] : [],
      bundle: { kind: 'bundle', pem },
      // Below another root, an intermediate CA may sign. The bundle does not contain it.
      signers: roots.every(isOwnRoot) ? signers : [],
    };
  } catch (error) {
    return unusable(`${CA_BUNDLE_KEY} is invalid: ${messageOf(error)}`);
  }
}

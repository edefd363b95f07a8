/** The generations of the certificate authority: from its Secret, or what of it is published. */
import type { X509Certificate } from 'node:crypto';

import type { ConfigMap } from '../../../../runtime/certificates/ca-bundle.ts';
import { AUTHORITY_SECRET, CA_BUNDLE_KEY, CABUNDLE_CONFIGMAP } from '../../../../pki/annotations.ts';
import { parseAuthority } from '../../../../pki/authority/secret.ts';
import type { Authority } from '../../../../pki/authority/authority.ts';
import { caBundle } from '../../../../pki/authority/bundle.ts';
import {
  generationId,
  isOfOwnMake,
  rootOf,
  type Generation,
  type GenerationState,
} from '../../../../pki/authority/generation.ts';
import type { BundleState } from '../../../../pki/injection/source.ts';
import { parseCertificatePem, splitCertificates } from '../../../../pki/x509/pem.ts';
import { rotationPhase, rotationTime, type RotationPhase } from '../../../../pki/authority/rotation-plan.ts';
import type { Secret } from '../../../../pki/serving-certs/secret.ts';
import { unreadOf, valueOf, type Reading, type Unread } from '../reading.ts';
import type { Attention, Judged } from './attention.ts';

export interface AuthorityPart {
  readonly unread: readonly Unread[];
  /** Where it was read. The ConfigMap does not tell states. */
  readonly source?: 'Secret' | 'ConfigMap';
  readonly phase?: RotationPhase;
  /** Newest first. */
  readonly generations: readonly GenerationRow[];
}

export interface GenerationRow {
  readonly id: string;
  /** `trusted`: it stands in the published bundle, and more cannot be told from there. */
  readonly state: GenerationState | 'trusted';
  /** RFC 3339, as all times. */
  readonly notBefore: string;
  readonly notAfter: string;
  readonly expired: boolean;
  readonly createdAt?: string;
  readonly publishedAt?: string;
  readonly activatedAt?: string;
  /** Of the active one: when the next generation is due. Absent for a CA that was imported: that has no next one until its owner makes it. */
  readonly rotationAt?: string;
}

/** By which serving certs are judged. */
export interface KnownRoot {
  readonly id: string;
  readonly certificate: X509Certificate;
}

export interface JudgedAuthority extends Judged<AuthorityPart> {
  /** What targets should carry. */
  readonly bundle: BundleState;
  readonly roots: readonly KnownRoot[];
}

interface AuthorityReadings {
  readonly authority: Reading<Secret | undefined>;
  readonly caBundle: Reading<ConfigMap | undefined>;
}

/** What is shown is made of certificates and times alone; no private key leaves this function. */
export function authorityPart(readings: AuthorityReadings, namespace: string, now: Date): JudgedAuthority {
  const secretName = `Secret ${namespace}/${AUTHORITY_SECRET}`;
  const secret = parsed(readings.authority);
  if (secret.kind === 'authority') return ofSecret(secret.authority, secretName, now);
  const attention: readonly Attention[] =
    secret.kind === 'problem' ? [{ part: 'authority', object: secretName, message: secret.problem }] : [];
  const published = ofConfigMap(readings.caBundle, namespace, now);
  const unread = [...unreadOf(secretName, readings.authority), ...published.part.unread];
  return {
    ...published,
    part: { ...published.part, unread },
    attention: [...attention, ...published.attention],
  };
}

type ParsedSecret =
  | { readonly kind: 'authority'; readonly authority: Authority }
  | { readonly kind: 'problem'; readonly problem: string }
  | { readonly kind: 'unread' };

function parsed(reading: Reading<Secret | undefined>): ParsedSecret {
  if (reading.kind === 'unread') return { kind: 'unread' };
  if (reading.value === undefined)
    return {
      kind: 'problem',
      problem: 'it is missing: a leader makes it when Gatehouse runs in this namespace',
    };
  try {
    return { kind: 'authority', authority: parseAuthority(reading.value.data ?? {}) };
  } catch (error) {
    return { kind: 'problem', problem: error instanceof Error ? error.message : String(error) };
  }
}

function ofSecret(authority: Authority, object: string, now: Date): JudgedAuthority {
  const generations = authority.generations.map((generation) => rowOf(generation, now));
  return {
    part: {
      unread: [],
      source: 'Secret',
      phase: rotationPhase({ authority, paused: undefined }),
      generations,
    },
    attention: activeAttention(authority, object, now),
    bundle: bundleOf(authority, now),
    roots: authority.generations.map((generation) => ({
      id: generation.id,
      certificate: rootOf(generation),
    })),
  };
}

function rowOf(generation: Generation, now: Date): GenerationRow {
  const { id, state, createdAt, publishedAt, activatedAt } = generation;
  return {
    ...lifeOf(id, state, rootOf(generation), now),
    createdAt: createdAt.toISOString(),
    ...(publishedAt === undefined ? {} : { publishedAt: publishedAt.toISOString() }),
    ...(activatedAt === undefined ? {} : { activatedAt: activatedAt.toISOString() }),
    ...(state === 'active' && isOfOwnMake(generation)
      ? { rotationAt: rotationTime(generation).toISOString() }
      : {}),
  };
}

const lifeOf = (
  id: string,
  state: GenerationRow['state'],
  { validFromDate, validToDate }: X509Certificate,
  now: Date,
): GenerationRow => ({
  id,
  state,
  notBefore: validFromDate.toISOString(),
  notAfter: validToDate.toISOString(),
  expired: validToDate <= now,
});

function bundleOf(authority: Authority, now: Date): BundleState {
  try {
    return { kind: 'bundle', pem: caBundle(authority, now) };
  } catch (error) {
    return { kind: 'unusable', message: error instanceof Error ? error.message : String(error) };
  }
}

/** A rotation is due at half of the life; where none has begun at three quarters, none will by itself. */
function activeAttention(authority: Authority, object: string, now: Date): readonly Attention[] {
  const { generations } = authority;
  const active = generations.find(({ state }) => state === 'active');
  if (active === undefined) return [];
  const { validFromDate, validToDate } = rootOf(active);
  const end = validToDate.toISOString();
  const attention = (message: string): readonly Attention[] => [{ part: 'authority', object, message }];
  if (validToDate <= now)
    return attention(`generation ${active.id}, which signs, ended at ${end}: rotate the authority now`);
  const isLate = now.getTime() > validFromDate.getTime() * 0.25 + validToDate.getTime() * 0.75;
  const isPrepared = generations.some(({ state }) => state === 'pending');
  if (isLate && !isPrepared) {
    const next = isOfOwnMake(active)
      ? 'see why the leader does not rotate'
      : 'it was imported, so put a new CA into its secret';
    return attention(
      `generation ${active.id}, which signs, ends at ${end} and no other is prepared: ${next}`,
    );
  }
  return [];
}

function ofConfigMap(reading: Reading<ConfigMap | undefined>, namespace: string, now: Date): JudgedAuthority {
  const object = `ConfigMap ${namespace}/${CABUNDLE_CONFIGMAP}`;
  const nothing = (attention: readonly Attention[]): JudgedAuthority => ({
    part: { unread: unreadOf(object, reading), generations: [] },
    attention,
    bundle: { kind: 'unknown' },
    roots: [],
  });
  if (reading.kind === 'unread') return nothing([]);
  const problem = (message: string) => nothing([{ part: 'authority', object, message }]);
  const text = valueOf(reading)?.data?.[CA_BUNDLE_KEY];
  if (text === undefined) return problem('it holds no CA bundle: the leader has not published one yet');
  try {
    const pem = parseCertificatePem(text);
    const roots = splitCertificates(pem).map((certificate) => ({
      id: generationId(certificate.publicKey),
      certificate,
    }));
    const generations = roots.map(({ id, certificate }) => lifeOf(id, 'trusted', certificate, now));
    return {
      part: { unread: [], source: 'ConfigMap', generations },
      attention: generations.every(({ expired }) => expired)
        ? [{ part: 'authority', object, message: 'all that it holds has expired: rotate the authority now' }]
        : [],
      bundle: { kind: 'bundle', pem },
      roots,
    };
  } catch (error) {
    return problem(
      `its ${CA_BUNDLE_KEY} is broken: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

/** The generations of the certificate authority: from its Secret, or from the published bundle. */
import type { X509Certificate } from 'node:crypto';

import type { ConfigMap } from '../../../../runtime/certificates/ca-bundle.ts';
import { AUTHORITY_SECRET, CA_BUNDLE_KEY, CABUNDLE_CONFIGMAP } from '../../../../pki/annotations.ts';
import { parseAuthority } from '../../../../pki/authority/secret.ts';
import type { Authority } from '../../../../pki/authority/authority.ts';
import { caBundle } from '../../../../pki/authority/bundle.ts';
import {
  generationId,
  isOwnGeneration,
  rootOf,
  type Generation,
  type GenerationState,
} from '../../../../pki/authority/generation.ts';
import type { BundleState } from '../../../../pki/injection/source.ts';
import { parseCertificatePem, splitCertificates } from '../../../../pki/x509/pem.ts';
import { rotationPhase, rotationTime, type RotationPhase } from '../../../../pki/authority/rotation-plan.ts';
import type { Secret } from '../../../../pki/serving-certs/secret.ts';
import { unreadOf, valueOf, type Reading, type Unread } from '../../read-cluster/reading.ts';
import type { Attention, Judged } from './attention.ts';

export interface AuthorityPart {
  readonly unread: readonly Unread[];
  /** The source of the generations. The ConfigMap does not contain their states. */
  readonly source?: 'Secret' | 'ConfigMap';
  readonly phase?: RotationPhase;
  /** Newest first. */
  readonly generations: readonly GenerationRow[];
}

export interface GenerationRow {
  readonly id: string;
  /** `trusted`: read from the published bundle, which does not contain the state. */
  readonly state: GenerationState | 'trusted';
  /** RFC 3339, like all times. */
  readonly notBefore: string;
  readonly notAfter: string;
  readonly expired: boolean;
  readonly createdAt?: string;
  readonly publishedAt?: string;
  readonly activatedAt?: string;
  /** Of the active generation: when the next generation is due. Absent for an imported CA, which its owner replaces. */
  readonly rotationAt?: string;
}

/** A root that verifies serving certificates. */
export interface KnownRoot {
  readonly id: string;
  readonly certificate: X509Certificate;
}

export interface JudgedAuthority extends Judged<AuthorityPart> {
  /** The bundle that injection targets should contain. */
  readonly bundle: BundleState;
  readonly roots: readonly KnownRoot[];
}

interface AuthorityReadings {
  readonly authority: Reading<Secret | undefined>;
  readonly caBundle: Reading<ConfigMap | undefined>;
}

/** Returns only data from certificates: no private key leaves this function. */
export function authorityPart(readings: AuthorityReadings, namespace: string, now: Date): JudgedAuthority {
  const secretName = `Secret ${namespace}/${AUTHORITY_SECRET}`;
  const secret = parseSecret(readings.authority);
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

type SecretContent =
  | { readonly kind: 'authority'; readonly authority: Authority }
  | { readonly kind: 'problem'; readonly problem: string }
  | { readonly kind: 'unread' };

function parseSecret(reading: Reading<Secret | undefined>): SecretContent {
  if (reading.kind === 'unread') return { kind: 'unread' };
  if (reading.value === undefined)
    return {
      kind: 'problem',
      problem: 'it does not exist: the leader creates it when Gatehouse runs in this namespace',
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
    ...(state === 'active' && isOwnGeneration(generation)
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

/** A rotation is due at half of the lifetime. If none has started at three quarters, something is wrong. */
function activeAttention(authority: Authority, object: string, now: Date): readonly Attention[] {
  const { generations } = authority;
  const active = generations.find(({ state }) => state === 'active');
  if (active === undefined) return [];
  const { validFromDate, validToDate } = rootOf(active);
  const end = validToDate.toISOString();
  const attention = (message: string): readonly Attention[] => [{ part: 'authority', object, message }];
  if (validToDate <= now)
    return attention(`the active generation ${active.id} expired at ${end}: rotate the authority now`);
  const isLate = now.getTime() > validFromDate.getTime() * 0.25 + validToDate.getTime() * 0.75;
  const isPrepared = generations.some(({ state }) => state === 'pending');
  if (isLate && !isPrepared) {
    const next = isOwnGeneration(active)
      ? 'find out why the leader does not rotate the authority'
      : 'the CA is imported, so store a new CA in its Secret';
    return attention(
      `the active generation ${active.id} expires at ${end}, and no next generation is prepared: ${next}`,
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
  if (text === undefined) return problem('it has no CA bundle: the leader has not published one yet');
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
        ? [
            {
              part: 'authority',
              object,
              message: 'all its certificates have expired: rotate the authority now',
            },
          ]
        : [],
      bundle: { kind: 'bundle', pem },
      roots,
    };
  } catch (error) {
    return problem(`${CA_BUNDLE_KEY} is invalid: ${error instanceof Error ? error.message : String(error)}`);
  }
}

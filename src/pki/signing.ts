import { activeGeneration, bridgesFrom, type Authority } from './authority.ts';
import { bundleRoots, caBundle } from './bundle.ts';
import { earliest } from './durations.ts';
import { rootOf } from './generation.ts';
import { firstCertificate, type CertificatePem } from './pem.ts';

/** What serving certs are measured by: the public side of the authority. One for all Services, made once a change. */
export interface Signing {
  /** The active generation. */
  readonly generationId: string;
  /** The validity of its root. */
  readonly notBefore: Date;
  readonly notAfter: Date;
  /** What a chain holds behind the leaf. */
  readonly bridges: readonly CertificatePem[];
  readonly bundle: CertificatePem;
  /** When the first of these certificates ends: from then on it has to be made anew. */
  readonly validUntil: Date;
}

/** @throws Error if there is no CA bundle, as {@link caBundle}. */
export function signingOf(authority: Authority, now: Date): Signing {
  const active = activeGeneration(authority);
  const root = rootOf(active);
  const bridges = bridgesFrom(authority, active.id, now);
  const parts = [...bundleRoots(authority, now), ...bridges.map(firstCertificate)];
  return {
    generationId: active.id,
    notBefore: root.validFromDate,
    notAfter: root.validToDate,
    bridges,
    bundle: caBundle(authority, now),
    validUntil: earliest(...parts.map(({ validToDate }) => validToDate)),
  };
}

import type { X509Certificate } from 'node:crypto';
import { readableCertificates } from './pem.ts';

/**
 * Whether a client that trusts `bundle` accepts this chain (leaf first). Checks signatures and validity; the caller
 * checks names. An unreadable chain is not trusted, and an unreadable bundle trusts nothing.
 */
export function isTrustedBy(chain: string, bundle: string, now: Date): boolean {
  const [leaf, ...others] = readableCertificates(chain) ?? [];
  return leaf !== undefined && leadsTo(readableCertificates(bundle) ?? [], leaf, others, now);
}

/** @param others possible intermediates. Each is used at most once, so that a cycle of certificates ends. */
function leadsTo(
  roots: readonly X509Certificate[],
  certificate: X509Certificate,
  others: readonly X509Certificate[],
  now: Date,
): boolean {
  if (!isValidAt(certificate, now)) return false;
  if (roots.some((root) => isValidAt(root, now) && hasIssued(root, certificate))) return true;
  return others.some(
    (issuer) =>
      hasIssued(issuer, certificate) &&
      leadsTo(
        roots,
        issuer,
        others.filter((other) => other !== issuer),
        now,
      ),
  );
}

const hasIssued = (issuer: X509Certificate, certificate: X509Certificate): boolean =>
  certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);

const isValidAt = ({ validFromDate, validToDate }: X509Certificate, now: Date): boolean =>
  validFromDate <= now && now < validToDate;

import type { X509Certificate } from 'node:crypto';
import type { Authority } from './authority.ts';
import { rootOf, type Generation } from './generation.ts';
import { holdsSameCertificates, splitCertificates, toCertificatePem, type CertificatePem } from './pem.ts';

/** A caBundle stands in many objects, and some of them in ConfigMaps and etcd values with limits of their own. */
export const MAX_BUNDLE_BYTES = 64 * 1024;

/**
 * The certificates that clients trust: the roots of all generations, newest first, none of them expired. Only self-signed ones,
 * because OpenSSL and Node take no other certificate as the end of a chain.
 * @throws Error if none is left, or the bundle is larger than 64 KiB: it would be worse to publish it.
 */
export function caBundle(authority: Authority, now: Date): CertificatePem {
  const roots = bundleRoots(authority, now);
  if (roots.length === 0)
    throw new Error(
      'every generation of the authority has expired: rotate it to get a CA bundle that holds one',
    );
  const bundle = toCertificatePem(roots);
  if (bundle.length > MAX_BUNDLE_BYTES)
    throw new Error(
      `the CA bundle is ${bundle.length} bytes long: at most ${MAX_BUNDLE_BYTES} are published`,
    );
  return bundle;
}

/** What {@link caBundle} is made of. */
export function bundleRoots({ generations }: Authority, now: Date): readonly X509Certificate[] {
  const roots = generations.map(rootOf).filter((root) => root.validToDate > now && root.checkIssued(root));
  return [...new Map(roots.map((root) => [root.fingerprint256, root])).values()];
}

/** Whether a client with this bundle trusts the root of `generation`. A bundle that cannot be read trusts nothing. */
export function trusts(bundle: string, generation: Generation): boolean {
  const { fingerprint256 } = rootOf(generation);
  try {
    return splitCertificates(bundle).some((certificate) => certificate.fingerprint256 === fingerprint256);
  } catch {
    return false;
  }
}

/** Whether two bundles trust the same: compared by certificate, not by text or order. A broken one is the same as none. */
export const isSameBundle = holdsSameCertificates;

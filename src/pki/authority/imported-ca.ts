/** What a rotation may do with an imported CA: its owner renews and replaces it. */
import { toCertificatePem } from '../x509/pem.ts';
import { activeGeneration, type Authority } from './authority.ts';
import { bundleRoots, MAX_BUNDLE_BYTES } from './bundle.ts';
import {
  caOf,
  intermediatesOf,
  isSameCa,
  lifeOf,
  pathOf,
  rootOf,
  type Generation,
  type ImportedAuthority,
} from './generation.ts';
import { nextPossible } from './trust-record.ts';

/** Certs refer to their issuer by name and key id, and clients know the root: a renewed CA must have the same. */
export const isRenewal = (imported: ImportedAuthority, active: Generation): boolean =>
  imported.id === active.id &&
  isSameCa(caOf(imported), caOf(active)) &&
  isSameCa(rootOf(imported), rootOf(active));

/** Whether the owner made other certificates for the key of the active generation. */
export function isRenewed(imported: ImportedAuthority, active: Generation): boolean {
  const [before, after] = [active, imported].map((one) => toCertificatePem(pathOf(one)));
  return before !== after;
}

/**
 * Why renewed certificates cannot replace those of the active generation now; undefined if they can. Certs that the
 * generation signed must be trusted until their own end, and clients that hold only the current root must accept new ones.
 */
export function renewalProblem(
  imported: ImportedAuthority,
  authority: Authority,
  now: Date,
): string | undefined {
  const active = activeGeneration(authority);
  const { id, trustedUntil } = active;
  const { notBefore, notAfter } = lifeOf(imported);
  if (notBefore > now)
    return `the renewed certificate of the CA ${id} begins at ${notBefore.toISOString()}: the current one stays in use until then`;
  if (trustedUntil !== undefined && notAfter < trustedUntil)
    return (
      `the renewed certificate of the CA ${id} ends at ${notAfter.toISOString()}, before the certs that the CA has signed ` +
      `(${trustedUntil.toISOString()}): put one that lasts longer into its secret`
    );
  const [before, highest] = [rootOf(active), intermediatesOf(imported).at(-1)];
  if (highest?.checkIssued(before) === false && before.validToDate > now)
    return (
      `the renewed certificate of the CA ${id} leads only to its new root, by the serial number in its authority key identifier, ` +
      'so clients with the current root would reject it: issue it without that number, or put a CA with a new key into its secret'
    );
  if (!hasRoomFor(imported, authority, now))
    return `the bundle has no room for the renewed root of the CA ${id}: ${nextPossible(authority)}`;
  return undefined;
}

/** Whether the bundle can hold the root of this CA too. */
export function hasRoomFor(imported: ImportedAuthority, authority: Authority, now: Date): boolean {
  const [roots, added] = [bundleRoots(authority, now), rootOf(imported)];
  const isThere = roots.some(({ fingerprint256 }) => fingerprint256 === added.fingerprint256);
  return isThere || toCertificatePem([...roots, added]).length <= MAX_BUNDLE_BYTES;
}

export const canReplaceBy = (
  { id }: ImportedAuthority,
  { generations }: Authority,
  dropped: readonly string[],
): boolean => !dropped.includes(id) && !generations.some((generation) => generation.id === id);

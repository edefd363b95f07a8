/** What a rotation may do with an imported CA: its owner renews and replaces it. */
import type { X509Certificate } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { certificateFields } from '../x509/certificate-fields.ts';
import { toCertificatePem } from '../x509/pem.ts';
import { activeGeneration, type Authority } from './authority.ts';
import { bundleRoots, MAX_BUNDLE_BYTES } from './bundle.ts';
import {
  caOf,
  formerRoots,
  intermediatesOf,
  isSameCa,
  lifeOf,
  pathOf,
  rootOf,
  rootsOf,
  type Generation,
  type ImportedAuthority,
} from './generation.ts';
import { nextPossible, retirementTime } from './trust-record.ts';

/** Certs refer to their issuer by name and key id, and clients know the root: a renewed CA must have the same. */
export const isRenewal = (imported: ImportedAuthority, active: Generation): boolean =>
  imported.id === active.id &&
  isSameCa(caOf(imported), caOf(active)) &&
  isSameCa(rootOf(imported), rootOf(active));

/** Whether the owner put other certificates than those of this generation into the secret. */
export function isRenewed(imported: ImportedAuthority, generation: Generation): boolean {
  const [before, after] = [generation, imported].map((one) => toCertificatePem(pathOf(one)));
  return before !== after;
}

/**
 * Why renewed certificates cannot replace those of the active generation now; undefined if they can. Certs that the
 * generation signed must be trusted until their own end, and clients that hold only one of the roots until now must accept new ones.
 */
export function renewalProblem(
  imported: ImportedAuthority,
  authority: Authority,
  now: Date,
): string | undefined {
  const active = activeGeneration(authority);
  const { id, trustedUntil } = active;
  if (!isDeepStrictEqual(limitsOf(imported), limitsOf(active)))
    return (
      `the renewed certificates of the CA ${id} have other name constraints or extended key usages, so clients with one root would ` +
      'reject what the other one permits: put a CA with a new key into its secret'
    );
  const { notBefore, notAfter } = lifeOf(imported);
  if (notBefore > now)
    return `the renewed certificate of the CA ${id} begins at ${notBefore.toISOString()}: the current one stays in use until then`;
  if (trustedUntil !== undefined && notAfter < trustedUntil)
    return (
      `the renewed certificate of the CA ${id} ends at ${notAfter.toISOString()}, before the certs that the CA has signed ` +
      `(${trustedUntil.toISOString()}): put one that lasts longer into its secret`
    );
  const highest = intermediatesOf(imported).at(-1);
  if (rootsOf(active).some((root) => root.validToDate > now && highest?.checkIssued(root) === false))
    return (
      `the renewed certificate of the CA ${id} leads only to its new root, by the serial number in its authority key identifier, ` +
      'so clients that hold only an earlier root would reject it: issue it without that number, or put a CA with a new key into its secret'
    );
  const former = formerRoots(active, rootOf(imported), now);
  const [firstEnd] = endsOf(former);
  if (former.length > MAX_FORMER_ROOTS && firstEnd !== undefined)
    return (
      `the CA ${id} would have ${former.length} former roots, and at most ${MAX_FORMER_ROOTS} are published: put a CA with a new key ` +
      `into its secret, or wait until ${firstEnd.toISOString()}, when the first one ends`
    );
  if (!hasRoomFor(imported, authority, now))
    return `the bundle has no room for the renewed root of the CA ${id}: ${nextRoom(authority, now)}`;
  return undefined;
}

/** An owner who renews often needs shorter lives. Every client loads all roots, and the bundle must have room for others. */
const MAX_FORMER_ROOTS = 8;

/** For users: when the bundle has more room. */
export function nextRoom(authority: Authority, now: Date): string {
  const oldest = authority.generations.at(-1);
  const retires = oldest && retirementTime(oldest);
  const [end] = endsOf(bundleRoots(authority, now));
  return end === undefined || (retires !== undefined && retires <= end)
    ? nextPossible(authority)
    : `it has more room after ${end.toISOString()}, when the first root in it ends`;
}

const endsOf = (roots: readonly X509Certificate[]): readonly Date[] =>
  roots.map(({ validToDate }) => validToDate).toSorted((a, b) => a.getTime() - b.getTime());

/** A client applies the limits of the root that it holds, or finds first, to all certs of the key. */
const limitsOf = (one: Generation | ImportedAuthority) =>
  pathOf(one)
    .map(certificateFields)
    .flatMap(({ nameConstraints = [], extendedKeyUsage = [] }) => [[...nameConstraints], extendedKeyUsage])
    .filter(({ length }) => length > 0);

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

/** A CA that the operator supplies in a Secret: how to read it, and what a rotation may do with it. */
import type { X509Certificate } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';

import { messageOf } from '../../json/abort.ts';
import { quote } from '../../json/printable.ts';
import { CA_BUNDLE_KEY, TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../annotations.ts';
import { inKey, type SecretData, textOf } from '../secret-data.ts';
import { nameOf } from '../x509/chains.ts';
import { parsePrivateKeyPem, privateKeyOf, splitCertificates, toCertificatePem } from '../x509/pem.ts';
import {
  caOf,
  formerRoots,
  type Generation,
  generationId,
  type ImportedAuthority,
  intermediatesOf,
  isSameCa,
  lifeOf,
  pathOf,
  rootOf,
  rootsOf,
  sealKey,
} from './generation.ts';
import { signTrial, type TrialScope } from './trial.ts';
import { certificateFields } from '../x509/certificate-fields.ts';
import { activeGeneration, type Authority, bundleRoots, MAX_BUNDLE_BYTES } from './authority.ts';
import { nextPossible, retirementTime } from './trust-record.ts';

/** Reads the Secret as cert-manager writes it: `tls.crt` with the CA and its issuers, `tls.key`, and optionally `ca.crt`. */
export async function importAuthority(data: SecretData | undefined, scope: TrialScope, now: Date) {
  try {
    return { kind: 'imported' as const, authority: await parseImported(data, scope, now) };
  } catch (error) {
    return { kind: 'refused' as const, problem: messageOf(error) };
  }
}

async function parseImported(
  data: SecretData | undefined,
  scope: TrialScope,
  now: Date,
): Promise<ImportedAuthority> {
  const textIn = (name: string): string => textOf(data, name) ?? '';
  for (const name of [TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY])
    if (textIn(name) === '') throw new Error(`${name}: it is missing`);
  const roots = inKey(CA_BUNDLE_KEY, () => splitCertificates(textIn(CA_BUNDLE_KEY)));
  const [ca, ...issuers] = inKey(TLS_CERT_KEY, () => pathIn(splitCertificates(textIn(TLS_CERT_KEY)), roots));
  const pem = inKey(TLS_PRIVATE_KEY_KEY, () => parsePrivateKeyPem(textIn(TLS_PRIVATE_KEY_KEY)));
  if (!ca.checkPrivateKey(privateKeyOf(pem)))
    throw new Error(`${TLS_PRIVATE_KEY_KEY}: it is not the key of the first certificate in ${TLS_CERT_KEY}`);
  const chain = issuers.length === 0 ? undefined : toCertificatePem(issuers);
  const id = generationId(ca.publicKey);
  const authority = { id, certificate: toCertificatePem([ca]), chain, key: sealKey(id, pem) };
  try {
    await signTrial(authority, scope, now);
  } catch (cause) {
    throw new Error(`${TLS_CERT_KEY}: ${messageOf(cause)}`, { cause });
  }
  return authority;
}

type Path = readonly [X509Certificate, ...X509Certificate[]];

/** A client limits the length of chains: Java accepts five certificates between a leaf and a root, bridges included. */
const MAX_INTERMEDIATES = 3;
/** In both values together. The search for the root is quadratic. */
const MAX_CERTIFICATES = 100;

function pathIn([ca, ...others]: readonly X509Certificate[], roots: readonly X509Certificate[]): Path {
  if (ca === undefined) throw new Error('there is no PEM certificate');
  const pool = [...others, ...roots];
  if (pool.length > MAX_CERTIFICATES)
    throw new Error(`there are more than ${MAX_CERTIFICATES} certificates in it and in ${CA_BUNDLE_KEY}`);
  const path = shortestPath(ca, pool);
  if (path === undefined)
    throw new Error(
      `no certificate leads from ${nameOf(ca)}, issued by ${quote(ca.issuer.replaceAll('\n', ', '))}, to a self-signed root: ` +
        `append its issuers up to the root, or put the root into ${CA_BUNDLE_KEY}`,
    );
  const stray = others.find((other) => !path.some((one) => one.fingerprint256 === other.fingerprint256));
  if (stray !== undefined) throw new Error(`${nameOf(stray)} is not an issuer of ${nameOf(ca)}: remove it`);
  if (path.length - 1 > MAX_INTERMEDIATES)
    throw new Error(
      `its chain has ${path.length - 1} intermediate CAs: at most ${MAX_INTERMEDIATES} are allowed`,
    );
  return path;
}

/** Breadth first. Of several certificates for one issuer, takes the one that ends last. */
function shortestPath(ca: X509Certificate, pool: readonly X509Certificate[]): Path | undefined {
  const unused = new Set(pool.toSorted((a, b) => b.validToDate.getTime() - a.validToDate.getTime()));
  const paths: Path[] = [[ca]];
  for (const path of paths) {
    const top = path.at(-1) ?? ca;
    if (top.verify(top.publicKey)) return path;
    for (const issuer of [...unused].filter((one) => hasSigned(one, top))) {
      unused.delete(issuer);
      paths.push([...path, issuer]);
    }
  }
  return undefined;
}

/** Without the checks of Node, so that `pathProblem` can say what is wrong with the issuer. */
const hasSigned = (issuer: X509Certificate, certificate: X509Certificate): boolean =>
  certificate.issuer === issuer.subject && certificate.verify(issuer.publicKey);

/** Certs refer to their issuer by name and key id, and clients know the root: a renewed CA must have the same. */
export const isRenewal = (imported: ImportedAuthority, active: Generation): boolean =>
  imported.id === active.id &&
  isSameCa(caOf(imported), caOf(active)) &&
  isSameCa(rootOf(imported), rootOf(active));

export function isRenewed(imported: ImportedAuthority, generation: Generation): boolean {
  const [before, after] = [generation, imported].map((one) => toCertificatePem(pathOf(one)));
  return before !== after;
}

/** Clients must trust old certs until their end, and clients that hold only one of the roots must accept new certs. */
export function renewalProblem(imported: ImportedAuthority, authority: Authority, now: Date) {
  const active = activeGeneration(authority);
  const { id, trustedUntil } = active;
  if (!isDeepStrictEqual(limitsOf(imported), limitsOf(active)))
    return (
      `the renewed certificates of the CA ${id} have other name constraints or extended key usages, so clients with one root would ` +
      'reject what the other one permits: put a CA with a new key into its secret'
    );
  const { notBefore, notAfter } = lifeOf(imported);
  if (notBefore > now)
    return `the renewed certificate of the CA ${id} begins at ${notBefore.toISOString()}: the current certificate remains in use until then`;
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
    return `the bundle is too full for the renewed root of the CA ${id}: ${nextRoom(authority, now)}`;
  return undefined;
}

/** An owner who renews often needs shorter lives. Every client loads all roots, and the bundle must have room for others. */
const MAX_FORMER_ROOTS = 8;

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

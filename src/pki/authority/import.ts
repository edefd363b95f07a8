/** A CA that the operator supplies in a Secret. Clients must accept it before it replaces another one. */
import type { X509Certificate } from 'node:crypto';
import { messageOf } from '../../json/error-message.ts';
import { quote } from '../../json/printable.ts';
import { CA_BUNDLE_KEY, TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../annotations.ts';
import { inKey, textOf, type SecretData } from '../secret-data.ts';
import { nameOf } from '../x509/path-problem.ts';
import { parsePrivateKeyPem, privateKeyOf, splitCertificates, toCertificatePem } from '../x509/pem.ts';
import { generationId, type ImportedAuthority } from './generation.ts';
import { sealKey, signHere } from './sealed-key.ts';
import { signTrial, type TrialScope } from './trial.ts';

export type ImportResult =
  | { readonly kind: 'imported'; readonly authority: ImportedAuthority }
  /** For users: what is wrong, and where. */
  | { readonly kind: 'refused'; readonly problem: string };

/**
 * Reads an imported CA from the `data` of its Secret (values in base64), as cert-manager writes it: `tls.crt` with the
 * CA and its issuers, `tls.key` with its key, and optionally `ca.crt` with the root. The root must be there, because
 * OpenSSL accepts only a self-signed one. Refuses a CA whose certificates in this scope some client would reject.
 */
export async function importAuthority(
  data: SecretData | undefined,
  scope: TrialScope,
  now: Date,
): Promise<ImportResult> {
  try {
    return { kind: 'imported', authority: await parseImported(data, scope, now) };
  } catch (error) {
    return { kind: 'refused', problem: messageOf(error) };
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
    await signTrial(authority, scope, now, signHere);
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

/** The path from the first certificate to a self-signed root. */
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

import { TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from './annotations.ts';
import { generationId, rootProblem, type ImportedAuthority } from './generation.ts';
import { parsePrivateKeyPem, privateKeyOf, splitCertificates, toCertificatePem } from './pem.ts';

export type ImportResult =
  | { readonly kind: 'imported'; readonly authority: ImportedAuthority }
  /** For people: what is wrong, and where. */
  | { readonly kind: 'refused'; readonly problem: string };

/**
 * Reads a CA that somebody else made from the `data` of their Secret (values in base64): `tls.crt` with one self-signed root,
 * `tls.key` with its key. An intermediate is refused: clients get the root of what signs, and OpenSSL takes no other.
 */
export function importAuthority(data: Readonly<Record<string, string>> | undefined, now: Date): ImportResult {
  const texts = [TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY].map((key) => ({ key, text: textOf(data?.[key]) }));
  const [certificateText = '', keyText = ''] = texts.map(({ text }) => text);
  const missing = texts.find(({ text }) => text === undefined);
  if (missing !== undefined) return refused(missing.key, 'it is missing');
  let dataKey: string = TLS_CERT_KEY;
  try {
    const [root, ...others] = splitCertificates(certificateText);
    if (root === undefined || others.length > 0)
      return refused(
        dataKey,
        `it holds ${root === undefined ? 0 : others.length + 1} certificates instead of one`,
      );
    const problem = rootProblem(root);
    if (problem !== undefined) return refused(dataKey, problem);
    if (root.validToDate <= now) return refused(dataKey, `it ended at ${root.validToDate.toISOString()}`);
    dataKey = TLS_PRIVATE_KEY_KEY;
    const key = parsePrivateKeyPem(keyText);
    if (!root.checkPrivateKey(privateKeyOf(key)))
      return refused(dataKey, `it is not the key of ${TLS_CERT_KEY}`);
    return {
      kind: 'imported',
      authority: { id: generationId(root.publicKey), certificate: toCertificatePem([root]), key },
    };
  } catch (error) {
    return refused(dataKey, error instanceof Error ? error.message : String(error));
  }
}

const refused = (dataKey: string, problem: string): ImportResult => ({
  kind: 'refused',
  problem: `${dataKey}: ${problem}`,
});

const textOf = (base64: string | undefined): string | undefined =>
  base64 === undefined || base64 === '' ? undefined : Buffer.from(base64, 'base64').toString('utf8');

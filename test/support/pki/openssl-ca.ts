/** CAs as an operator makes them: with OpenSSL, self-signed or below another one. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface MadeCa {
  readonly cert: string;
  readonly key: string;
}

const P256 = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'];

export interface WantedCa {
  readonly subject?: string;
  /** Empty, like `usage`: without the extension. */
  readonly constraints?: string;
  readonly usage?: string;
  readonly more?: readonly string[];
  readonly newKey?: readonly string[];
  readonly key?: string;
  /** Default: itself. */
  readonly issuer?: MadeCa;
  /** The form of the authority key identifier below an issuer. Default: `keyid`. */
  readonly authorityKeyId?: string;
  readonly days?: number;
  readonly digest?: string;
}

export function makeCa(wanted: WantedCa = {}): MadeCa {
  const { subject = '/O=Acme/CN=Acme Root', constraints = 'critical,CA:TRUE' } = wanted;
  const { usage = 'critical,keyCertSign,cRLSign', more = [] } = wanted;
  const extensions = [`basicConstraints=${constraints}`, `keyUsage=${usage}`, ...more];
  return sign({ ...wanted, subject }, [...extensions, 'subjectKeyIdentifier=hash']);
}

export const makeLeaf = (issuer: MadeCa, hostName: string): MadeCa =>
  sign({ issuer, subject: '/CN=server' }, [`subjectAltName=DNS:${hostName}`]);

function sign(
  { subject = '', newKey = P256, key, issuer, authorityKeyId = 'keyid', ...rest }: WantedCa,
  extensions: readonly string[],
): MadeCa {
  const { days = 365, digest = 'sha256' } = rest;
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-ca-'));
  const path = (name: string) => join(folder, name);
  const openssl = (...args: readonly string[]) => execFileSync('openssl', args, { stdio: 'ignore' });
  try {
    if (key !== undefined) writeFileSync(path('own.key'), key);
    const keys =
      key === undefined ? [...newKey, '-nodes', '-keyout', path('own.key')] : ['-key', path('own.key')];
    const keyId = issuer === undefined ? [] : [`authorityKeyIdentifier=${authorityKeyId}`];
    const written = [...extensions, ...keyId].filter((text) => !text.endsWith('='));
    writeFileSync(path('extensions'), `${written.join('\n')}\n`);
    writeFileSync(path('config'), '[req]\ndistinguished_name=name\n[name]\n');
    openssl('req', '-new', '-config', path('config'), ...keys, '-subj', subject, '-out', path('csr'));
    if (issuer !== undefined) {
      writeFileSync(path('issuer.crt'), issuer.cert);
      writeFileSync(path('issuer.key'), issuer.key);
    }
    const signer =
      issuer === undefined
        ? ['-signkey', path('own.key')]
        : ['-CA', path('issuer.crt'), '-CAkey', path('issuer.key'), '-CAcreateserial'];
    const options = ['-days', String(days), `-${digest}`, '-extfile', path('extensions')];
    openssl('x509', '-req', '-in', path('csr'), ...signer, ...options, '-out', path('crt'));
    return { cert: readFileSync(path('crt'), 'utf8'), key: readFileSync(path('own.key'), 'utf8') };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

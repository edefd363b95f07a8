/** CAs as an operator makes them: with OpenSSL, self-signed or below another one. */
import { execFileSync } from 'node:child_process';
import { mkdtempDisposableSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { base64 } from './fixtures.ts';

export interface MadeCa {
  readonly cert: string;
  readonly key: string;
}

/** The `data` of its Secret. cert-manager writes the root only to `ca.crt`. */
export const dataOf = (ca: MadeCa, root?: MadeCa, issuers: readonly MadeCa[] = []) => ({
  'tls.crt': base64([ca, ...issuers].map(({ cert }) => cert).join('')),
  'tls.key': base64(ca.key),
  ...(root === undefined ? {} : { 'ca.crt': base64(root.cert) }),
});

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
  readonly issuer?: MadeCa | undefined;
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

/** Backdated by a minute. An extension without a value is left out. */
export function sign(
  { subject = '', newKey = P256, key, issuer, authorityKeyId = 'keyid', ...rest }: WantedCa,
  extensions: readonly string[],
): MadeCa {
  const { days = 365, digest = 'sha256' } = rest;
  using folder = mkdtempDisposableSync(join(tmpdir(), 'gatehouse-ca-'));
  const path = (name: string) => join(folder.path, name);
  const openssl = (...args: readonly string[]) => execFileSync('openssl', args, { stdio: 'ignore' });
  const keyId = issuer === undefined ? [] : [`authorityKeyIdentifier=${authorityKeyId}`];
  const files = {
    ...(key === undefined ? {} : { 'own.key': key }),
    ...(issuer === undefined ? {} : { 'issuer.crt': issuer.cert, 'issuer.key': issuer.key }),
    extensions: `[all]\n${[...extensions, ...keyId].filter((text) => !text.endsWith('=')).join('\n')}\n`,
    index: '',
    config: [
      '[req]\ndistinguished_name=name\n[name]\n[ca]\ndefault_ca=own\n[own]',
      `database=${path('index')}\nnew_certs_dir=${folder.path}\nrand_serial=yes\npolicy=any\nunique_subject=no`,
      '[any]\norganizationName=optional\ncommonName=optional\n',
    ].join('\n'),
  };
  for (const [name, content] of Object.entries(files)) writeFileSync(path(name), content);
  const keys =
    key === undefined ? [...newKey, '-nodes', '-keyout', path('own.key')] : ['-key', path('own.key')];
  openssl('req', '-new', '-config', path('config'), ...keys, '-subj', subject, '-out', path('csr'));
  const by =
    issuer === undefined
      ? ['-selfsign', '-keyfile', path('own.key')]
      : ['-cert', path('issuer.crt'), '-keyfile', path('issuer.key')];
  const span = ['-startdate', timeIn(-60_000), '-enddate', timeIn(days * 86_400_000)];
  const extended = ['-extfile', path('extensions'), '-extensions', 'all', '-md', digest];
  const written = ['-preserveDN', '-in', path('csr'), '-out', path('crt')];
  openssl('ca', '-batch', '-notext', '-config', path('config'), ...by, ...span, ...extended, ...written);
  return { cert: readFileSync(path('crt'), 'utf8'), key: readFileSync(path('own.key'), 'utf8') };
}

const timeIn = (ms: number): string => new Date(Date.now() + ms).toISOString().replaceAll(/[-:T]|\.\d+/g, '');

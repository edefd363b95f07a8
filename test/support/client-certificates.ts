/** Client certificates as an operator creates them: with OpenSSL, from a separate CA. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

interface CertificateOrder {
  readonly commonName: string;
  readonly dnsNames?: readonly string[];
  readonly usage?: 'clientAuth' | 'serverAuth';
  /** In seconds; the certificate becomes valid before now. Default: a day. */
  readonly lifetimeSeconds?: number;
}

export interface ClientCa extends ClientCertificate {
  readonly issue: (order: CertificateOrder) => ClientCertificate;
  readonly intermediate: (commonName: string) => ClientCa;
}

export const createClientCa = (commonName: string): ClientCa => authorityOf(commonName, undefined);

function authorityOf(commonName: string, issuer: ClientCertificate | undefined): ClientCa {
  const extensions =
    'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash';
  const own = sign(commonName, extensions, 7 * 86_400, issuer);
  return {
    ...own,
    issue: ({ commonName: name, dnsNames = [], usage = 'clientAuth', lifetimeSeconds = 86_400 }) => {
      const names = dnsNames.map((dnsName) => `DNS:${dnsName}`).join(',');
      const more = names === '' ? '' : `\nsubjectAltName=${names}`;
      return sign(
        name,
        `keyUsage=critical,digitalSignature\nextendedKeyUsage=${usage}${more}`,
        lifetimeSeconds,
        own,
      );
    },
    intermediate: (name) => authorityOf(name, own),
  };
}

/** Backdated by a minute. */
function sign(
  commonName: string,
  extensions: string,
  lifetimeSeconds: number,
  issuer: ClientCertificate | undefined,
): ClientCertificate {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-client-ca-'));
  const file = (name: string) => join(folder, name);
  const openssl = (...args: readonly string[]) => execFileSync('openssl', args, { stdio: 'pipe' });
  const subject = `/CN=${commonName}`;
  const time = (fromNowMs: number) =>
    new Date(Date.now() + fromNowMs).toISOString().replaceAll(/[-:T]|\.\d+/g, '');
  try {
    const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', file('key')];
    openssl('req', '-new', ...newKey, '-out', file('request'), '-subj', subject);
    writeFileSync(file('extensions'), `[all]\n${extensions}\n`);
    writeFileSync(file('index'), '');
    writeFileSync(file('ca'), issuer?.cert ?? '');
    writeFileSync(file('ca-key'), issuer?.key ?? '');
    const config = [
      '[ca]\ndefault_ca=own\n[own]',
      `database=${file('index')}\nnew_certs_dir=${folder}\nrand_serial=yes\ndefault_md=sha256\npolicy=any\nunique_subject=no`,
      '[any]\ncommonName=supplied',
    ];
    writeFileSync(file('config'), `${config.join('\n')}\n`);
    const by =
      issuer === undefined
        ? ['-selfsign', '-keyfile', file('key')]
        : ['-cert', file('ca'), '-keyfile', file('ca-key')];
    const span = ['-startdate', time(-60_000), '-enddate', time(lifetimeSeconds * 1_000)];
    const extended = ['-extfile', file('extensions'), '-extensions', 'all'];
    const files = ['-in', file('request'), '-out', file('cert')];
    openssl('ca', '-batch', '-notext', '-config', file('config'), ...by, ...span, ...extended, ...files);
    return { cert: readFileSync(file('cert'), 'utf8'), key: readFileSync(file('key'), 'utf8') };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

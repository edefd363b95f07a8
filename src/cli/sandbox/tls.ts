import { createAuthority, activeGeneration } from '../../pki/authority/authority.ts';
import { DEFAULT_KEY_ALGORITHM, generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import { DEFAULT_SERVING_CERT_LIFETIME } from '../../pki/lifetimes.ts';
import { issueServingCert } from '../../pki/serving-certs/issue.ts';

export interface SandboxTls {
  /** The CA certificate, PEM. */
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

/** Creates a CA and a certificate for `localhost` and the names of the API server in a cluster. */
export async function createSandboxTls(now: Date): Promise<SandboxTls> {
  const [caKeys, keys] = await Promise.all([
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
  ]);
  const authority = await createAuthority({ keyPair: caKeys, serial: randomSerial(), now });
  const { chain } = await issueServingCert({
    authority,
    dnsNames: ['localhost', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc'],
    keyPair: keys,
    serial: randomSerial(),
    now,
    lifetimeMs: DEFAULT_SERVING_CERT_LIFETIME,
  });
  return { ca: activeGeneration(authority).certificate, cert: chain, key: keys.privateKey };
}

import { createAuthority, activeGeneration } from '../../pki/authority/authority.ts';
import { DEFAULT_KEY_ALGORITHM, generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import { issueServingCert } from '../../pki/serving-certs/issue.ts';

/** A sandbox is thrown away long before: milliseconds. */
const LIFETIME_MS = 365 * 24 * 3_600_000;

export interface SandboxTls {
  /** PEM that clients verify the sandbox with. */
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

/** A CA of its own for each sandbox, and a certificate for `localhost` and the names of a cluster's API server. */
export async function createSandboxTls(now: Date): Promise<SandboxTls> {
  const [caKeys, keys] = await Promise.all([
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
  ]);
  const authority = createAuthority({ keyPair: caKeys, serial: randomSerial(), now });
  const { chain } = issueServingCert({
    authority,
    dnsNames: ['localhost', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc'],
    keyPair: keys,
    serial: randomSerial(),
    now,
    lifetimeMs: LIFETIME_MS,
  });
  return { ca: activeGeneration(authority).certificate, cert: chain, key: keys.privateKey };
}

import { base64, type SecretData } from '../secret-data.ts';
import { toJksKeyStore, toJksTrustStore, toKeyStore, toTrustStore, type KeyStore } from './key-store.ts';
import type { CertificatePem } from '../x509/pem.ts';

export const OUTPUTS = ['pkcs12', 'jks', 'combined-pem'] as const;
export type Output = (typeof OUTPUTS)[number];

/** As in cert-manager, so applications already look for them. */
export const OUTPUT_KEYS: Readonly<Record<Output, readonly string[]>> = {
  pkcs12: ['keystore.p12', 'truststore.p12'],
  jks: ['keystore.jks', 'truststore.jks'],
  'combined-pem': ['tls-combined.pem'],
};

export const isOutput = (text: string): text is Output => OUTPUTS.some((output) => output === text);

export const isKeyStore = (output: Output): boolean => output !== 'combined-pem';

type OutputSource = KeyStore & { readonly bundle: CertificatePem };

export async function outputData(outputs: readonly Output[], source: OutputSource): Promise<SecretData> {
  const files = await Promise.all(outputs.map((output) => filesOf(output, source)));
  return Object.fromEntries(files.flat().map(([name, content]): [string, string] => [name, base64(content)]));
}

async function filesOf(
  output: Output,
  { chain, privateKey, bundle, password }: OutputSource,
): Promise<readonly (readonly [name: string, content: string | Uint8Array])[]> {
  switch (output) {
    case 'pkcs12':
      return [
        ['keystore.p12', await toKeyStore({ chain, privateKey, password })],
        ['truststore.p12', toTrustStore(bundle, password)],
      ];
    case 'jks':
      return [
        ['keystore.jks', toJksKeyStore({ chain, privateKey, password })],
        ['truststore.jks', toJksTrustStore(bundle, password)],
      ];
    case 'combined-pem':
      // The key first: HAProxy, MongoDB and others expect this order.
      return [['tls-combined.pem', privateKey + chain]];
  }
}

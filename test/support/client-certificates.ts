/** Client certificates as an operator creates them: with OpenSSL, from a separate CA. */
import { makeCa, sign, type MadeCa } from './pki/openssl-ca.ts';

export type ClientCertificate = MadeCa;

interface CertificateOrder {
  readonly commonName: string;
  readonly dnsNames?: readonly string[];
  readonly usage?: 'clientAuth' | 'serverAuth';
  /** Default: a day. */
  readonly lifetimeSeconds?: number;
}

interface ClientCa extends ClientCertificate {
  readonly issue: (order: CertificateOrder) => ClientCertificate;
  readonly intermediate: (commonName: string) => ClientCa;
}

export function createClientCa(commonName: string, issuer?: MadeCa): ClientCa {
  const own = makeCa({ subject: `/CN=${commonName}`, usage: 'critical,keyCertSign', days: 7, issuer });
  return {
    ...own,
    issue: ({ commonName: name, dnsNames = [], usage = 'clientAuth', lifetimeSeconds = 86_400 }) =>
      sign({ issuer: own, subject: `/CN=${name}`, days: lifetimeSeconds / 86_400 }, [
        'keyUsage=critical,digitalSignature',
        `extendedKeyUsage=${usage}`,
        `subjectAltName=${dnsNames.map((dnsName) => `DNS:${dnsName}`).join(',')}`,
      ]),
    intermediate: (name) => createClientCa(name, own),
  };
}

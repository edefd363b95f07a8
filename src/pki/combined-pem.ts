import type { CertificatePem, PrivateKeyPem } from './pem.ts';

/** Key and chain in one file, the key first: what HAProxy, MongoDB and others read. */
export const toCombinedPem = (privateKey: PrivateKeyPem, chain: CertificatePem): string => privateKey + chain;

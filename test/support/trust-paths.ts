/** What a client decides that applies the name constraints of each CA, on every path that it may find. */
import type { X509Certificate } from 'node:crypto';

import { certificateFields, forbiddenName } from '../../src/pki/x509/certificate-fields.ts';
import { splitCertificates } from '../../src/pki/x509/pem.ts';

/** Whether each path from the leaf of this chain to a root of the bundle permits the names of the leaf. */
export function permitsOnAllPaths(chain: string, bundle: string, at: Date): boolean {
  const [leaf, ...others] = splitCertificates(chain);
  if (leaf === undefined) throw new Error('the chain is empty');
  const names = certificateFields(leaf).dnsNames;
  const roots = splitCertificates(bundle);
  if ([...others, ...roots].every((ca) => certificateFields(ca).nameConstraints === undefined)) return true;
  return pathsTo(roots, leaf, others, at).every(
    (path) => forbiddenName(path.map(certificateFields), names) === undefined,
  );
}

function pathsTo(
  roots: readonly X509Certificate[],
  certificate: X509Certificate,
  others: readonly X509Certificate[],
  at: Date,
): readonly (readonly X509Certificate[])[] {
  const issuersIn = (list: readonly X509Certificate[]) =>
    list.filter(
      (ca) =>
        ca.validFromDate <= at &&
        at < ca.validToDate &&
        certificate.checkIssued(ca) &&
        certificate.verify(ca.publicKey),
    );
  const above = issuersIn(others).flatMap((ca) =>
    pathsTo(
      roots,
      ca,
      others.filter((other) => other !== ca),
      at,
    ).map((path) => [ca, ...path]),
  );
  return [...issuersIn(roots).map((root) => [root]), ...above];
}

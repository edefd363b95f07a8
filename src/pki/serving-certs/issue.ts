import { activeGeneration, bridgesFrom, type Authority } from '../authority/authority.ts';
import { signServingCert } from '../x509/certificate.ts';
import { memoizeWeak } from '../../json/objects.ts';
import { certificateFields } from '../x509/certificate-fields.ts';
import { dnsNameProblem, isInside } from './dns-names.ts';
import { after, DAY, earliest, HOUR, MINUTE } from '../durations.ts';
import { issuerOf, rootOf } from '../authority/generation.ts';
import type { KeyPair } from '../x509/keys.ts';
import { joinCertificatePems, type CertificatePem } from '../x509/pem.ts';

export const DEFAULT_SERVING_CERT_LIFETIME = 90 * DAY;
/** For Gatehouse's own serving cert, which Gatehouse reloads without a restart. */
export const OWN_SERVING_CERT_LIFETIME = 7 * DAY;

/** A new cert is valid at once even if our clock is ten minutes ahead and a client's clock ten minutes behind. */
const BACKDATE = 30 * MINUTE;

/** A leaf ends this much before its CA, so that no client sees a valid leaf of an expired CA. */
const CA_MARGIN = HOUR;

export interface ServingCertOrder {
  readonly authority: Authority;
  readonly dnsNames: readonly string[];
  readonly keyPair: Pick<KeyPair, 'publicKey'>;
  readonly serial: Uint8Array;
  readonly now: Date;
  /** Milliseconds. */
  readonly lifetimeMs: number;
}

export interface ServingCert {
  /** The leaf and its bridges. Never a root: OpenSSL, Node, Python and curl reject a chain with an unknown root. */
  readonly chain: CertificatePem;
  readonly notAfter: Date;
}

/**
 * Issues a serving cert for `dnsNames`, signed by the active generation.
 * @throws Error if a cert cannot hold a name, if the active generation may not sign it, or if the active generation is not valid yet or ends too soon.
 */
export function issueServingCert(order: ServingCertOrder): ServingCert {
  const { authority, keyPair, serial, now, lifetimeMs } = order;
  const dnsNames = [...new Set(order.dnsNames)];
  checkDnsNames(dnsNames);

  const { signer, root, issuer, domains } = signerOf(authority);
  const outside = dnsNames.find((name) => domains?.some((domain) => isInside(name, domain)) === false);
  if (outside !== undefined)
    throw new Error(
      `the DNS name "${outside}" is outside the name constraints of generation ${signer.id} of the authority ` +
        `(${domains?.join(', ') ?? ''}): rotate the authority, so that the next generation permits it`,
    );
  if (now < root.validFromDate)
    throw new Error(
      `the clock says ${now.toISOString()}, which is before generation ${signer.id} of the authority begins ` +
        `(${root.validFromDate.toISOString()}): a cert made now might be expired for everybody else. Check the clock.`,
    );
  const notAfter = earliest(after(now, lifetimeMs), latestServingCertEnd(root.validToDate));
  if (notAfter <= now)
    throw new Error(
      `generation ${signer.id} of the authority ends at ${root.validToDate.toISOString()}: too soon to issue a cert. ` +
        'Rotate the authority.',
    );

  const leaf = signServingCert(
    { dnsNames },
    keyPair.publicKey,
    { serial, notBefore: after(now, -BACKDATE), notAfter },
    issuer,
  );
  const chain = joinCertificatePems([leaf, ...bridgesFrom(authority, signer.id, now)]);
  return { chain, notAfter: new Date(Math.floor(notAfter.getTime() / 1_000) * 1_000) }; // X.509 has whole seconds
}

/** Memoised, because one authority signs thousands of leaves. */
const signerOf = memoizeWeak((authority: Authority) => {
  const signer = activeGeneration(authority);
  const root = rootOf(signer);
  return { signer, root, issuer: issuerOf(signer), domains: certificateFields(root).permittedDomains };
});

/** The latest possible end of a serving cert whose CA ends at `authorityEnd`. */
export const latestServingCertEnd = (authorityEnd: Date): Date => after(authorityEnd, -CA_MARGIN);

function checkDnsNames(dnsNames: readonly string[]): void {
  if (dnsNames.length === 0) throw new Error('a serving cert needs at least one DNS name');
  for (const name of dnsNames) {
    const problem = dnsNameProblem(name);
    if (problem !== undefined)
      throw new Error(`the DNS name "${name}" cannot stand in a serving cert: it ${problem}`);
  }
}

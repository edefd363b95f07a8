import type { CertificateFields } from './certificate-fields.ts';

/** Which DNS names a CA may sign. The names in a leaf must be within the limits of each CA above it. */
export type NameLimits = Pick<CertificateFields, 'permittedDomains' | 'excludedDomains'>;

/** Whether `name` is `domain` or a subdomain of it. Compares whole labels. */
export const isInside = (name: string, domain: string): boolean =>
  name === domain || name.endsWith(`.${domain}`);

/** The first of these DNS names that is outside the limits. */
export const forbiddenName = (
  limits: readonly NameLimits[],
  dnsNames: readonly string[],
): string | undefined => dnsNames.find((name) => !limits.every((limit) => permits(limit, name)));

const permits = ({ permittedDomains, excludedDomains }: NameLimits, name: string): boolean =>
  (permittedDomains?.some((domain) => isInside(name, domain)) ?? true) &&
  !excludedDomains.some((domain) => domain === '' || isInside(name, domain));

/** For messages: the permitted domains, and the excluded ones. */
export const describeLimits = (limits: readonly NameLimits[]): string =>
  limits
    .flatMap(({ permittedDomains = [], excludedDomains }) => [
      ...permittedDomains,
      ...excludedDomains.map((domain) => `not ${domain === '' ? 'any name' : domain}`),
    ])
    .join(', ');

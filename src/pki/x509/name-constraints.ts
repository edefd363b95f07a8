import { addressBytes } from './addresses.ts';
import type { NameLimits } from './certificate-fields.ts';

type DomainLimits = Pick<NameLimits, 'permittedDomains' | 'excludedDomains'>;
type AddressLimits = Pick<NameLimits, 'permittedAddresses' | 'excludedAddresses'>;

/** Whether `name` is `domain` or a subdomain of it. Compares whole labels. */
export const isInside = (name: string, domain: string): boolean =>
  name === domain || name.endsWith(`.${domain}`);

/** The first of these DNS names that is outside the limits. */
export const forbiddenName = (
  limits: readonly DomainLimits[],
  dnsNames: readonly string[],
): string | undefined => dnsNames.find((name) => !limits.every((limit) => permits(limit, name)));

const permits = ({ permittedDomains, excludedDomains }: DomainLimits, name: string): boolean =>
  (permittedDomains?.some((domain) => isInside(name, domain)) ?? true) &&
  !excludedDomains.some((domain) => domain === '' || isInside(name, domain));

/** The first of these IP addresses that is outside the limits. */
export const forbiddenAddress = (
  limits: readonly AddressLimits[],
  addresses: readonly string[],
): string | undefined =>
  addresses.find((address) => !limits.every((limit) => permitsAddress(limit, address)));

function permitsAddress({ permittedAddresses, excludedAddresses }: AddressLimits, text: string): boolean {
  const address = addressBytes(text) ?? Uint8Array.of();
  const isInRange = (range: Uint8Array) =>
    range.length === 2 * address.length &&
    address.every((octet, index) => {
      const mask = range[address.length + index] ?? 0;
      return (octet & mask) === ((range[index] ?? 0) & mask);
    });
  return (permittedAddresses?.some(isInRange) ?? true) && !excludedAddresses.some(isInRange);
}

/** For messages: the permitted domains, and the excluded ones. */
export const describeLimits = (limits: readonly DomainLimits[]): string =>
  limits
    .flatMap(({ permittedDomains = [], excludedDomains }) => [
      ...permittedDomains,
      ...excludedDomains.map((domain) => `not ${domain === '' ? 'any name' : domain}`),
    ])
    .join(', ');

import type { NameLimits } from './certificate-fields.ts';

/** URLs normalise IPv4 addresses to this form. No DNS name ends in a number (RFC 1123 §2.1). */
const DOTTED = /^\d+\.\d+\.\d+\.\d+$/;

/** 4 or 16 octets of an address as {@link canonicalAddress} or a URL writes it; undefined for a DNS name. */
export function addressBytes(host: string): Uint8Array | undefined {
  if (DOTTED.test(host)) return Uint8Array.from(host.split('.'), Number);
  if (!host.includes(':')) return undefined;
  const [head = '', tail] = host.split('::');
  const left = groupsOf(head);
  const right = tail === undefined ? [] : groupsOf(tail);
  const gap = Array.from({ length: 8 - left.length - right.length }, () => 0);
  return Uint8Array.from([...left, ...gap, ...right].flatMap((group) => [group >> 8, group & 0xff]));
}

/** URLs normalise IPv6 addresses to hexadecimal groups, without a dotted IPv4 end. */
const groupsOf = (text: string): readonly number[] =>
  text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));

/** The only text of this address; undefined if it is none, or is ambiguous: some readers take `010` for eight. */
export function canonicalAddress(text: string): string | undefined {
  if (DOTTED.test(text)) return URL.parse(`http://${text}`)?.hostname === text ? text : undefined;
  if (!/^[\da-f:.]*:[\da-f:.]*$/i.test(text)) return undefined;
  return URL.parse(`http://[${text}]`)?.hostname.slice(1, -1);
}

export function addressText(octets: Uint8Array): string {
  if (octets.length !== 16) return octets.join('.');
  const groups = Array.from({ length: 8 }, (_, group) =>
    Buffer.from(octets)
      .readUInt16BE(2 * group)
      .toString(16),
  );
  return canonicalAddress(groups.join(':')) ?? groups.join(':');
}

type DomainLimits = Pick<NameLimits, 'permittedDomains' | 'excludedDomains'>;
type AddressLimits = Pick<NameLimits, 'permittedAddresses' | 'excludedAddresses'>;

/** Whether `name` is `domain` or a subdomain of it. Compares whole labels. */
export const isInside = (name: string, domain: string): boolean =>
  name === domain || name.endsWith(`.${domain}`);

export const forbiddenName = (
  limits: readonly DomainLimits[],
  dnsNames: readonly string[],
): string | undefined => dnsNames.find((name) => !limits.every((limit) => permits(limit, name)));

const permits = ({ permittedDomains, excludedDomains }: DomainLimits, name: string): boolean =>
  (permittedDomains?.some((domain) => isInside(name, domain)) ?? true) &&
  !excludedDomains.some((domain) => domain === '' || isInside(name, domain));

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

export const describeLimits = (limits: readonly DomainLimits[]): string =>
  limits
    .flatMap(({ permittedDomains = [], excludedDomains }) => [
      ...permittedDomains,
      ...excludedDomains.map((domain) => `not ${domain === '' ? 'any name' : domain}`),
    ])
    .join(', ');

import { CelError } from '../cel-error.ts';
import { parsing } from '../frame.ts';
import { CEL_TYPE, type CelOpaque } from '../values.ts';
import { define } from './define.ts';
import { ipOf, parseIp, showIp } from './ip.ts';
import { succeeds } from './succeeds.ts';
import type { CelCidr, CelIp } from './opaque-values.ts';

const LENGTH = /^(?:0|[1-9]\d{0,2})$/;
const size = ({ family }: CelIp) => (family === 4 ? 32 : 128);

const cidrOf = (address: CelIp, length: number): CelCidr => ({
  [CEL_TYPE]: 'net.CIDR',
  address,
  length,
  identity: (address.identity << 8n) | BigInt(length),
});

export const showCidr = ({ address, length }: CelCidr): string => `${showIp(address)}/${length}`;

/** @throws CelError */
function parseCidr(text: string): CelCidr {
  const slash = text.lastIndexOf('/');
  const length = text.slice(slash + 1);
  if (slash === -1) throw invalid(text, "no '/'");
  const address = parseAddress(text, text.slice(0, slash));
  if (!LENGTH.test(length)) throw invalid(text, `bad bits after slash: ${JSON.stringify(length)}`);
  if (Number(length) > size(address)) throw invalid(text, 'prefix length out of range');
  return cidrOf(address, Number(length));
}

function parseAddress(text: string, address: string): CelIp {
  try {
    return parseIp(address);
  } catch (error) {
    throw error instanceof CelError ? invalid(text, error.message) : error;
  }
}

const invalid = (text: string, why: string) =>
  new CelError(
    `network address parse error during conversion from string: netip.ParsePrefix(${JSON.stringify(text)}): ${why}`,
  );

const masked = (bits: bigint, address: CelIp, length: number) => {
  const rest = BigInt(size(address) - length);
  return (bits >> rest) << rest;
};

const contains = ({ address, length }: CelCidr, other: CelIp) =>
  address.family === other.family &&
  masked(address.bits, address, length) === masked(other.bits, address, length);

/** The API server compares with the other's address as it is written, not with its network. */
const containsNetwork = (self: CelCidr, other: CelCidr) =>
  self.length <= other.length &&
  self.address.family === other.address.family &&
  contains(self, other.address);

/** Networks. `string(cidr)` is among the conversions. */
export const cidr = [
  define('cidr(string): cidr', parseCidr, parsing),
  define('isCIDR(string): bool', succeeds(parseCidr), parsing),
  define('<cidr>.containsIP(ip): bool', contains, () => 4),
  define(
    '<cidr>.containsIP(string): bool',
    (self, text) => contains(self, parseIp(text)),
    (_self, text) => 4 + parsing(text),
  ),
  define('<cidr>.containsCIDR(cidr): bool', containsNetwork, () => 6),
  define(
    '<cidr>.containsCIDR(string): bool',
    (self, text) => containsNetwork(self, parseCidr(text)),
    (_self, text) => 6 + parsing(text),
  ),
  define('<cidr>.ip(): ip', ({ address }) => address),
  define('<cidr>.prefixLength(): int', ({ length }) => BigInt(length)),
  define('<cidr>.masked(): cidr', ({ address, length }) =>
    cidrOf(ipOf(masked(address.bits, address, length), address.family), length),
  ),
];

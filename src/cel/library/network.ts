import { CelError } from '../cel-error.ts';
import { CEL_TYPE, parsing } from '../values/values.ts';
import { type CelCidr, type CelIp, define } from './define.ts';
import { succeeds } from './text.ts';

const SHORT_NUMBER = /^(?:0|[1-9]\d{0,2})$/;
const size = ({ family }: CelIp) => (family === 4 ? 32 : 128);

const cidrOf = (address: CelIp, length: number): CelCidr => ({
  [CEL_TYPE]: 'net.CIDR',
  address,
  length,
  identity: (address.identity << 8n) | BigInt(length),
});

export const showCidr = ({ address, length }: CelCidr): string => `${showIp(address)}/${length}`;

function parseCidr(text: string): CelCidr {
  const slash = text.lastIndexOf('/');
  const length = text.slice(slash + 1);
  if (slash === -1) throw invalid(text, "no '/'");
  const address = parseAddress(text, text.slice(0, slash));
  if (!SHORT_NUMBER.test(length)) throw invalid(text, `bad bits after slash: ${JSON.stringify(length)}`);
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

/** Like the API server, compares with the other's address as written, not with its network address. */
const containsNetwork = (self: CelCidr, other: CelCidr) =>
  self.length <= other.length &&
  self.address.family === other.address.family &&
  contains(self, other.address);

export const cidr = [
  define('cidr(string): cidr', parseCidr, parsing),
  define('isCIDR(string): bool', succeeds(parseCidr), parsing),
  define('<cidr>.containsIP(ip): bool', contains, () => 4),
  define(
    '<cidr>.containsIP(string): bool',
    (self, text) => contains(self, parseIp(text)),
    (_self, text) => 4 + parsing(text),
  ),
  define('<cidr>.ip(): ip', ({ address }) => address),
  define('<cidr>.prefixLength(): int', ({ length }) => BigInt(length)),
  define('<cidr>.masked(): cidr', ({ address, length }) =>
    cidrOf(ipOf(masked(address.bits, address, length), address.family), length),
  ),
];

export const containsCidr = [
  define('<cidr>.containsCIDR(cidr): bool', containsNetwork, () => 6),
  define(
    '<cidr>.containsCIDR(string): bool',
    (self, text) => containsNetwork(self, parseCidr(text)),
    (_self, text) => 6 + parsing(text),
  ),
];

const GROUP = /^[0-9a-f]{1,4}$/i;

/** @throws CelError even for addresses with a zone, and for IPv4 addresses in IPv6 notation */
function parseIp(text: string): CelIp {
  if (text.includes('%') && text.includes(':')) {
    throw new CelError(`IP address ${JSON.stringify(text)} with zone value is not allowed`);
  }
  const bits = text.includes(':') ? bitsOf6(text) : bitsOf4(text);
  if (bits === undefined) {
    const quoted = JSON.stringify(text);
    throw new CelError(
      `IP Address ${quoted} parse error during conversion from string: ParseAddr(${quoted}): unable to parse IP`,
    );
  }
  const family = text.includes(':') ? 6 : 4;
  if (family === 6 && bits >> 32n === 0xffffn) {
    throw new CelError(`IPv4-mapped IPv6 address ${JSON.stringify(text)} is not allowed`);
  }
  return ipOf(bits, family);
}

const ipOf = (bits: bigint, family: 4 | 6): CelIp => ({
  [CEL_TYPE]: 'net.IP',
  bits,
  family,
  identity: family === 4 ? bits : bits | ABOVE_IP4,
});

const ABOVE_IP4 = 1n << 128n;

export const showIp = ({ bits, family }: CelIp): string => (family === 4 ? show4(bits) : show6(bits));

function bitsOf4(text: string): bigint | undefined {
  const octets = text.split('.');
  if (octets.length !== 4 || !octets.every((octet) => SHORT_NUMBER.test(octet) && Number(octet) < 256))
    return undefined;
  return octets.reduce((bits, octet) => (bits << 8n) | BigInt(octet), 0n);
}

function bitsOf6(text: string): bigint | undefined {
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const [head, tail] = halves.map(groupsOf);
  if (head === undefined || (halves.length === 2 && tail === undefined)) return undefined;
  const last = tail ?? [];
  const missing = 8 - head.length - last.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
  return [...head, ...Array<bigint>(missing).fill(0n), ...last].reduce(
    (bits, group) => (bits << 16n) | group,
    0n,
  );
}

/** The last 32 bits may be written as an IPv4 address. */
function groupsOf(text: string): readonly bigint[] | undefined {
  if (text === '') return [];
  const words = text.split(':');
  const last = words.at(-1) ?? '';
  const four = last.includes('.') ? bitsOf4(last) : undefined;
  const plain = last.includes('.') ? words.slice(0, -1) : words;
  if ((last.includes('.') && four === undefined) || !plain.every((word) => GROUP.test(word)))
    return undefined;
  const groups = plain.map((word) => BigInt(`0x${word}`));
  return four === undefined ? groups : [...groups, four >> 16n, four & 0xffffn];
}

const show4 = (bits: bigint) => [24n, 16n, 8n, 0n].map((shift) => String((bits >> shift) & 0xffn)).join('.');

/** RFC 5952: omits the first of the longest runs of zeroes. */
function show6(bits: bigint): string {
  const groups = Array.from({ length: 8 }, (_, i) =>
    Number((bits >> BigInt(16 * (7 - i))) & 0xffffn).toString(16),
  );
  const text = groups.join(':');
  const runs = [...text.matchAll(/(?<![^:])0(?::0)+(?![^:])/g)];
  const [longest] = runs.toSorted(([left], [right]) => right.length - left.length); // stable
  if (longest === undefined) return text;
  const before = text.slice(0, longest.index).replace(/:$/, '');
  const after = text.slice(longest.index + longest[0].length).replace(/^:/, '');
  return `${before}::${after}`;
}

const startsWith = ({ bits, family }: CelIp, start: bigint, length: number, of: 4 | 6) =>
  family === of && bits >> BigInt((of === 4 ? 32 : 128) - length) === start;

const isLoopback = (ip: CelIp) => startsWith(ip, 127n, 8, 4) || startsWith(ip, 1n, 128, 6);
const isUnspecified = ({ bits }: CelIp) => bits === 0n;
const isMulticast = (ip: CelIp) => startsWith(ip, 0xen, 4, 4) || startsWith(ip, 0xffn, 8, 6);
const isLinkLocalUnicast = (ip: CelIp) =>
  startsWith(ip, 0xa9fen, 16, 4) || startsWith(ip, 0xfe80n >> 6n, 10, 6);
const isLinkLocalMulticast = (ip: CelIp) =>
  startsWith(ip, 0xe00000n, 24, 4) ||
  (isMulticast(ip) && ip.family === 6 && ((ip.bits >> 112n) & 0xfn) === 2n);
const isBroadcast = (ip: CelIp) => startsWith(ip, 0xffff_ffffn, 32, 4);

export const ip = [
  define('ip(string): ip', parseIp, parsing),
  define('isIP(string): bool', succeeds(parseIp), parsing),
  define('ip.isCanonical(string): bool', (text) => showIp(parseIp(text)) === text, parsing),
  define('<ip>.family(): int', ({ family }) => BigInt(family)),
  define('<ip>.isUnspecified(): bool', isUnspecified),
  define('<ip>.isLoopback(): bool', isLoopback),
  define('<ip>.isLinkLocalMulticast(): bool', isLinkLocalMulticast),
  define('<ip>.isLinkLocalUnicast(): bool', isLinkLocalUnicast),
  define(
    '<ip>.isGlobalUnicast(): bool',
    (self) =>
      ![isUnspecified, isBroadcast, isLoopback, isMulticast, isLinkLocalUnicast].some((is) => is(self)),
  ),
];

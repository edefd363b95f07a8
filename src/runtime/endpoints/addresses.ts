/** To which addresses the leader may open a connection. Users who may write EndpointSlices choose the addresses. */
import { BlockList, isIP } from 'node:net';

/**
 * The leader itself, its node, and services of the node or the cloud, such as its metadata: never a pod. Addresses that
 * contain an IPv4 address could lead to any of these.
 */
const REFUSED = [
  '0.0.0.0/8', // this host
  '100.100.100.200/32', // metadata of Alibaba Cloud
  '127.0.0.0/8', // loopback
  '168.63.129.16/32', // the platform of Azure
  '169.254.0.0/16', // link-local, with the metadata of most clouds
  '192.0.0.192/32', // metadata of Oracle Cloud
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, broadcast
  '::/96', // unspecified, loopback, embedded IPv4
  '64:ff9b::/96', // embedded IPv4 (NAT64)
  '64:ff9b:1::/48', // embedded IPv4 (local NAT64)
  '2001::/32', // embedded IPv4 (Teredo)
  '2002::/16', // embedded IPv4 (6to4)
  'fd00:ec2::254/128', // metadata of AWS
  'fd20:ce::254/128', // metadata of Google Cloud
  'fe80::/10', // link-local
  'ff00::/8', // multicast
] as const;

const refused = new BlockList();
for (const network of REFUSED) {
  const [address = '', prefix] = network.split('/');
  refused.addSubnet(address, Number(prefix), isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

/** False for names too: what they resolve to can change. */
export function mayProbe(address: string): boolean {
  const family = isIP(address);
  if (family === 0 || address.includes('%')) return false;
  // Node also finds an IPv4 address that is written as an IPv6 address (::ffff:127.0.0.1).
  return !refused.check(address, family === 6 ? 'ipv6' : 'ipv4');
}

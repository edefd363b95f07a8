import { expect, test } from 'vitest';
import { mayProbe } from './slices.ts';

test.each([
  '10.0.0.7',
  '192.168.3.4',
  '100.64.1.2',
  '203.0.113.9',
  'fd00::7',
  '2001:db8::1',
  '100.100.100.201',
])('the leader may connect to %s', (address) => {
  expect(mayProbe(address)).toBe(true);
});

test.each([
  ['loopback', ['127.0.0.1', '127.8.9.10', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1', '0:0:0:0:0:0:0:1']],
  ['this host', ['0.0.0.0', '::', '::ffff:0.0.0.0']],
  [
    'link-local',
    ['169.254.169.254', 'fe80::1', 'fe80::1%eth0', '::ffff:169.254.169.254', '64:ff9b::a9fe:a9fe'],
  ],
  ['multicast and broadcast', ['224.0.0.1', 'ff02::1', '255.255.255.255']],
  [
    'services of a cloud',
    ['fd00:ec2::254', 'fd20:ce::254', '100.100.100.200', '168.63.129.16', '192.0.0.192', '::ffff:a83f:8110'],
  ],
  [
    'an embedded IPv4 address',
    ['64:ff9b:1::7f00:1', '2002:7f00:1::1', '2002:a9fe:a9fe::', '2001:0:1::7f00:1'],
  ],
  ['a name', ['localhost', 'db.example.com', '']],
  ['another notation', ['127.1', '2130706433', '0x7f.0.0.1', '[::1]']],
])('the leader never connects to %s', (_what, addresses) => {
  expect(addresses.filter(mayProbe)).toEqual([]);
});

import { expect, test } from 'vitest';
import { endpointsOf, toStoredSlice, type EndpointSlice, mayProbe } from './slices.ts';

const pod = (name: string, address: string, ready?: boolean) => ({
  addresses: [address],
  ...(ready === undefined ? {} : { conditions: { ready } }),
  targetRef: { kind: 'Pod', name },
});

const slice = (change: Partial<EndpointSlice> = {}): EndpointSlice =>
  toStoredSlice({
    metadata: { namespace: 'shop', name: 'db-x', labels: { 'kubernetes.io/service-name': 'db' } },
    addressType: 'IPv4',
    endpoints: [pod('db-0', '10.0.0.1')],
    ports: [{ name: 'https', port: 8443, protocol: 'TCP' }],
    ...change,
  });

const asked = (slices: readonly EndpointSlice[], named?: string, limit = 10) =>
  endpointsOf(slices, named, limit).map(({ pod, address, port }) => `${pod} ${address} ${port}`);

test('each ready pod is asked at each TCP port', () => {
  const ports = [
    { name: 'https', port: 8443, protocol: 'TCP' },
    { name: 'metrics', port: 9443 },
    { name: 'dns', port: 53, protocol: 'UDP' },
  ];
  const endpoints = [pod('db-0', '10.0.0.1', true), pod('db-1', '10.0.0.2'), pod('db-2', '10.0.0.3', false)];
  expect(asked([slice({ ports, endpoints })])).toEqual([
    'db-0 10.0.0.1 8443',
    'db-1 10.0.0.2 8443',
    'db-0 10.0.0.1 9443',
    'db-1 10.0.0.2 9443',
  ]);
});

test('the result ends one endpoint behind the limit', () => {
  const ports = [1, 2, 3, 4].map((port) => ({ name: `p${port}`, port }));
  const endpoints = [1, 2, 3, 4].map((number) => pod(`db-${number}`, `10.0.0.${number}`));
  expect(asked([slice({ ports, endpoints })], undefined, 6)).toHaveLength(7);
});

test('a pod with two addresses is asked once, by IPv4', () => {
  const six = slice({ addressType: 'IPv6', endpoints: [pod('db-0', 'fd00::1'), pod('db-1', 'fd00::2')] });
  expect(asked([six, slice()])).toEqual(['db-0 10.0.0.1 8443', 'db-1 fd00::2 8443']);
});

test.each<[string, Partial<EndpointSlice>]>([
  ['an address without a pod', { endpoints: [{ addresses: ['10.0.0.1'] }] }],
  ['another kind', { endpoints: [{ addresses: ['10.0.0.1'], targetRef: { kind: 'Node', name: 'a' } }] }],
  ['the metadata of the cloud', { endpoints: [pod('db-0', '169.254.169.254')] }],
  ['the leader itself', { endpoints: [pod('db-0', '127.0.0.1')] }],
  ['what no pod can be called', { endpoints: [pod('db-0\nall is well', '10.0.0.1'), pod('', '10.0.0.2')] }],
  ['a name', { addressType: 'FQDN', endpoints: [pod('db-0', 'db.example.com')] }],
  ['a port whose protocol excludes TLS', { ports: [{ name: 'web', port: 80, appProtocol: 'http' }] }],
  ['a slice without ports', { ports: [] }],
])('never asked: %s', (_what, change) => {
  expect(asked([slice(change)])).toEqual([]);
});

test.each([
  [undefined, [8443, 9443]],
  ['https', [8443]],
  ['9443, https', [8443, 9443]],
  ['web', [80]],
  ['none', []],
  ['', []],
])('with the annotation %j, the ports are %j', (named, expected) => {
  const ports = [
    { name: 'https', port: 8443 },
    { name: 'metrics', port: 9443 },
    { name: 'web', port: 80, appProtocol: 'http' },
  ];
  expect(endpointsOf([slice({ ports })], named, 10).map(({ port }) => port)).toEqual(expected);
});

test('a port certainly uses TLS if the annotation or its protocol declares it', () => {
  const https = slice({ ports: [{ name: 'a', port: 1, appProtocol: 'https' }] });
  expect(endpointsOf([https], undefined, 10).map(({ isTls }) => isTls)).toEqual([true]);
  expect(endpointsOf([slice()], undefined, 10).map(({ isTls }) => isTls)).toEqual([false]);
  expect(endpointsOf([slice()], '8443', 10).map(({ isTls }) => isTls)).toEqual([true]);
});

test('the leader may connect to addresses that pods have, even next to that of a service of a cloud', () => {
  const ofClusters = ['10.0.0.7', '192.168.3.4', '100.64.1.2', '203.0.113.9', 'fd00::7', '2001:db8::1'];
  const addresses = [...ofClusters, '100.100.100.201'];
  expect(addresses.filter(mayProbe)).toEqual(addresses);
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
  ['embedded IPv4', ['64:ff9b:1::7f00:1', '2002:7f00:1::1', '2002:a9fe:a9fe::', '2001:0:1::7f00:1']],
  ['a name', ['localhost', 'db.example.com', '']],
  ['another notation', ['127.1', '2130706433', '0x7f.0.0.1', '[::1]']],
])('the leader never connects to %s', (_what, addresses) => {
  expect(addresses.filter(mayProbe)).toEqual([]);
});

import { expect, test } from 'vitest';

import { resolveConfig } from './config.ts';
import { parseDevUrl } from './dev-url.ts';

test.each([
  [
    'https://eva.example.com:8443',
    { origin: 'https://eva.example.com:8443', host: 'eva.example.com', port: 8443 },
  ],
  ['https://Eva.Example.com/', { origin: 'https://eva.example.com', host: 'eva.example.com', port: 443 }],
  ['https://192.168.1.7:9443', { origin: 'https://192.168.1.7:9443', host: '192.168.1.7', port: 9443 }],
  ['https://[fd00::7]:9443', { origin: 'https://[fd00::7]:9443', host: 'fd00::7', port: 9443 }],
])('%s is a valid webhook URL', (text, expected) => {
  expect(parseDevUrl(text)).toEqual(expected);
});

test.each([
  ['laptop:8443', 'is not https'],
  ['laptop', 'is not a URL'],
  ['http://laptop:8443', 'is not https'],
  ['https://laptop:8443/hooks', 'has a path'],
  ['https://laptop:8443?a=b', 'has a query or a fragment'],
  ['https://laptop:8443#a', 'has a query or a fragment'],
  ['https://my_laptop:8443', 'neither a DNS name nor an IP address'],
  ['https://0.0.0.0:8443', 'is an address to listen on'],
])('%s is rejected with a reason', (text, why) => {
  expect(() => resolveConfig({ 'dev-url': text }, {})).toThrow(`--dev-url: "`);
  expect(() => parseDevUrl(text)).toThrow(why);
});

test('a URL with a password is rejected, and the password is not repeated', () => {
  expect(() => parseDevUrl('https://eva:hunter2@laptop:8443')).toThrow(/^(?!.*hunter2).*user or a password/);
});

test('the URL sets the port, and restarts are fast, unless a flag overrides them', () => {
  const url = { 'dev-url': 'https://laptop:9443' };
  expect(resolveConfig(url, {})).toMatchObject({ port: 9443, operationsPort: 0, drainDelayMs: 1_000 });
  expect(resolveConfig({ ...url, port: '7443' }, { GATEHOUSE_DRAIN_DELAY: '3s' })).toMatchObject({
    port: 7443,
    drainDelayMs: 3_000,
  });
  expect(resolveConfig({}, {})).toMatchObject({ devUrl: undefined, port: 8443, operationsPort: 8080 });
});

import { expect, test } from 'vitest';

import { resolveConfig } from './config.ts';

test('names are a list, and patterns are rejected', () => {
  const names = (text: string) =>
    resolveConfig({ 'client-ca': '/ca.crt', 'client-names': text }, {}).clients.names;
  expect(names('')).toEqual([]);
  expect(names('system:kube-apiserver, api.example.com,,api.example.com')).toEqual([
    'system:kube-apiserver',
    'api.example.com',
  ]);
  expect(() => names('*.example.com')).toThrow('--client-names: "*.example.com" is a pattern');
  expect(() => names('.example.com')).toThrow('--client-names: ".example.com" is a pattern');
});

test('names or conversions without a CA are rejected, because no client is asked for a certificate', () => {
  const why = '--client-names and --client-ca-for have no effect without --client-ca';
  expect(() => resolveConfig({ 'client-names': 'a' }, {})).toThrow(why);
  expect(() => resolveConfig({ 'client-ca-for': 'all' }, {})).toThrow(why);
  expect(resolveConfig({}, {}).clients).toEqual({ ca: undefined, names: [], scope: 'admission' });
});

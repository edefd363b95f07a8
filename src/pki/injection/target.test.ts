import { describe, expect, test } from 'vitest';
import { base64 } from '../../../test/support/pki/fixtures.ts';
import { TARGET_KINDS, toTarget, type RawTarget } from './target.ts';

const { mutating, validating, customResourceDefinition, apiService, configMap } = TARGET_KINDS;
const service = { namespace: 'prod', name: 'hook' };
const ASKS = { 'gatehouse.dev/inject-cabundle': 'true' };

const slotsOf = (kind: Parameters<typeof toTarget>[0], raw: RawTarget) =>
  toTarget(kind, { metadata: { annotations: ASKS }, ...raw }, []).slots;

describe('fields for a bundle', () => {
  test('each entry of a webhook configuration has one', () => {
    const webhooks = [
      { name: 'a', clientConfig: { service, caBundle: 'YQ==' } },
      { name: 'b', clientConfig: { url: 'https://example.com' } },
    ];
    const slots = [
      { name: 'a', present: 'YQ==', reach: 'service' },
      { name: 'b', present: undefined, reach: 'url' },
    ];
    expect(slotsOf(mutating, { webhooks })).toEqual(slots);
    expect(slotsOf(validating, { webhooks })).toEqual(slots);
  });

  test.each([
    ['strategy None', { strategy: 'None' }],
    ['strategy None with a webhook left over', { strategy: 'None', webhook: { clientConfig: { service } } }],
    ['no client', { strategy: 'Webhook', webhook: {} }],
  ])('a CustomResourceDefinition with %s has none', (_what, conversion) => {
    expect(slotsOf(customResourceDefinition, { spec: { conversion } })).toEqual([]);
    expect(slotsOf(customResourceDefinition, { spec: {} })).toEqual([]);
  });

  test('the webhook of a CustomResourceDefinition has one', () => {
    const conversion = { strategy: 'Webhook', webhook: { clientConfig: { service } } };
    expect(slotsOf(customResourceDefinition, { spec: { conversion } })).toEqual([
      { name: 'spec.conversion', present: undefined, reach: 'service' },
    ]);
  });

  test('an APIService with a Service has one, but not with insecureSkipTLSVerify', () => {
    expect(slotsOf(apiService, { spec: { service } })).toHaveLength(1);
    expect(slotsOf(apiService, { spec: { service, insecureSkipTLSVerify: true } })).toEqual([]);
    expect(slotsOf(apiService, { spec: { service: null } })).toEqual([]);
    expect(slotsOf(apiService, { spec: {} })).toEqual([]);
  });

  test('one key of a ConfigMap is such a field', () => {
    const data = { 'ca.crt': 'pem', 'tls.crt': 'theirs' };
    expect(slotsOf(configMap, { data })).toEqual([{ name: 'ca.crt', present: 'pem', reach: 'service' }]);
    const annotations = { ...ASKS, 'gatehouse.dev/inject-cabundle-key': 'tls.crt' };
    expect(slotsOf(configMap, { metadata: { annotations }, data })).toEqual([
      { name: 'tls.crt', present: 'theirs', reach: 'service' },
    ]);
  });
});

test('an immutable ConfigMap cannot be a target, and the message explains it', () => {
  const target = toTarget(configMap, { metadata: { annotations: ASKS }, immutable: true }, []);
  expect(target.request).toMatchObject({ kind: 'invalid' });
});

test('only the relevant parts of an object are stored', () => {
  const metadata = { name: 'a', uid: '1', resourceVersion: '7', annotations: { ...ASKS, large: 'x' } };
  const target = toTarget(configMap, { metadata, data: { large: 'x' } }, []);
  expect(JSON.stringify(target)).not.toContain('large');
  expect(target.metadata).toEqual({ name: 'a', uid: '1', resourceVersion: '7', annotations: ASKS });
});

test('only entries of our field manager count as ours, by their position', () => {
  const managedFields = [{ manager: 'helm' }, { manager: 'gatehouse-cabundle' }];
  expect(toTarget(apiService, { metadata: { managedFields } }, []).own).toEqual([1]);
});

test('bundles are base64 in all kinds but ConfigMaps', () => {
  const pem = 'pem' as never;
  const caBundle = base64('pem');
  expect(mutating.configuration(['a'], pem)).toEqual({
    webhooks: [{ name: 'a', clientConfig: { caBundle } }],
  });
  expect(apiService.configuration(['spec'], pem)).toEqual({ spec: { caBundle } });
  expect(customResourceDefinition.configuration(['spec.conversion'], pem)).toEqual({
    spec: { conversion: { webhook: { clientConfig: { caBundle } } } },
  });
  expect(configMap.configuration(['ca.crt'], pem)).toEqual({ data: { 'ca.crt': 'pem' } });
});

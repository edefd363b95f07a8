import type { JsonPatchOperation } from '../../../src/json/json-patch.ts';
import type { Resource } from '../../../src/kube/object.ts';
import {
  mutatingWebhookConfigurations,
  validatingWebhookConfigurations,
} from '../../../src/kube/well-known.ts';
import { ASKS, BUNDLE, creates, meta, patches, TENANT } from './attack.ts';
import type { Attempt, Json, Strings } from './attack.ts';

const entry = (name: string, clientConfig: object, more: object = {}) => ({
  name: `${name}.example.com`,
  clientConfig,
  rules: [],
  sideEffects: 'None',
  admissionReviewVersions: ['v1'],
  ...more,
});
const theirs = { service: { namespace: TENANT, name: 'web' } };
const configuration = (name: string, annotations: Strings, ...webhooks: readonly object[]): Json => ({
  ...meta(name, annotations),
  webhooks,
});
const hooks = (name: string, annotations: Strings = ASKS): readonly [Resource, Json] => [
  validatingWebhookConfigurations,
  configuration(name, annotations, entry('one', theirs), entry('two', theirs)),
];
const THIEF = entry('x', { url: 'https://thief.example' });
const BUNDLE_OF_FIRST: JsonPatchOperation = {
  op: 'add',
  path: '/webhooks/0/clientConfig/caBundle',
  value: BUNDLE,
};
const hookAttack = (
  name: string,
  id: string,
  annotations: Strings,
  ...operations: readonly JsonPatchOperation[]
): Attempt => ({
  name,
  before: hooks(id, annotations),
  write: patches(validatingWebhookConfigurations, id, operations),
});

export const ON_WEBHOOKS: readonly Attempt[] = [
  {
    name: 'a new mutating webhook',
    write: creates(mutatingWebhookConfigurations, configuration('thief', {}, THIEF)),
  },
  {
    name: 'a mutating webhook with a generated name',
    write: creates(mutatingWebhookConfigurations, {
      metadata: { generateName: 'gatehouse-' },
      webhooks: [THIEF],
    }),
  },
  {
    name: 'an own webhook that leads elsewhere by URL',
    write: creates(mutatingWebhookConfigurations, configuration('gatehouse', {}, THIEF)),
  },
  {
    name: 'an own webhook that leads to the Service of a tenant',
    write: creates(validatingWebhookConfigurations, configuration('gatehouse', {}, entry('x', theirs))),
  },
  hookAttack('a bundle that no annotation requests', 'unasked', {}, BUNDLE_OF_FIRST),
  hookAttack('a bundle and the request in one write', 'asked-now', {}, BUNDLE_OF_FIRST, {
    op: 'add',
    path: '/metadata/annotations',
    value: ASKS,
  }),
  hookAttack(
    'a bundle of a webhook that is not named',
    'named',
    { 'gatehouse.dev/inject-cabundle': 'two.example.com' },
    BUNDLE_OF_FIRST,
  ),
  hookAttack('the address of a webhook that asks', 'address', ASKS, BUNDLE_OF_FIRST, {
    op: 'add',
    path: '/webhooks/0/clientConfig/service/name',
    value: 'thief',
  }),
  hookAttack('a URL for a webhook that asks', 'url', ASKS, {
    op: 'replace',
    path: '/webhooks/0/clientConfig',
    value: { url: 'https://thief.example', caBundle: BUNDLE },
  }),
  hookAttack('the failure policy of a webhook that asks', 'failure-policy', ASKS, {
    op: 'add',
    path: '/webhooks/1/failurePolicy',
    value: 'Ignore',
  }),
  hookAttack('fewer webhooks', 'fewer', ASKS, { op: 'remove', path: '/webhooks/1' }),
  hookAttack('more webhooks', 'more', ASKS, {
    op: 'add',
    path: '/webhooks/-',
    value: entry('three', { url: 'https://thief.example' }),
  }),
  hookAttack('another order of webhooks', 'order', ASKS, {
    op: 'replace',
    path: '/webhooks',
    value: [entry('two', theirs), entry('one', theirs)],
  }),
  {
    name: 'the webhooks of others, deleted',
    before: hooks('deleted'),
    write: (client) => client.delete(validatingWebhookConfigurations, { name: 'deleted' }),
  },
];

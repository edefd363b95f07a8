import type { JsonPatchOperation } from '../../../src/json/json-patch.ts';
import type { Resource } from '../../../src/kube/object.ts';
import {
  mutatingWebhookConfigurations,
  validatingWebhookConfigurations,
} from '../../../src/kube/well-known.ts';
import { ASKS, BUNDLE, creates, idOf, meta, patches, TENANT } from './attack.ts';
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
const add = (path: string, value: unknown): JsonPatchOperation => ({ op: 'add', path, value });
const replace = (path: string, value: unknown): JsonPatchOperation => ({ op: 'replace', path, value });
const BUNDLE_OF_FIRST = add('/webhooks/0/clientConfig/caBundle', BUNDLE);
const hookAttack = (
  name: string,
  annotations: Strings,
  ...operations: readonly JsonPatchOperation[]
): Attempt => ({
  name,
  before: hooks(idOf(name), annotations),
  write: patches(validatingWebhookConfigurations, idOf(name), operations),
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
  hookAttack('a bundle that no annotation requests', {}, BUNDLE_OF_FIRST),
  hookAttack(
    'a bundle and the request in one write',
    {},
    BUNDLE_OF_FIRST,
    add('/metadata/annotations', ASKS),
  ),
  hookAttack(
    'a bundle of a webhook that is not named',
    { 'gatehouse.dev/inject-cabundle': 'two.example.com' },
    BUNDLE_OF_FIRST,
  ),
  hookAttack(
    'the address of a webhook that asks',
    ASKS,
    BUNDLE_OF_FIRST,
    add('/webhooks/0/clientConfig/service/name', 'thief'),
  ),
  hookAttack(
    'a URL for a webhook that asks',
    ASKS,
    replace('/webhooks/0/clientConfig', { url: 'https://thief.example', caBundle: BUNDLE }),
  ),
  hookAttack('the failure policy of a webhook that asks', ASKS, add('/webhooks/1/failurePolicy', 'Ignore')),
  hookAttack('fewer webhooks', ASKS, { op: 'remove', path: '/webhooks/1' }),
  hookAttack('more webhooks', ASKS, add('/webhooks/-', entry('three', { url: 'https://thief.example' }))),
  hookAttack(
    'another order of webhooks',
    ASKS,
    replace('/webhooks', [entry('two', theirs), entry('one', theirs)]),
  ),
  {
    name: 'the webhooks of others, deleted',
    before: hooks('deleted'),
    write: (client) => client.delete(validatingWebhookConfigurations, { name: 'deleted' }),
  },
];

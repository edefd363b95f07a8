import { secrets } from '../../../src/kube/well-known.ts';
import { creates, HOME, idOf, MARK, merges, meta, owner, TENANT, tls } from './attack.ts';
import type { Attempt, Json, Strings } from './attack.ts';

const TLS = { type: 'kubernetes.io/tls', data: tls };
const secret = (name: string, more: object, annotations: Strings = {}, namespace = TENANT): Json => ({
  ...meta(name, annotations, namespace),
  ...more,
});
const plain = (name: string): Json => secret(name, TLS);
const marked = (name: string): Json => ({
  metadata: {
    name,
    namespace: TENANT,
    annotations: { [MARK]: 'web' },
    finalizers: ['example.com/keep'],
    ownerReferences: [owner('web')],
  },
  ...TLS,
});
const attack = (name: string, patch: object, of: (name: string) => Json = plain): Attempt => ({
  name,
  before: [secrets, of(idOf(name))],
  write: merges(secrets, idOf(name), patch, TENANT),
});
const createsSecret = (name: string, created: Json): Attempt => ({ name, write: creates(secrets, created) });
const KEY = { data: { 'tls.key': 'eA==' } };
const annotated = (annotations: object) => ({ metadata: { annotations } });
const token = (name: string, namespace: string, account: string): Json =>
  secret(
    name,
    { type: 'kubernetes.io/service-account-token' },
    { 'kubernetes.io/service-account.name': account },
    namespace,
  );

export const ON_SECRETS: readonly Attempt[] = [
  createsSecret('a token of an administrator', token('stolen', 'kube-system', 'admin')),
  createsSecret('a token under a name of the own state', token('gatehouse-reads', HOME, 'admin')),
  createsSecret('a token with a generated name and our marks', {
    metadata: {
      generateName: 'stolen-',
      namespace: 'kube-system',
      ownerReferences: [owner('web')],
      annotations: { [MARK]: 'web', 'kubernetes.io/service-account.name': 'admin' },
    },
    type: 'kubernetes.io/service-account-token',
  }),
  createsSecret(
    'a bootstrap token',
    secret('bootstrap-token-abcdef', { type: 'bootstrap.kubernetes.io/token' }, {}, 'kube-system'),
  ),
  createsSecret(
    'an untyped Secret under a name of the own state in another namespace',
    secret('gatehouse-authority', { type: 'Opaque' }, {}, 'kube-system'),
  ),
  createsSecret('a certificate without a mark', plain('plain')),
  createsSecret(
    'a certificate whose mark names a Service that does not own it',
    secret('unowned', TLS, { [MARK]: 'web' }),
  ),
  attack('the key of a tenant, with our mark in the same write', {
    ...annotated({ [MARK]: 'web' }),
    ...KEY,
  }),
  attack('the key of a tenant, with consent to adopt it in the same write', {
    ...annotated({ [MARK]: 'web', 'gatehouse.dev/serving-cert-adopt': 'web' }),
    ...KEY,
  }),
  attack('our mark alone on the Secret of a tenant, as a first step', annotated({ [MARK]: 'web' })),
  attack(
    'the key of a tenant whose Secret has our label, but not our mark',
    { ...annotated({ [MARK]: 'web' }), ...KEY },
    (name) => ({
      metadata: { name, namespace: TENANT, labels: { 'gatehouse.dev/serving-cert': 'true' } },
      ...TLS,
    }),
  ),
  attack('the password of a tenant', { data: { password: 'eQ==' } }, (name) =>
    secret(name, { type: 'Opaque', data: { password: 'eA==' } }),
  ),
  attack('our mark removed from a certificate', annotated({ [MARK]: null }), marked),
  attack(
    'another owner of a certificate, so that it is collected',
    { metadata: { ownerReferences: [owner('web'), owner('gone', 'ConfigMap')] } },
    marked,
  ),
  attack('a certificate without its finalizer', { metadata: { finalizers: [] } }, marked),
  attack('a certificate that nothing can renew', { immutable: true }, marked),
  {
    name: 'the Secret of a tenant, deleted',
    before: [secrets, plain('deleted')],
    write: (client) => client.delete(secrets, { name: 'deleted', namespace: TENANT }),
  },
  {
    name: 'the authority, deleted',
    before: [secrets, secret('gatehouse-authority', { type: 'gatehouse.dev/authority' }, {}, 'elsewhere')],
    write: (client) => client.delete(secrets, { name: 'gatehouse-authority', namespace: 'elsewhere' }),
  },
];

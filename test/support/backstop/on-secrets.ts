import { secrets } from '../../../src/kube/well-known.ts';
import {
  creates,
  HOME,
  MARK,
  merges,
  meta,
  owner,
  TENANT,
  tls,
  type Attempt,
  type Json,
  type Strings,
} from './attack.ts';

const secret = (name: string, more: object, annotations: Strings = {}, namespace = TENANT): Json => ({
  ...meta(name, annotations, namespace),
  ...more,
});
const marked = (name: string, service = 'web'): Json => ({
  metadata: {
    ...{ name, namespace: TENANT, annotations: { [MARK]: service }, finalizers: ['example.com/keep'] },
    ownerReferences: [owner(service)],
  },
  ...{ type: 'kubernetes.io/tls', data: tls },
});
const tenantSecret = (name: string, more: object = { type: 'kubernetes.io/tls', data: tls }) =>
  [secrets, secret(name, more)] as const;
const token = (name: string, namespace: string, account: string): Json =>
  secret(
    name,
    { type: 'kubernetes.io/service-account-token' },
    { 'kubernetes.io/service-account.name': account },
    namespace,
  );

export const ON_SECRETS: readonly Attempt[] = [
  {
    name: 'a token of an administrator',
    write: creates(secrets, token('stolen', 'kube-system', 'admin')),
  },
  {
    name: 'a token under a name of the own state',
    write: creates(secrets, token('gatehouse-reads', HOME, 'admin')),
  },
  {
    name: 'a token with a generated name and our marks',
    write: creates(secrets, {
      metadata: {
        ...{ generateName: 'stolen-', namespace: 'kube-system', ownerReferences: [owner('web')] },
        annotations: { [MARK]: 'web', 'kubernetes.io/service-account.name': 'admin' },
      },
      type: 'kubernetes.io/service-account-token',
    }),
  },
  {
    name: 'a bootstrap token',
    write: creates(
      secrets,
      secret('bootstrap-token-abcdef', { type: 'bootstrap.kubernetes.io/token' }, {}, 'kube-system'),
    ),
  },
  {
    name: 'a Secret of no type under a name of the own state in another namespace',
    write: creates(secrets, secret('gatehouse-authority', { type: 'Opaque' }, {}, 'kube-system')),
  },
  {
    name: 'a certificate without a mark',
    write: creates(secrets, secret('plain', { type: 'kubernetes.io/tls', data: tls })),
  },
  {
    name: 'a certificate whose mark names a Service that does not own it',
    write: creates(secrets, secret('unowned', { type: 'kubernetes.io/tls', data: tls }, { [MARK]: 'web' })),
  },
  {
    name: 'the key of a tenant, with our mark in the same write',
    before: tenantSecret('theirs'),
    write: merges(
      secrets,
      'theirs',
      { metadata: { annotations: { [MARK]: 'web' } }, data: { 'tls.key': 'eA==' } },
      TENANT,
    ),
  },
  {
    name: 'the key of a tenant, with consent to adopt it in the same write',
    before: tenantSecret('adopted'),
    write: merges(
      ...([secrets, 'adopted'] as const),
      {
        metadata: { annotations: { [MARK]: 'web', 'gatehouse.dev/serving-cert-adopt': 'web' } },
        data: { 'tls.key': 'eA==' },
      },
      TENANT,
    ),
  },
  {
    name: 'our mark alone on the Secret of a tenant, as a first step',
    before: tenantSecret('first-step'),
    write: merges(secrets, 'first-step', { metadata: { annotations: { [MARK]: 'web' } } }, TENANT),
  },
  {
    name: 'the key of a tenant whose Secret has our label, but not our mark',
    before: [
      secrets,
      {
        metadata: { name: 'labelled', namespace: TENANT, labels: { 'gatehouse.dev/serving-cert': 'true' } },
        ...{ type: 'kubernetes.io/tls', data: tls },
      },
    ],
    write: merges(
      secrets,
      'labelled',
      { metadata: { annotations: { [MARK]: 'web' } }, data: { 'tls.key': 'eA==' } },
      TENANT,
    ),
  },
  {
    name: 'the password of a tenant',
    before: tenantSecret('password', { type: 'Opaque', data: { password: 'eA==' } }),
    write: merges(secrets, 'password', { data: { password: 'eQ==' } }, TENANT),
  },
  {
    name: 'our mark removed from a certificate',
    before: [secrets, marked('stripped')],
    write: merges(secrets, 'stripped', { metadata: { annotations: { [MARK]: null } } }, TENANT),
  },
  {
    name: 'another owner of a certificate, which has it collected',
    before: [secrets, marked('disowned')],
    write: merges(
      secrets,
      'disowned',
      { metadata: { ownerReferences: [owner('web'), owner('gone', 'ConfigMap')] } },
      TENANT,
    ),
  },
  {
    name: 'a certificate without its finalizer',
    before: [secrets, marked('unfinished')],
    write: merges(secrets, 'unfinished', { metadata: { finalizers: [] } }, TENANT),
  },
  {
    name: 'a certificate that nothing can renew',
    before: [secrets, marked('frozen')],
    write: merges(secrets, 'frozen', { immutable: true }, TENANT),
  },
  {
    name: 'the Secret of a tenant, deleted',
    before: tenantSecret('deleted'),
    write: (client) => client.delete(secrets, { name: 'deleted', namespace: TENANT }),
  },
  {
    name: 'the authority, deleted',
    before: [secrets, secret('gatehouse-authority', { type: 'gatehouse.dev/authority' }, {}, 'elsewhere')],
    write: (client) => client.delete(secrets, { name: 'gatehouse-authority', namespace: 'elsewhere' }),
  },
];

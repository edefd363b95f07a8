import { beforeAll, expect, test } from 'vitest';
import { caBundle } from '../authority/authority.ts';
import { base64, firstAuthority, serverOf } from '../../../test/support/pki/fixtures.ts';
import {
  markedRenewAfter,
  ownership,
  withMarks,
  withoutServingCert,
  withOutputs,
  withServingCert,
  type Secret,
  type ServingCertContent,
} from './secret.ts';
import { readServingCert } from './facts.ts';

const now = new Date('2026-03-01T00:00:00Z');
const service = { namespace: 'prod', name: 'db', uid: 'uid-2' };
let content: ServingCertContent;
let readable: (secret: Secret) => boolean;

beforeAll(async () => {
  const authority = await firstAuthority(now);
  const { chain, privateKey } = await serverOf(authority, now);
  const bundle = caBundle(authority, now);
  content = { service, secretName: 'db-tls', chain, privateKey, bundle };
  readable = (secret) => readServingCert(secret.data, authority)?.kind === 'usable';
});

const owner = { apiVersion: 'v1', kind: 'Service', name: 'db', uid: 'uid-2', controller: true } as const;

test('Knative TestMakeSecret: a new Secret contains the cert, its key and the bundle, and belongs to the Service', () => {
  const secret = withServingCert(undefined, content);
  expect(secret).toEqual({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      namespace: 'prod',
      name: 'db-tls',
      labels: { 'gatehouse.dev/serving-cert': 'true' },
      annotations: {
        'gatehouse.dev/serving-cert-service': 'db',
        'gatehouse.dev/serving-cert-service-uid': 'uid-2',
        'gatehouse.dev/serving-cert-secret': 'prod/db-tls',
      },
      ownerReferences: [{ ...owner, blockOwnerDeletion: false }],
    },
    type: 'kubernetes.io/tls',
    data: {
      'tls.crt': base64(content.chain),
      'tls.key': base64(content.privateKey),
      'ca.crt': base64(content.bundle),
    },
  });
  expect(readable(secret)).toBe(true);
  expect(ownership(secret, service)).toBe('ours');
});

test('the Secret says when its cert is renewed, if that is not the default', () => {
  const secret = withServingCert(undefined, content);
  const early = withMarks(secret, service, { renewAfter: 50 });
  expect(early.metadata?.annotations).toMatchObject({ 'gatehouse.dev/serving-cert-renew-after': '50%' });
  expect(markedRenewAfter(early)).toBe(50);
  expect(withMarks(early, service, { renewAfter: 66 })).toEqual(secret);
  expect(withoutServingCert(early, service)).toEqual(withoutServingCert(secret, service));
  const edited = { metadata: { annotations: { 'gatehouse.dev/serving-cert-renew-after': '1%' } } };
  expect([secret, edited].map(markedRenewAfter)).toEqual([66, 66]);
});

test('the Secret keeps the content of other writers', () => {
  const friend = { apiVersion: 'v1', kind: 'ConfigMap', name: 'friend', uid: 'uid-9' };
  const existing: Secret = {
    metadata: {
      resourceVersion: '7',
      uid: 'secret-uid',
      labels: { team: 'a' },
      annotations: { note: 'b', 'gatehouse.dev/serving-cert-service': 'db' },
      ownerReferences: [friend, { ...owner, uid: 'uid-1' }],
      finalizers: ['example.com/hold'],
    },
    type: 'kubernetes.io/tls',
    data: { 'tls.crt': 'b2xk', password: 'c2VjcmV0' },
  };
  const secret = withServingCert(existing, content);
  expect(secret.metadata).toMatchObject({
    resourceVersion: '7',
    uid: 'secret-uid',
    labels: { team: 'a', 'gatehouse.dev/serving-cert': 'true' },
    annotations: { note: 'b' },
    finalizers: ['example.com/hold'],
  });
  expect(secret.metadata?.ownerReferences).toEqual([friend]); // the garbage collector must not delete `password`
  expect(secret.data).toMatchObject({ password: 'c2VjcmV0', 'tls.crt': base64(content.chain) });
});

test('a renewal keeps the state that the leader shares with webhook processes, which is not content of another writer', () => {
  const existing: Secret = {
    metadata: { annotations: { 'gatehouse.dev/serving-cert-service': 'db' } },
    type: 'kubernetes.io/tls',
    data: { 'tls.crt': 'b2xk', 'gatehouse-state.json': 'e30=' },
  };
  const secret = withServingCert(existing, content);
  expect(secret.data).toMatchObject({ 'gatehouse-state.json': 'e30=', 'tls.crt': base64(content.chain) });
  expect(secret.metadata?.ownerReferences).toMatchObject([owner]);
});

const serviceCa = (uid: string) => ({ 'service.beta.openshift.io/originating-service-uid': uid });

const markOf = (of: string) => ({ annotations: { 'gatehouse.dev/serving-cert-service': of } });
const adoptedBy = (of: string) => ({ annotations: { 'gatehouse.dev/serving-cert-adopt': of } });
const ownedBy = (change: object) => ({ ownerReferences: [{ ...owner, ...change }] });
const tls = (metadata: Secret['metadata'] = markOf('db'), change: Partial<Secret> = {}): Secret => ({
  metadata,
  type: 'kubernetes.io/tls',
  ...change,
});
/** With a mark for another namespace. */
const copyFor = (of: string, annotations: Record<string, string> = {}): Secret => {
  const origin = { 'gatehouse.dev/serving-cert-secret': 'elsewhere/db-tls' };
  const marks = { ...markOf(of).annotations, ...origin, ...annotations };
  return tls({ namespace: 'prod', name: 'db-tls', annotations: marks });
};

test.each<[string, Secret, string]>([
  ['our mark', tls(), 'ours'],
  [
    'our mark and an owner with an earlier uid',
    tls({ ...markOf('db'), ...ownedBy({ uid: 'uid-1' }) }),
    'ours',
  ],
  ['no mark', { type: 'kubernetes.io/tls' }, 'foreign'],
  ['the mark of a Secret that a restore brought from another namespace', copyFor('db'), 'ours'],
  ['a copied mark of another Service', copyFor('web'), 'foreign'],
  [
    'a copied mark of another Service, and permission to adopt it',
    copyFor('web', adoptedBy('db').annotations),
    'ours',
  ],
  ['the mark of another Service', tls(markOf('web')), 'another-service'],
  ['another controller', tls({ ...markOf('db'), ...ownedBy({ kind: 'Certificate' }) }), 'foreign'],
  [
    'our mark, and a former Service as controller',
    tls({ ...markOf('db'), ...ownedBy({ name: 'web' }) }),
    'ours',
  ],
  [
    'permission to adopt it, and another Service as controller',
    tls({ ...adoptedBy('db'), ...ownedBy({ name: 'web' }) }),
    'foreign',
  ],
  [
    'another owner that is not a controller',
    tls({ ...markOf('db'), ...ownedBy({ kind: 'X', controller: false }) }),
    'ours',
  ],
  ['another type', tls(markOf('db'), { type: 'Opaque' }), 'wrong-type'],
  ['no type', { metadata: markOf('db') }, 'wrong-type'],
  ['permission to adopt it', tls(adoptedBy('db')), 'ours'],
  ['permission for another Service to adopt it', tls(adoptedBy('web')), 'foreign'],
  [
    'permission to adopt it, and a controller',
    tls({ ...adoptedBy('db'), ...ownedBy({ kind: 'Certificate' }) }),
    'foreign',
  ],
  ['annotations of service-ca', tls({ annotations: serviceCa('uid-2') }), 'foreign'],
  ['another type and no mark', { type: 'Opaque' }, 'foreign'],
  ['immutable: true', tls(markOf('db'), { immutable: true }), 'immutable'],
])('a Secret with %s', (_what, secret, expected) => {
  expect(ownership(secret, service)).toBe(expected);
});

test('with --compat openshift, a Secret that service-ca made for the Service is ours', () => {
  const rules = { openshift: true };
  expect(ownership(tls({ annotations: serviceCa('uid-2') }), service, rules)).toBe('ours');
  expect(ownership(tls({ annotations: serviceCa('uid-1') }), service, rules)).toBe('foreign');
});

test('only outputs that Gatehouse wrote are removed: files of other writers are kept', () => {
  const files = { 'keystore.p12': 'AA==', 'truststore.p12': 'AA==' };
  const base = withServingCert(undefined, content);
  const written = withOutputs(base, ['pkcs12'], files);
  expect(written.metadata?.annotations).toMatchObject({ 'gatehouse.dev/serving-cert-outputs': 'pkcs12' });
  expect(withOutputs(written, [], {})).toEqual(base);
  const theirs = { ...base, data: { ...base.data, ...files } };
  expect(withOutputs(theirs, [], {})).toEqual(theirs);
});

import { expect, test } from 'vitest';
import { annotationProblem } from '../annotations.ts';
import { injectionRequest, type InjectionRequest, type TargetKindName } from './request.ts';

const INJECT = 'gatehouse.dev/inject-cabundle';
const FROM = 'gatehouse.dev/inject-cabundle-from';
const KEY = 'gatehouse.dev/inject-cabundle-key';
const CERT = 'gatehouse.dev/serving-cert-secret-name';

const asked = (
  annotations: Readonly<Record<string, string>>,
  kind: TargetKindName = 'ValidatingWebhookConfiguration',
  compat: Parameters<typeof injectionRequest>[2] = [],
): InjectionRequest => injectionRequest(kind, { annotations }, compat);

const wanted = { kind: 'wanted', source: { kind: 'authority' }, webhooks: 'all', key: 'ca.crt' } as const;
const services = { ...wanted, webhooks: 'services' } as const;
const from = (kind: 'Secret' | 'ConfigMap', consent: string) =>
  ({
    kind: 'object',
    ref: { kind, namespace: 'vault', name: 'ca' },
    consent: { annotation: consent, value: 'true' },
  }) as const;
const OURS = 'gatehouse.dev/allow-direct-injection';

test.each<[string, string, Record<string, string>, RegExp | undefined]>([
  [
    'a name that is misspelt',
    'Secret',
    { 'gatehouse.dev/alow-direct-injection': 'true' },
    /alow-.* is not an annotation/,
  ],
  [
    'an injection into a Secret',
    'Secret',
    { [INJECT]: 'true' },
    /is ignored on a Secret: annotate a ValidatingWebhookConfiguration, .*, CustomResourceDefinition or ConfigMap/,
  ],
  ['an injection into a Service', 'Service', { [FROM]: 'vault/ca' }, /is ignored on a Service/],
  [
    'a certificate for a ConfigMap',
    'ConfigMap',
    { [CERT]: 'tls' },
    /is ignored on a ConfigMap: annotate a Service/,
  ],
  [
    'a certificate for a Service',
    'Service',
    { [CERT]: 'tls', 'gatehouse.dev/serving-cert-duration': '1h' },
    undefined,
  ],
  [
    "an option beside OpenShift's request",
    'Service',
    { 'service.beta.openshift.io/serving-cert-secret-name': 'tls', 'gatehouse.dev/serving-cert-ports': 'a' },
    undefined,
  ],
  [
    'an option of the certificate that is not requested',
    'Service',
    { [CERT]: 'tls', 'gatehouse.dev/client-cert-duration': '1h' },
    /client-cert-duration has no effect without gatehouse.dev\/client-cert-secret-name: add it/,
  ],
  [
    'a key without a request',
    'ConfigMap',
    { 'gatehouse.dev/inject-cabundle-key': 'ca.pem' },
    /has no effect without gatehouse.dev\/inject-cabundle: add it/,
  ],
  [
    'a bundle that is not distributed',
    'ConfigMap',
    { 'gatehouse.dev/bundle-sources': 'public' },
    /has no effect without gatehouse.dev\/distribute-to: add it/,
  ],
  [
    'a consent of a Secret',
    'Service',
    { 'gatehouse.dev/serving-cert-adopt': 'db' },
    /is ignored on a Service: annotate a Secret/,
  ],
  ['the files of our Secret', 'Secret', { 'gatehouse.dev/serving-cert-outputs': 'jks' }, undefined],
  ['the renewal of our Secret', 'Secret', { 'gatehouse.dev/serving-cert-renew-after': '50%' }, undefined],
  [
    'a renewal without a request',
    'Service',
    { 'gatehouse.dev/client-cert-renew-after': '50%' },
    /has no effect without gatehouse.dev\/client-cert-secret-name: add it/,
  ],
  ['annotations of others', 'Secret', { 'example.com/inject-cabundle': 'true' }, undefined],
])('an annotation of ours without effect is found: %s', (_what, kind, annotations, problem) => {
  const found = annotationProblem(kind, annotations);
  if (problem === undefined) expect(found).toBeUndefined();
  else expect(found).toMatch(problem);
});

test('such an annotation is a problem of a target, and keeps no valid request from its bundle', () => {
  const misspelt = { 'gatehouse.dev/inject-ca-bundle': 'true' };
  const problem = expect.stringContaining('gatehouse.dev/inject-ca-bundle is not an annotation') as string;
  expect(asked(misspelt)).toEqual({ kind: 'invalid', message: problem });
  expect(asked({ ...misspelt, [INJECT]: 'true' })).toEqual({ ...services, problem });
});

test('a copy of a distributed bundle is no target', () => {
  const annotations = { [INJECT]: 'true', 'gatehouse.dev/distributed-bundle': 'shop/trust' };
  const request = (namespace: string) =>
    injectionRequest('ConfigMap', { namespace, name: 'trust', annotations }, []);
  expect(request('shop')).toMatchObject({ kind: 'invalid' });
  expect(request('elsewhere')).toMatchObject({ kind: 'wanted' });
});

test('an object without annotations asks for nothing', () => {
  expect(injectionRequest('APIService', undefined, ['openshift', 'cert-manager'])).toEqual({ kind: 'none' });
});

test.each<[string, Record<string, string>, InjectionRequest]>([
  ['true', { [INJECT]: 'true' }, services],
  ['true with blanks', { [INJECT]: ' true ' }, services],
  ['false', { [INJECT]: 'false' }, { kind: 'none' }],
  ['false and a source', { [INJECT]: 'false', [FROM]: 'vault/ca' }, { kind: 'none' }],
  ['names', { [INJECT]: 'a.b.c, d.e.f,a.b.c' }, { ...wanted, webhooks: ['a.b.c', 'd.e.f'] }],
  ['a source', { [FROM]: 'vault/ca' }, { ...services, source: from('Secret', OURS) }],
  ['a Secret by its kind', { [FROM]: 'secret/vault/ca' }, { ...services, source: from('Secret', OURS) }],
  ['a ConfigMap', { [FROM]: 'configmap/vault/ca' }, { ...services, source: from('ConfigMap', OURS) }],
  [
    'a key of a ConfigMap',
    { [FROM]: 'configmap/vault/ca/root-cert.pem' },
    {
      ...services,
      source: {
        ...from('ConfigMap', OURS),
        ref: { kind: 'ConfigMap', namespace: 'vault', name: 'ca', key: 'root-cert.pem' },
      },
    },
  ],
  [
    'names and a source',
    { [INJECT]: 'a.b.c', [FROM]: 'vault/ca' },
    { ...wanted, webhooks: ['a.b.c'], source: from('Secret', OURS) },
  ],
  ['a key', { [INJECT]: 'true', [KEY]: 'bundle.pem' }, { ...services, key: 'bundle.pem' }],
])('our annotations are read: %s', (_what, annotations, request) => {
  expect(asked(annotations)).toEqual(request);
});

test.each<[string, Record<string, string>, RegExp, TargetKindName?]>([
  ['empty', { [INJECT]: '' }, /inject-cabundle is empty: write "true"/],
  ['neither true nor names', { [INJECT]: 'yes please' }, /"yes please" cannot be the name of a webhook/],
  ['a list with an empty item', { [INJECT]: 'a.b.c,,d.e.f' }, /"" cannot be the name/],
  ['names in a kind without webhooks', { [INJECT]: 'a.b.c' }, /in a APIService it takes/, 'APIService'],
  ['a source without a namespace', { [FROM]: 'ca' }, /is not a source: write namespace\/name/],
  ['a source of an unknown kind', { [FROM]: 'pod/vault/ca' }, /is not a source/],
  ['a key of a Secret', { [FROM]: 'secret/vault/ca/tls.key' }, /is not a source/],
  ['a source with too many parts', { [FROM]: 'configmap/vault/ca/a/b' }, /is not a source/],
  ['an empty key', { [FROM]: 'configmap/vault/ca/' }, /is not a source/],
  ['a source with an impossible name', { [FROM]: 'vault/CA' }, /is not a source/],
  ['a source with a field selector in its name', { [FROM]: 'vault/ca,metadata.name!=x' }, /is not a source/],
  ['a key that no ConfigMap can have', { [INJECT]: 'true', [KEY]: 'a/b' }, /cannot be a key/, 'ConfigMap'],
])('an invalid annotation is reported: %s', (_what, annotations, message, kind) => {
  expect(asked(annotations, kind)).toEqual({
    kind: 'invalid',
    message: expect.stringMatching(message) as string,
  });
});

const BETA = 'service.beta.openshift.io/inject-cabundle';
const ALPHA = 'service.alpha.openshift.io/inject-cabundle';
const openshift = { ...wanted, key: 'service-ca.crt' };

test.each<[string, TargetKindName, InjectionRequest]>([
  [BETA, 'ConfigMap', openshift],
  [BETA, 'CustomResourceDefinition', openshift],
  [ALPHA, 'ConfigMap', openshift],
  [ALPHA, 'APIService', openshift],
  [ALPHA, 'CustomResourceDefinition', { kind: 'none' }],
  [ALPHA, 'MutatingWebhookConfiguration', { kind: 'none' }],
])("OpenShift's %s is honoured on a %s as service-ca does", (annotation, kind, request) => {
  expect(asked({ [annotation]: 'TRUE' }, kind, ['openshift'])).toEqual(request);
  expect(asked({ [annotation]: 'false' }, kind, ['openshift'])).toEqual({ kind: 'none' });
  expect(asked({ [annotation]: 'true' }, kind, ['cert-manager'])).toEqual({ kind: 'none' });
});

const CERT_MANAGER = 'cert-manager.io/inject-ca-from-secret';

test("cert-manager's annotation is honoured where cainjector honours it", () => {
  const request = { ...wanted, source: from('Secret', 'cert-manager.io/allow-direct-injection') };
  const annotations = { [CERT_MANAGER]: 'vault/ca' };
  expect(asked(annotations, 'APIService', ['cert-manager'])).toEqual(request);
  expect(asked(annotations, 'ConfigMap', ['cert-manager'])).toEqual({ kind: 'none' });
  expect(asked(annotations, 'APIService', ['openshift'])).toEqual({ kind: 'none' });
});

const CERTIFICATE = 'cert-manager.io/inject-ca-from';
const API_SERVER = 'cert-manager.io/inject-apiserver-ca';

test('a Certificate as a source means its Secret, whose annotation refers back', () => {
  const source = {
    kind: 'object',
    ref: { kind: 'Certificate', namespace: 'mail', name: 'mail-tls' },
    consent: { annotation: 'cert-manager.io/certificate-name', value: 'mail-tls' },
  } as const;
  const annotations = { [CERTIFICATE]: 'mail/mail-tls' };
  expect(asked(annotations, 'APIService', ['cert-manager'])).toEqual({ ...wanted, source });
  expect(asked(annotations, 'ConfigMap', ['cert-manager'])).toEqual({ kind: 'none' });
  expect(asked(annotations, 'APIService', ['openshift'])).toEqual({ kind: 'none' });
});

test.each(['mail-tls', 'mail/', 'a/b/c', 'mail/tls,metadata.name!=x', ''])(
  'no Certificate can have the name "%s"',
  (value) => {
    expect(asked({ [CERTIFICATE]: value }, 'APIService', ['cert-manager'])).toMatchObject({
      kind: 'invalid',
      message: expect.stringContaining('namespace/name of a Certificate') as string,
    });
  },
);

test('cert-manager cainjector: the CA of the API server is requested with "true" only, and after the other sources', () => {
  const request = { ...wanted, source: { kind: 'api-server' } };
  expect(asked({ [API_SERVER]: 'true' }, 'APIService', ['cert-manager'])).toEqual(request);
  expect(asked({ [API_SERVER]: 'True' }, 'APIService', ['cert-manager'])).toEqual({ kind: 'none' });
  expect(asked({ [API_SERVER]: 'true' }, 'ConfigMap', ['cert-manager'])).toEqual({ kind: 'none' });
  const others = { [API_SERVER]: 'true', [CERTIFICATE]: 'mail/tls' };
  const all = { ...others, [CERT_MANAGER]: 'vault/ca' };
  expect(asked(all, 'APIService', ['cert-manager'])).toMatchObject({ source: { ref: { kind: 'Secret' } } });
  expect(asked(others, 'APIService', ['cert-manager'])).toMatchObject({
    source: { ref: { kind: 'Certificate' } },
  });
});

test('no annotation makes a ClusterTrustBundle a target: Gatehouse writes only its own', () => {
  const annotations = { [INJECT]: 'true' };
  const of = (name: string) => injectionRequest('ClusterTrustBundle', { name, annotations }, []);
  expect(of('gatehouse.dev:ca:bundle')).toEqual(wanted);
  expect(of('gatehouse.dev:ca:other')).toEqual({ kind: 'none' });
});

test("Gatehouse's own annotation takes precedence over those of other projects", () => {
  const all = { [INJECT]: 'false', [BETA]: 'true', [CERT_MANAGER]: 'vault/ca' };
  expect(asked(all, 'APIService', ['openshift', 'cert-manager'])).toEqual({ kind: 'none' });
  expect(asked({ ...all, [INJECT]: 'true' }, 'APIService', ['openshift', 'cert-manager'])).toEqual(wanted);
});

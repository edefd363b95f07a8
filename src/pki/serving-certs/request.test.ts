import { describe, expect, test } from 'vitest';
import { DAY } from '../durations.ts';
import {
  requestedLifetime,
  servingCertRequest,
  type RequestRules,
  type Service,
  firstClaim,
  type SecretClaim,
} from './request.ts';

const NAME = 'gatehouse.dev/serving-cert-secret-name';
const ALGORITHM = 'gatehouse.dev/serving-cert-key-algorithm';
const rules: RequestRules = {
  clusterDomain: 'cluster.local',
  dnsSuffixes: ['apps.example.com'],
  shortNames: false,
  clusterIPs: false,
  namespaceSuffixes: new Map<string, string>(),
  nameConstraints: false,
  maxLifetimeMs: 365 * 86_400_000,
  renewAfter: 66,
  openshift: false,
};
const DURATION = 'gatehouse.dev/serving-cert-duration';

const RENEWAL = 'gatehouse.dev/serving-cert-renew-after';
const NAMES = 'gatehouse.dev/serving-cert-dns-names';
const REPLACE = 'gatehouse.dev/serving-cert-replace-secret';
const PODS = 'gatehouse.dev/serving-cert-pod-names';
const WILDCARD = 'gatehouse.dev/serving-cert-wildcard';
const OUTPUTS = 'gatehouse.dev/serving-cert-outputs';
const PASSWORD = 'gatehouse.dev/serving-cert-keystore-password';

const service = (annotations: Record<string, string>, spec: Service['spec'] = {}): Service => ({
  metadata: { name: 'db', namespace: 'prod', annotations },
  spec,
});

/** The request of a Service with the annotation and these ones. */
const requestOf = (
  annotations: Record<string, string>,
  change: Partial<RequestRules> = {},
  spec: Service['spec'] = {},
) => servingCertRequest(service({ [NAME]: 'db-tls', ...annotations }, spec), { ...rules, ...change });

test('a Service without the annotation asks for nothing', () => {
  expect(servingCertRequest(service({ 'example.com/duration': '1h' }), rules)).toEqual({ kind: 'none' });
  expect(servingCertRequest({}, rules)).toEqual({ kind: 'none' });
});

test('a misspelt annotation is an invalid request, or is reported with a valid one', () => {
  const misspelt = { 'gatehouse.dev/serving-cert-secretname': 'db-tls' };
  const problem = expect.stringContaining('serving-cert-secretname is not an annotation') as string;
  expect(servingCertRequest(service(misspelt), rules)).toEqual({
    kind: 'invalid',
    message: problem,
    via: 'gatehouse',
  });
  expect(servingCertRequest(service(misspelt), rules, 'client')).toEqual({ kind: 'none' });
  expect(requestOf(misspelt)).toMatchObject({ kind: 'request', unused: problem });
});

test('spaces around the name of the Secret do not count, nor does the case of a Boolean', () => {
  expect(requestOf({ [NAME]: ' db-tls ', [REPLACE]: 'True' })).toMatchObject({
    kind: 'request',
    secretName: 'db-tls',
    replaceSecret: true,
  });
});

test('a Service with the annotation asks for a P-256 cert of 90 days', () => {
  expect(requestOf({}, { clusterDomain: 'k8s.example' })).toEqual({
    kind: 'request',
    purpose: 'serving',
    secretName: 'db-tls',
    dnsNames: ['db.prod.svc', 'db.prod.svc.k8s.example'],
    addresses: [],
    algorithm: 'ECDSA-P256',
    lifetimeMs: 90 * DAY,
    renewAfter: 66,
    outputs: [],
    keystorePassword: undefined,
    lacksAddresses: false,
    omittedNames: [],
    replaceSecret: false,
    via: 'gatehouse',
  });
});

test('no Service gets a longer life than the operator allows, and a shorter request stays', () => {
  const limited = { ...rules, maxLifetimeMs: 60 * DAY };
  const lifeFor = (annotations: Record<string, string>) => {
    const one = service({ [NAME]: 'db-tls', ...annotations });
    expect(servingCertRequest(one, limited)).toMatchObject({ lifetimeMs: requestedLifetime(one, limited) });
    return requestedLifetime(one, limited);
  };
  expect(lifeFor({ [DURATION]: '365d' })).toBe(60 * DAY);
  expect(lifeFor({})).toBe(60 * DAY);
  expect(lifeFor({ [DURATION]: '36h' })).toBe(1.5 * DAY);
});

test('the annotation of a Service precedes the operator’s point of renewal', () => {
  const early = { renewAfter: 20 };
  expect(requestOf({}, early)).toMatchObject({ renewAfter: 20 });
  expect(requestOf({ [RENEWAL]: '90%' }, early)).toMatchObject({ renewAfter: 90 });
});

const HEADLESS = { clusterIP: 'None' };
const namesOf = (annotations: Record<string, string>, spec?: Service['spec']) => {
  const request = requestOf(annotations, {}, spec);
  return request.kind === 'request' ? request.dnsNames : request;
};

test('a headless Service can omit the wildcard, because it lets each pod impersonate the others', () => {
  expect(namesOf({ [WILDCARD]: 'false' }, HEADLESS)).toEqual(namesOf({}, { clusterIP: '10.0.0.1' }));
});

test.each([
  'shop.apps.example.com',
  '*.apps.example.com',
  'apps.example.com',
  'blue.db.prod.svc',
  'db.prod.svc.apps.example.com', // in a cluster set
])('a Service can request %s, which the operator allows', (name) => {
  expect(namesOf({ [NAMES]: ` ${name},` })).toContain(name);
});

test('a Service asks for key stores with a separate password', () => {
  const outputs = { [OUTPUTS]: 'combined-pem, pkcs12,pkcs12', [PASSWORD]: 'stores/java' };
  expect(requestOf(outputs)).toMatchObject({
    outputs: ['pkcs12', 'combined-pem'],
    keystorePassword: { secretName: 'stores', key: 'java' },
  });
});

describe('with --compat openshift', () => {
  const BETA = 'service.beta.openshift.io/serving-cert-secret-name';
  const ALPHA = 'service.alpha.openshift.io/serving-cert-secret-name';
  const openshift = { ...rules, openshift: true };

  test.each([BETA, ALPHA])('%s asks for a serving cert', (annotation) => {
    expect(servingCertRequest(service({ [annotation]: 'db-tls' }), openshift)).toMatchObject({
      kind: 'request',
      secretName: 'db-tls',
      via: 'openshift',
    });
    expect(servingCertRequest(service({ [annotation]: 'db-tls' }), rules).kind).toBe('none');
    expect(servingCertRequest(service({ [annotation]: '' }), openshift).kind).toBe('none');
  });

  test('the annotation of Gatehouse takes precedence over both, and beta over alpha', () => {
    const both = { [BETA]: 'b', [ALPHA]: 'c' };
    expect(requestOf(both, openshift)).toMatchObject({ secretName: 'db-tls', via: 'gatehouse' });
    expect(servingCertRequest(service(both), openshift)).toMatchObject({ secretName: 'b' });
  });
});

test.each<[string, Service['spec'], readonly string[] | string]>([
  [
    'both cluster IPs',
    { clusterIP: '10.96.0.7', clusterIPs: ['10.96.0.7', 'FD00::7'] },
    ['10.96.0.7', 'fd00::7'],
  ],
  ['its cluster IP', { type: 'LoadBalancer', clusterIP: '10.96.0.7' }, ['10.96.0.7']],
  ['no other address', { type: 'ExternalName', clusterIP: '10.96.0.7' }, 'headless or an ExternalName'],
  ['none if it is headless', { clusterIP: 'None', clusterIPs: ['None'] }, 'headless or an ExternalName'],
  ['none before it has one', { clusterIPs: [''] }, 'lacks a cluster IP'],
])('a Service that asks for addresses gets %s', (_which, spec, expected) => {
  const asking = { 'gatehouse.dev/serving-cert-cluster-ips': 'true' };
  const message = expect.stringContaining(String(expected)) as string;
  expect(requestOf(asking, { clusterIPs: true }, spec)).toMatchObject(
    typeof expected === 'string'
      ? { kind: 'invalid', message }
      : { addresses: expected, lacksAddresses: false },
  );
  expect(requestOf(asking, {}, spec)).toMatchObject({ addresses: [], lacksAddresses: true });
});

test('an ExternalName Service gets its names in the cluster, never the external name', () => {
  const external = { type: 'ExternalName', externalName: 'db.example.com' };
  const dnsNames = ['db.prod.svc', 'db.prod.svc.cluster.local'];
  expect(requestOf({}, {}, external)).toMatchObject({ dnsNames });
});

describe('a client cert', () => {
  const CLIENT = 'gatehouse.dev/client-cert-secret-name';
  const both = service({
    [NAME]: 'db-tls',
    [DURATION]: '30d',
    [CLIENT]: 'db-client-tls',
    'gatehouse.dev/client-cert-duration': '12h',
    'gatehouse.dev/client-cert-dns-names': 'db.apps.example.com',
  });

  test('has its own Secret and options, and the names of the Service', () => {
    expect(servingCertRequest(both, rules, 'client')).toMatchObject({
      purpose: 'client',
      secretName: 'db-client-tls',
      lifetimeMs: 0.5 * DAY,
      dnsNames: ['db.prod.svc', 'db.prod.svc.cluster.local', 'db.apps.example.com'],
    });
    expect(servingCertRequest(both, rules)).toMatchObject({
      purpose: 'serving',
      lifetimeMs: 30 * DAY,
      dnsNames: ['db.prod.svc', 'db.prod.svc.cluster.local'],
    });
  });

  test('is requested only by its own annotation', () => {
    expect(servingCertRequest(service({ [NAME]: 'db-tls' }), rules, 'client').kind).toBe('none');
    expect(servingCertRequest(service({ [CLIENT]: 'x' }), rules).kind).toBe('none');
    const openshift = service({ 'service.beta.openshift.io/serving-cert-secret-name': 'x' });
    expect(servingCertRequest(openshift, { ...rules, openshift: true }, 'client').kind).toBe('none');
  });

  test.each<[string, Record<string, string>, string]>([
    [
      'an invalid option',
      { 'gatehouse.dev/client-cert-duration': '5' },
      'gatehouse.dev/client-cert-duration: "5" is not',
    ],
    ['the Secret of the serving cert', { [NAME]: 'x' }, '"x" already gets the serving cert of the Service'],
    [
      'a name of another Service',
      { 'gatehouse.dev/client-cert-dns-names': 'pay.prod.svc' },
      "the cluster's own domain",
    ],
  ])('%s is invalid, and the message names the annotation', (_what, annotations, message) => {
    const request = servingCertRequest(service({ [CLIENT]: 'x', ...annotations }), rules, 'client');
    expect(request.kind === 'invalid' && request.message).toContain(message);
    expect(request.kind === 'invalid' && request.message).toContain('gatehouse.dev/client-cert-');
  });
});

test.each<[string, Record<string, string>, string, Service['spec']?]>([
  ['a name that no Secret can have', { [NAME]: 'DB_TLS' }, '"DB_TLS" cannot be the name of a Secret'],
  ['an empty name', { [NAME]: '' }, '"" cannot be the name of a Secret'],
  ['an unknown algorithm', { [ALGORITHM]: 'ed25519' }, 'RSA-2048, RSA-3072, Ed25519'],
  ['a lifetime that is not a duration', { [DURATION]: 'long' }, '"long" is not a duration'],
  ['a lifetime that is too short', { [DURATION]: '59m' }, 'from 1h to 365d'],
  ['a lifetime that is too long', { [DURATION]: '366d' }, 'from 1h to 365d'],
  ['a renewal after the end', { [RENEWAL]: '100%' }, 'from 20% to 90% of the lifetime'],
  ['a name outside the allowed domains', { [NAMES]: 'shop.example.com' }, 'namespace (apps.example.com;'],
  ['a name with the same ending', { [NAMES]: 'evilapps.example.com' }, 'is in none of the domains'],
  ['the name of another Service', { [NAMES]: 'pay.prod.svc' }, "the cluster's own domain"],
  ['a name in the cluster domain', { [NAMES]: 'a.pod.cluster.local' }, "the cluster's own domain"],
  ['a name that is not a DNS name', { [NAMES]: 'a_b.apps.example.com' }, 'has the label "a_b"'],
  ['pods without a headless Service', { [PODS]: 'db:2' }, 'headless'],
  [
    'too many pods',
    { [PODS]: 'db:50' },
    '"db:50" is neither a pod such as db-0 nor a StatefulSet with its replicas such as db:3 (1 to 49,',
    HEADLESS,
  ],
  ['too many names', { [PODS]: 'a:40,b:40' }, 'at most 100', HEADLESS],
  ['another Service of the cluster set', { [NAMES]: 'pay.prod.svc.apps.example.com' }, 'has the label svc'],
  ['a wildcard annotation that is not a boolean', { [WILDCARD]: 'maybe' }, 'neither true nor false'],
  ['an unknown output', { [OUTPUTS]: 'der' }, '"der" is not one of pkcs12, jks, combined-pem'],
  ['a password in another namespace', { [PASSWORD]: 'ns/secret/key' }, 'neither the name of a Secret'],
])('%s is invalid, and the message gives the reason', (_what, annotations, message, spec) => {
  const problem = expect.stringContaining(message) as string;
  expect(requestOf(annotations, {}, spec)).toMatchObject({ kind: 'invalid', message: problem });
});

const FIRST = '2026-01-01T00:00:00Z';
const claim = (name: string, createdAt: string | undefined, uid = name, own = false): SecretClaim => ({
  name,
  uid,
  createdAt,
  own,
});

test.each<[string, readonly SecretClaim[], string | undefined]>([
  ['no Service if there is no claim', [], undefined],
  ['the older Service', [claim('b', '2026-01-02T00:00:00Z'), claim('a', FIRST)], 'a'],
  ['the smaller uid within one second', [claim('b', FIRST, '2'), claim('a', FIRST, '1')], 'a'],
  ['the Service with a known age', [claim('b', undefined), claim('a', FIRST)], 'a'],
  [
    'Gatehouse, even if it is younger',
    [claim('b', '2020-01-01T00:00:00Z'), claim('a', FIRST, 'z', true)],
    'a',
  ],
])('L3: a Secret that several Services request goes to %s', (_who, claims, name) => {
  expect(firstClaim(claims)?.name).toBe(name);
});

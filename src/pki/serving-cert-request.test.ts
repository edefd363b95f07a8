import { expect, test } from 'vitest';
import { DAY } from './durations.ts';
import { servingCertRequest, type Service } from './serving-cert-request.ts';

const NAME = 'gatehouse.dev/serving-cert-secret-name';
const ALGORITHM = 'gatehouse.dev/serving-cert-key-algorithm';
const DURATION = 'gatehouse.dev/serving-cert-duration';

const service = (annotations: Record<string, string>, spec: Service['spec'] = {}): Service => ({
  metadata: { name: 'db', namespace: 'prod', annotations },
  spec,
});

test('a Service without the annotation asks for nothing', () => {
  expect(servingCertRequest(service({ [DURATION]: 'nonsense' }), 'cluster.local')).toEqual({ kind: 'none' });
  expect(servingCertRequest({}, 'cluster.local')).toEqual({ kind: 'none' });
});

test('a Service with the annotation asks for a P-256 cert of 90 days', () => {
  expect(servingCertRequest(service({ [NAME]: 'db-tls' }), 'k8s.example')).toEqual({
    kind: 'request',
    secretName: 'db-tls',
    dnsNames: ['db', 'db.prod', 'db.prod.svc', 'db.prod.svc.k8s.example'],
    algorithm: 'ECDSA-P256',
    lifetimeMs: 90 * DAY,
  });
});

test('a Service may ask for another algorithm and life', () => {
  const annotations = { [NAME]: 'db-tls', [ALGORITHM]: 'RSA-2048', [DURATION]: '36h' };
  expect(servingCertRequest(service(annotations), 'cluster.local')).toMatchObject({
    algorithm: 'RSA-2048',
    lifetimeMs: 1.5 * DAY,
  });
});

test('a headless Service gets names for its pods', () => {
  const request = servingCertRequest(service({ [NAME]: 'db-tls' }, { clusterIP: 'None' }), 'cluster.local');
  expect(request).toMatchObject({
    dnsNames: expect.arrayContaining(['*.db.prod.svc', '*.db.prod.svc.cluster.local']) as unknown,
  });
});

test('an ExternalName Service gets its names in the cluster, and never the external one', () => {
  const external = { type: 'ExternalName', externalName: 'db.example.com' };
  const request = servingCertRequest(service({ [NAME]: 'db-tls' }, external), 'cluster.local');
  expect(request).toMatchObject({ dnsNames: ['db', 'db.prod', 'db.prod.svc', 'db.prod.svc.cluster.local'] });
});

test.each([
  ['a name that no Secret can bear', { [NAME]: 'DB_TLS' }, {}, '"DB_TLS" cannot be the name of a Secret'],
  ['an empty name', { [NAME]: '' }, {}, '"" cannot be the name of a Secret'],
  ['an unknown algorithm', { [NAME]: 'x', [ALGORITHM]: 'ed25519' }, {}, 'ECDSA-P256, ECDSA-P384, RSA-2048'],
  ['a life that is no duration', { [NAME]: 'x', [DURATION]: 'long' }, {}, '"long" is not a duration'],
  ['a life too short', { [NAME]: 'x', [DURATION]: '59m' }, {}, 'from 1h to 365d'],
  ['a life too long', { [NAME]: 'x', [DURATION]: '366d' }, {}, 'from 1h to 365d'],
])('%s is invalid, and the message says why', (_what, annotations, spec, message) => {
  const request = servingCertRequest(service(annotations, spec), 'cluster.local');
  expect(request.kind).toBe('invalid');
  expect(request.kind === 'invalid' && request.message).toContain(message);
});

import { expect, test } from 'vitest';
import { resourcePath } from './object.ts';
import { leases, mutatingWebhookConfigurations, secrets } from './well-known.ts';

test.each([
  ['all Secrets', secrets, {}, '/api/v1/secrets'],
  ['the Secrets of a namespace', secrets, { namespace: 'prod' }, '/api/v1/namespaces/prod/secrets'],
  ['one Secret', secrets, { namespace: 'prod', name: 'db' }, '/api/v1/namespaces/prod/secrets/db'],
  [
    'a status',
    leases,
    { namespace: 'a', name: 'b' },
    '/apis/coordination.k8s.io/v1/namespaces/a/leases/b/status',
    'status',
  ],
  [
    'a cluster-scoped object',
    mutatingWebhookConfigurations,
    { name: 'x' },
    '/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/x',
  ],
  [
    'a name with capitals and colons',
    { ...mutatingWebhookConfigurations, resource: 'clusterroles' },
    { name: 'system:Ünit' },
    '/apis/admissionregistration.k8s.io/v1/clusterroles/system%3A%C3%9Cnit',
  ],
])('%s: the path is correct', (_what, resource, parts, path, subresource?) => {
  expect(resourcePath(resource, parts, subresource)).toBe(path);
});

test.each(['.', '..', '', 'a/b', '%2e%2e', 'a%', '/', '\ud800'])(
  'the segment %j is rejected in every position',
  (bad) => {
    expect(() => resourcePath(secrets, { namespace: 'prod', name: bad })).toThrow();
    expect(() => resourcePath(secrets, { namespace: bad, name: 'db' })).toThrow();
    expect(() => resourcePath(secrets, { namespace: 'prod', name: 'db' }, bad)).toThrow();
    expect(() => resourcePath({ ...leases, group: bad === '' ? '..' : bad })).toThrow();
    expect(() => resourcePath({ ...leases, resource: bad })).toThrow();
  },
);

test('a superfluous or missing namespace is a mistake', () => {
  expect(() => resourcePath(mutatingWebhookConfigurations, { namespace: 'prod', name: 'x' })).toThrow(
    'cluster-scoped',
  );
  expect(() => resourcePath(secrets, { name: 'db' })).toThrow('set the namespace of "db"');
});

import { Readable } from 'node:stream';
import { expect, test } from 'vitest';

import { createClient } from './client.ts';
import { confined, OutsideNamespacesError } from './confined.ts';
import type { Rest, RestRequest } from './rest.ts';
import { configMaps, events, namespaces, secrets } from './well-known.ts';

function recorded() {
  const paths: string[] = [];
  const rest: Rest = {
    request: <T>({ path }: RestRequest) => {
      paths.push(path);
      return Promise.resolve({} as T); // the caller ignores the response
    },
    stream: ({ path }) => {
      paths.push(path);
      return Readable.from([]);
    },
    impersonate: () => rest,
  };
  return { paths, rest: confined(rest, ['gatehouse-system', 'shop']) };
}

test('requests in the namespaces, and for cluster-scoped objects, are sent', async () => {
  const { paths, rest } = recorded();
  const client = createClient(rest);
  await client.get(secrets, { namespace: 'shop', name: 'db' });
  await client.get(namespaces, { name: 'other' });
  await client.create(events, { metadata: { namespace: 'default', name: 'e' } });
  rest.stream({ path: '/apis/gatehouse.dev/v1alpha1/admissionpolicies' });
  for (const path of ['status', 'finalize?dryRun=All'].map((name) => `/api/v1/namespaces/other/${name}`))
    await rest.request({ method: 'PUT', path });
  expect(paths).toEqual([
    '/api/v1/namespaces/shop/secrets/db',
    '/api/v1/namespaces/other',
    '/api/v1/namespaces/default/events',
    '/apis/gatehouse.dev/v1alpha1/admissionpolicies',
    '/api/v1/namespaces/other/status',
    '/api/v1/namespaces/other/finalize?dryRun=All',
  ]);
});

test.each(['status', 'status?limit=1', 'status-pages/a', 'finalize-jobs'])(
  'a custom resource elsewhere is no subresource of the namespace, although its plural is like one: %s',
  (rest) => {
    expect(() => recorded().rest.stream({ path: `/apis/example.com/v1/namespaces/other/${rest}` })).toThrow(
      OutsideNamespacesError,
    );
  },
);

test('requests elsewhere are not sent, whichever component makes them', async () => {
  const { paths, rest } = recorded();
  const client = createClient(rest);
  const ref = { namespace: 'other', name: 'db' };
  const attempts = [
    client.get(secrets, ref),
    client.create(configMaps, { metadata: ref }),
    client.delete(secrets, ref),
    client.list(secrets, { namespace: 'other' }),
    createClient(rest.impersonate({ user: 'u' })).get(secrets, ref),
  ];
  for (const attempt of attempts) await expect(attempt).rejects.toBeInstanceOf(OutsideNamespacesError);
  expect(() => rest.stream({ path: '/apis/apps/v1/namespaces/other/deployments' })).toThrow(
    'namespace other is not among --namespaces',
  );
  expect(paths).toEqual([]);
});

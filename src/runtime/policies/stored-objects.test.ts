import { expect, test } from 'vitest';

import { resourceOf } from '../../../test/support/definitions.ts';
import { sendJson, startServer, status } from '../../../test/support/kube/fake-api-server.ts';
import { NEVER } from '../../../test/support/runtime/fixtures.ts';
import { createClient } from '../../kube/client.ts';
import { storedObjects } from './stored-objects.ts';

test('a list that expires between two pages continues, and lists each object once', async () => {
  const servers = resourceOf('infra.example.com', 'servers', 'Server');
  const expired = { ...status(410, 'Expired'), metadata: { continue: 'newer' } };
  const named = (...names: readonly string[]) =>
    names.map((name) => ({ metadata: { namespace: 'shop', name } }));
  const server = await startServer(({ url }, response) => {
    const token = new URL(url, 'http://x').searchParams.get('continue');
    if (token === 'old') sendJson(response, expired, 410);
    else if (token === 'newer') sendJson(response, { metadata: {}, items: named('c') });
    else sendJson(response, { metadata: { continue: 'old' }, items: named('a', 'b') });
  });
  const discovery = { resolve: () => Promise.resolve(servers) };
  const stored = storedObjects(createClient(server.rest()), discovery);
  const names: string[] = [];
  for await (const page of stored.pages(servers, NEVER))
    names.push(...page.map(({ metadata }) => metadata?.name ?? ''));
  expect(names).toEqual(['a', 'b', 'c']);
  expect([...(await stored.keys(servers, NEVER))]).toEqual(['shop/a', 'shop/b', 'shop/c']);
});

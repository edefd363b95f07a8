/** Handlers behind the webhook server: their log, and entries that a replica does not have. */
import { expect, onTestFinished, test } from 'vitest';

import { createAdmission } from '../../src/runtime/policies/admission.ts';
import { startHandlers } from '../../src/runtime/handlers/handlers.ts';
import { resolveConfig } from '../../src/config/config.ts';
import { createPolicyRegistry } from '../../src/runtime/policies/policy-registry.ts';
import { defineHandler } from '../../src/index.ts';
import { createMetrics } from '../../src/server/metrics/metrics.ts';
import { post, reviewOf, type ReviewFields } from '../support/webhook-client.ts';
import { everyDatacenter, recordingLog, startWebhookServer } from '../support/webhook-server.ts';

const handler = defineHandler({
  match: { apiGroups: ['infra.example.com'], resources: ['servers'] },
  reads: [],
  validate: (_object, { log }) => {
    log.info('looked at', { peers: 3, uid: 'forged' });
  },
});

async function serving() {
  const { log, lines } = recordingLog();
  const metrics = createMetrics();
  const stopping = new AbortController();
  onTestFinished(() => {
    stopping.abort();
  });
  const nobody = undefined as never; // a handler that reads no objects never uses a client
  const handlers = startHandlers(
    {
      metrics,
      log,
      config: resolveConfig({}, {}),
      namespaces: undefined,
      client: nobody,
      discovery: nobody,
      exact: { client: nobody, rest: nobody },
      rollbacks: { add: () => undefined, tell: () => undefined },
    },
    { controllers: [], handlers: [{ name: 'servers', origin: 'servers.ts', handler }] },
    stopping.signal,
  );
  const registry = createPolicyRegistry(() => performance.now());
  const admission = createAdmission(registry, everyDatacenter, handlers);
  const running = await startWebhookServer({ ...admission, metrics, log });
  const ask = (path: string, fields: ReviewFields = {}) =>
    post(running, `${path}?timeout=7s`, reviewOf(fields));
  return { ask, lines };
}

test('the logger of a handler has fields of the request', async () => {
  const { ask, lines } = await serving();
  expect((await ask('/validate/handler-servers', { uid: 'one' })).body).toContain('"allowed":true');
  expect(lines).toContainEqual(
    expect.objectContaining({
      level: 'info',
      handler: 'servers',
      uid: 'one',
      msg: 'looked at',
      fields: { peers: 3, uid: 'forged' },
    }),
  );
});

const racks = { group: 'infra.example.com', version: 'v1', resource: 'racks' };

test.each<[string, string, ReviewFields]>([
  ['another handler', '/validate/handler-racks', {}],
  ['no name', '/validate/handler-', {}],
  ['a key with a meaning in JavaScript', '/validate/handler-__proto__', {}],
  ['another function: the API server knows another version of the handler', '/mutate/handler-servers', {}],
  ['another kind', '/validate/handler-servers', { resource: racks }],
])('an entry that this replica does not have is a retry: %s', async (_what, path, fields) => {
  const { ask } = await serving();
  const { status, headers } = await ask(path, fields);
  expect({ status, after: headers['retry-after'] }).toEqual({ status: 503, after: '1' });
});

/**
 * Handlers behind the webhook server, tested over the network. The test names begin with controller-runtime's case
 * names (pkg/webhook/admission: webhook_test.go, defaulter_custom_test.go, validator_custom_test.go).
 */
import { pino } from 'pino';
import { describe, expect, onTestFinished, test } from 'vitest';

import { createAdmission } from '../../src/runtime/policies/admission.ts';
import { startHandlers } from '../../src/runtime/handlers/handlers.ts';
import { resolveConfig } from '../../src/config/config.ts';
import { createPolicyRegistry } from '../../src/runtime/policies/policy-registry.ts';
import { defineHandler, type HandlerDefinition } from '../../src/index.ts';
import { createMetrics } from '../../src/server/metrics/metrics.ts';
import { judgeAdmission } from '../support/review-checker.ts';
import { post, reviewOf, serverObject, type ReviewFields } from '../support/webhook-client.ts';
import { everyDatacenter, startWebhookServer } from '../support/webhook-server.ts';

interface Server {
  apiVersion: string;
  kind: string;
  metadata: { name: string; labels?: Record<string, string>; annotations?: Record<string, string> };
  spec: { datacenter: string; tier?: string; units?: number };
}

const MATCH = {
  apiGroups: ['infra.example.com'],
  resources: ['servers'],
  operations: ['CREATE', 'UPDATE', 'DELETE'],
} as const satisfies HandlerDefinition['match'];

/** A webhook server with one handler that reads no objects. */
async function serving(definition: Partial<HandlerDefinition<Server>>) {
  const lines: Record<string, unknown>[] = [];
  const log = pino(
    { base: null, level: 'debug', formatters: { level: (label) => ({ level: label }) } },
    { write: (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>) }, // pino writes objects
  );
  const metrics = createMetrics();
  const stopping = new AbortController();
  onTestFinished(() => {
    stopping.abort();
  });
  const nobody = undefined as never; // a handler that reads no objects never uses a client
  const handlers = startHandlers(
    {
      ...{ metrics, log, config: resolveConfig({}, {}) },
      ...{
        client: nobody,
        discovery: nobody,
        rollbacks: { add: () => undefined, tell: () => undefined },
        exact: { client: nobody, rest: nobody },
        namespaces: undefined,
      },
    },
    {
      controllers: [],
      handlers: [
        {
          name: 'servers',
          origin: 'servers.ts',
          // the handler has its own object type
          handler: defineHandler<Server>({ match: MATCH, reads: [], ...definition }) as never,
        },
      ],
    },
    stopping.signal,
  );
  const registry = createPolicyRegistry(() => performance.now());
  const running = await startWebhookServer({
    ...createAdmission(registry, everyDatacenter, handlers),
    metrics,
    log,
  });
  const ask = async (
    webhook: 'mutate' | 'validate',
    fields: ReviewFields = {},
    { entry = 'handler-servers', timeout = '7s' } = {},
  ) => {
    const question = reviewOf(fields);
    const path = `/${webhook}/${entry}?timeout=${timeout}`;
    const { status, body, headers } = await post(running, path, question);
    return {
      ...{ status, body, headers },
      verdict: status === 200 ? judgeAdmission(webhook, question, body) : undefined,
      response: (JSON.parse(body) as { response?: Record<string, unknown> }).response,
    };
  };
  return { ask, lines, metrics };
}

const UPDATE = { operation: 'UPDATE', oldObject: serverObject() };
const DELETE = { operation: 'DELETE', object: null, oldObject: serverObject() };

describe('webhook', () => {
  test('should set the UID: the answer has the UID of its request, whatever the handler returns', async () => {
    const { ask } = await serving({ validate: () => undefined });
    expect((await ask('validate', { uid: 'one' })).response).toEqual({ uid: 'one', allowed: true });
  });

  test('should populate the status: a refusal has a complete Status with the fields at fault', async () => {
    const { ask } = await serving({ validate: (_object, { deny }) => deny('no', { field: 'spec.units' }) });
    expect((await ask('validate')).response).toEqual({
      uid: 'a-uid',
      allowed: false,
      status: {
        status: 'Failure',
        code: 403,
        reason: 'Forbidden',
        message: 'spec.units: no (handler servers)',
        details: {
          name: 'a',
          group: 'infra.example.com',
          kind: 'Server',
          causes: [{ field: 'spec.units', reason: 'FieldValueInvalid', message: 'no' }],
        },
      },
    });
  });

  test("shouldn't overwrite the status: code and reason come from the handler", async () => {
    const { ask } = await serving({
      validate: (_object, { deny }) => deny('busy', { code: 429, reason: 'TooManyRequests' }),
    });
    expect((await ask('validate')).response).toMatchObject({
      status: { code: 429, reason: 'TooManyRequests', message: 'busy (handler servers)' },
    });
  });

  test('should serialize patch operations into a single JSON patch', async () => {
    const { ask } = await serving({
      mutate: (draft) => {
        draft.spec.tier = 'gold';
        draft.metadata.labels = { 'example.com/tier': 'gold' };
      },
    });
    const { verdict, response } = await ask('mutate');
    expect(response?.patchType).toBe('JSONPatch');
    expect(verdict?.patch).toEqual([
      { op: 'add', path: '/metadata/labels', value: { 'example.com/tier': 'gold' } },
      { op: 'add', path: '/spec/tier', value: 'gold' },
    ]);
  });

  test('should pass a logger with fields of the request', async () => {
    const { ask, lines } = await serving({
      validate: (_object, { log }) => {
        log.info('looked at', { peers: 3, uid: 'forged' });
      },
    });
    await ask('validate', { uid: 'one' });
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

  // In controller-runtime, recovering from panics is optional; here an error in a handler never ends the process.
  test('should recover from a panic: the answer is a refusal that names the handler, and the log has the cause', async () => {
    const { ask, lines, metrics } = await serving({
      validate: () => {
        throw new Error('password=hunter2');
      },
    });
    const { status, body } = await ask('validate');
    expect(status).toBe(200);
    expect(JSON.parse(body)).toMatchObject({
      kind: 'AdmissionReview',
      response: {
        allowed: false,
        status: { code: 500, message: 'handler servers failed; the log of Gatehouse says why' },
      },
    });
    expect(body).not.toContain('hunter2');
    const errors = lines.filter(({ level }) => level === 'error');
    expect(errors).toHaveLength(1);
    expect(JSON.stringify(errors)).toMatch(/hunter2.*handler-reviews\.test\.ts/); // the log has the stack, too
    expect(await metrics.text()).toContain(
      'gatehouse_handler_failures_total{handler="servers",reason="exception"} 1',
    );
  });
});

describe('defaulter', () => {
  test('should preserve unknown fields: fields that the type does not name are kept', async () => {
    const { ask } = await serving({
      mutate: (draft) => {
        draft.spec.tier ??= 'standard';
      },
    });
    const { verdict } = await ask('mutate', { object: serverObject({ unknown: { field: [1, null] } }) });
    expect(verdict?.patch).toEqual([{ op: 'add', path: '/spec/tier', value: 'standard' }]);
  });

  test('should remove a field that the handler removes, and only that', async () => {
    const { ask } = await serving({
      mutate: (draft) => {
        delete draft.spec.tier;
      },
    });
    const { verdict } = await ask('mutate', { object: serverObject({ tier: 'x', unknown: 1 }) });
    expect(verdict?.patch).toEqual([{ op: 'remove', path: '/spec/tier' }]);
  });

  test('should return ok if there is nothing to change: no patch, no patchType', async () => {
    const { ask } = await serving({ mutate: () => undefined });
    expect((await ask('mutate')).response).toEqual({ uid: 'a-uid', allowed: true });
  });

  test('should return ok if received a delete: the webhook is not called for deletions, and would not patch them', async () => {
    const { ask } = await serving({
      mutate: (draft) => {
        draft.spec.tier = 'gold';
      },
    });
    expect((await ask('mutate', DELETE)).response).toEqual({ uid: 'a-uid', allowed: true });
  });
});

describe.each([
  ['create', {}],
  ['update', UPDATE],
  ['delete', DELETE],
] as const)('validator: %s', (_operation, fields) => {
  test('should return 200 in response when the handler accepts', async () => {
    const { ask } = await serving({ validate: () => undefined });
    expect((await ask('validate', fields)).response).toEqual({ uid: 'a-uid', allowed: true });
  });

  test('should return 200 in response with warnings', async () => {
    const { ask } = await serving({
      validate: (_object, { warn }) => {
        warn('one\ntwo');
      },
    });
    expect((await ask('validate', fields)).response).toEqual({
      uid: 'a-uid',
      allowed: true,
      warnings: ['one', 'two'],
    });
  });

  test('should return a refusal with warnings, with the status that was asked for', async () => {
    const { ask } = await serving({
      validate: (_object, { warn, deny }) => {
        warn('look');
        return deny('gone', { code: 410, reason: 'Gone' });
      },
    });
    expect((await ask('validate', fields)).response).toMatchObject({
      allowed: false,
      warnings: ['look'],
      status: { code: 410, reason: 'Gone' },
    });
  });

  // There, a plain error is a denial with 403, whatever the failurePolicy. Here, the author chooses.
  test.each([
    ['deny', false],
    ['allow', true],
  ] as const)('should judge a plain error according to onError: %s', async (onError, isAllowed) => {
    const { ask } = await serving({ onError, validate: () => Promise.reject(new Error('plain')) });
    const answer = await ask('validate', fields);
    expect(answer.status).toBe(200);
    expect(answer.verdict?.allowed).toBe(isAllowed);
    expect(answer.body).toContain('handler servers failed');
  });
});

describe('an entry', () => {
  test.each(['handler-racks', 'handler-', 'handler-__proto__'])(
    '%s that this replica does not have is a retry',
    async (entry) => {
      const { ask } = await serving({ validate: () => undefined });
      const { status, headers } = await ask('validate', {}, { entry });
      expect({ status, after: headers['retry-after'] }).toEqual({ status: 503, after: '1' });
    },
  );

  test('whose handler has another function is a retry, because the API server knows another version', async () => {
    const { ask } = await serving({ validate: () => undefined });
    expect((await ask('mutate')).status).toBe(503);
    expect(
      (await ask('validate', { resource: { group: 'infra.example.com', version: 'v1', resource: 'racks' } }))
        .status,
    ).toBe(503);
  });
});

test('a handler that hangs gets an answer before the timeout of the API server', async () => {
  const { ask } = await serving({ onError: 'allow', mutate: () => new Promise(() => undefined) });
  const { verdict, response } = await ask('mutate', {}, { timeout: '1s' });
  expect(verdict).toMatchObject({ allowed: true, patch: [] });
  expect(response).toMatchObject({
    warnings: ['handler servers did not answer in time; the request went on without it'],
    auditAnnotations: { 'handler-failed': 'servers' },
  });
});

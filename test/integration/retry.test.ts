/** Reviews without a verdict: the response to the API server, the log, and no more work for clients that have gone. */
import { describe, expect, test } from 'vitest';

import { ALLOWED, type Decision } from '../../src/admission/review/decision.ts';
import type { WebhookServerOptions } from '../../src/server/webhook-server.ts';
import { eventually } from '../support/processes.ts';
import { MUTATE, post, reviewOf, serverObject, VALIDATE } from '../support/webhook-client.ts';
import { ENTRY, governedBy, policy, serversPolicy, startWebhookServer } from '../support/webhook-server.ts';

type Decide = WebhookServerOptions['validate'];

const RETRY: Decision = {
  kind: 'retry',
  message: 'could not find out',
  cause: new Error('connection to 10.0.0.1 refused'),
};

describe('a decision to retry', () => {
  test.each(['mutate', 'validate'] as const)(
    'is a 503 with Retry-After, and its cause is only in the log (%s)',
    async (webhook) => {
      const running = await startWebhookServer({
        mutate: () => RETRY,
        validate: () => Promise.resolve(RETRY),
      });
      const { status, headers, body } = await post(running, `/${webhook}/e`, reviewOf());
      expect(status).toBe(503);
      expect(headers['retry-after']).toBe('1');
      expect(headers['content-type']).toMatch(/^application\/json/);
      const failure = { apiVersion: 'v1', kind: 'Status', status: 'Failure', code: 503 };
      expect(JSON.parse(body)).toEqual({ ...failure, message: 'could not find out' });
      expect(running.recorded.admissions).toEqual([{ webhook, operation: 'CREATE', outcome: 'retry' }]);
      expect(running.recorded.rejected).toEqual([]);
      expect(running.recorded.lines).toMatchObject([
        { level: 'info', uid: 'a-uid', outcome: 'retry', err: { message: 'connection to 10.0.0.1 refused' } },
      ]);
    },
  );
});

describe('an error', () => {
  const secret = Object.assign(new Error('password=hunter2'), { statusCode: 404, code: 'E_INNER' });
  const throwing = {
    mutate: () => {
      throw secret;
    },
    validate: () => Promise.reject(secret),
  };

  test.each([MUTATE, VALIDATE])(
    'is a refusal that does not reveal the cause, which only the log has (%s)',
    async (path) => {
      const running = await startWebhookServer(throwing);
      const { status, headers, body } = await post(running, path, reviewOf());
      expect(status).toBe(200);
      expect(headers['retry-after']).toBeUndefined();
      expect(body).not.toMatch(/hunter2|E_INNER|\.ts/);
      expect(JSON.parse(body)).toMatchObject({
        response: { uid: 'a-uid', allowed: false, status: { code: 500 } },
      });
      expect(running.recorded.lines).toMatchObject([
        {
          level: 'error',
          uid: 'a-uid',
          entry: ENTRY,
          outcome: 'error',
          err: { message: 'password=hunter2' },
        },
      ]);
      expect(running.recorded.admissions).toMatchObject([{ outcome: 'error' }]);
      expect(running.recorded.rejected).toEqual([]);
    },
  );

  test('is also the result of an answer that cannot be written', async () => {
    const unwritable = {
      ...ALLOWED,
      auditAnnotations: { 'a/b': 'the API server would drop it' },
    } as Decision; // a decision that the types forbid
    const running = await startWebhookServer({ validate: () => Promise.resolve(unwritable) });
    const { body } = await post(running, VALIDATE, reviewOf());
    expect(JSON.parse(body)).toMatchObject({ response: { allowed: false, status: { code: 500 } } });
    expect(running.recorded.lines).toMatchObject([{ level: 'error', outcome: 'error' }]);
    expect(running.recorded.admissions).toHaveLength(1);
  });
});

describe('the deadline of an answer', () => {
  function waiting() {
    const seen: { signal?: AbortSignal } = {};
    const validate: Decide = async (_entry, _request, signal) => {
      seen.signal = signal;
      await new Promise((resolve) => {
        signal.addEventListener('abort', resolve);
      });
      return RETRY;
    };
    return { seen, validate };
  }

  test('is half a second before the timeout of the webhook', async () => {
    const { seen, validate } = waiting();
    const running = await startWebhookServer({ validate });
    const started = performance.now();
    const { status } = await post(running, '/validate/e?timeout=1s', reviewOf());
    const took = performance.now() - started;
    expect(status).toBe(503);
    expect(took).toBeGreaterThan(450);
    expect(took).toBeLessThan(1_000);
    expect(String(seen.signal?.reason)).toContain('the time to answer is over');
  });

  test('ends when the API server disconnects', async () => {
    const { seen, validate } = waiting();
    const running = await startWebhookServer({ validate });
    const client = new AbortController();
    const asked = post(running, '/validate/e?timeout=30s', reviewOf(), { signal: client.signal });
    await eventually('the review is being judged', () => seen.signal);
    expect(seen.signal?.aborted).toBe(false);
    client.abort();
    await expect(asked).rejects.toThrow(/abort/);
    await eventually('the signal ends', () => seen.signal?.aborted);
    expect(String(seen.signal?.reason)).toContain('hung up');
  });

  test('does not abort the signal after an answer', async () => {
    let signal: AbortSignal | undefined;
    const running = await startWebhookServer({
      validate: (_entry, _request, given) => {
        signal = given;
        return Promise.resolve(ALLOWED);
      },
    });
    await post(running, '/validate/e?timeout=1s', reviewOf());
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect(signal?.aborted).toBe(false);
  });
});

describe('the log', () => {
  const canary = 'c4n4ry';
  const secrets = policy('secrets', {
    match: { apiGroups: [''], resources: ['secrets'] },
    defaults: [{ path: 'data.tier', value: 'c3RhbmRhcmQ=' }],
    validate: { immutable: ['data.password'] },
  });
  const secret = (password: string) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 's', namespace: 'store' },
    data: { password },
  });
  const server = serverObject({ note: canary, serial: canary });

  const ALLOW = { level: 'debug', operation: 'CREATE', outcome: 'allow' };
  const about = {
    allowed: reviewOf({ object: server }),
    denied: reviewOf({ object: serverObject({ note: canary, datacenter: 'nowhere' }) }),
  };
  const ofSecret = reviewOf({
    operation: 'UPDATE',
    kind: { group: '', version: 'v1', kind: 'Secret' },
    resource: { group: '', version: 'v1', resource: 'secrets' },
    object: secret(canary),
    oldObject: secret('b2xk'),
  });

  test.each([
    ['a patch', MUTATE, about.allowed, { ...ALLOW, webhook: 'mutate', patched: ['/spec/tier'] }],
    ['a permission', VALIDATE, about.allowed, { ...ALLOW, webhook: 'validate', user: 'jane' }],
    ['a denial', VALIDATE, about.denied, { operation: 'CREATE', outcome: 'deny', reason: 'Forbidden' }],
    ['a patch to a Secret', MUTATE, ofSecret, { level: 'debug', operation: 'UPDATE', resource: 'secrets' }],
    ['a denial about a Secret', VALIDATE, ofSecret, { operation: 'UPDATE', outcome: 'deny' }],
  ])('has one line for %s, without the object', async (_what, path, body, expected) => {
    const entry = body === ofSecret ? secrets.entryId : ENTRY;
    const running = await startWebhookServer(governedBy([serversPolicy, secrets]));
    const { status } = await post(running, path.replace(ENTRY, entry), body);
    expect(status).toBe(200);
    const common = { level: 'info', msg: 'admission', uid: 'a-uid', entry };
    const ms = expect.any(Number) as number;
    expect(running.recorded.lines).toMatchObject([{ ...common, ms, ...expected }]);
    expect(JSON.stringify(running.recorded.lines)).not.toContain(canary);
  });

  test('ignores a request that is not a review', async () => {
    const running = await startWebhookServer(governedBy([serversPolicy]));
    await post(running, VALIDATE, `{"${canary}":`);
    await post(running, `/${canary}`, '{}');
    expect(running.recorded.lines).toEqual([]);
    expect(running.recorded.rejected).toEqual([400, 404]);
  });
});

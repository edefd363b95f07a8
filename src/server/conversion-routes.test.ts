import { describe, expect, onTestFinished, test, vi } from 'vitest';

import type { ConverterLookup } from '../admission/conversion/converter.ts';
import { firstAuthority } from '../../test/support/pki/fixtures.ts';
import { affordable, type ConversionServing } from './conversion-routes.ts';
import { certificateOf, noConversions, recordingOptions } from '../../test/support/webhook-server.ts';
import { loadSheddingOf } from '../../test/support/server/load-shedding.ts';
import { buildWebhookServer, type WebhookServerOptions } from './webhook-server.ts';

const MIB = 1024 * 1024;
const found: ConverterLookup = {
  kind: 'found',
  converter: {
    name: 'ConversionPolicy servers',
    target: { group: 'infra.example.com', resource: 'servers' },
    versions: ['v1', 'v2'],
    convert: (object) => object,
  },
};

const server = (name: string, more: object = {}) => ({
  apiVersion: 'infra.example.com/v1',
  kind: 'Server',
  metadata: { name },
  ...more,
});
const review = (objects: readonly object[] = [server('a')]) => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'ConversionReview',
  request: { uid: 'u', desiredAPIVersion: 'infra.example.com/v2', objects },
});

async function start(serving: Partial<ConversionServing> = {}, deps: Partial<WebhookServerOptions> = {}) {
  const certificate = await certificateOf(await firstAuthority(new Date()));
  const conversion = vi.fn<WebhookServerOptions['metrics']['conversion']>();
  const { options, recorded } = recordingOptions({
    conversion: { ...noConversions, lookUp: () => found, ...serving },
  });
  const metrics = { ...options.metrics, conversion };
  const app = buildWebhookServer(certificate, { ...options, metrics, ...deps });
  onTestFinished(() => app.close());
  const ask = async (
    payload: object | string,
    url = '/convert?timeout=30s',
    headers: Record<string, string> = {},
  ) => {
    const all = { 'content-type': 'application/json', ...headers };
    const answer = await app.inject({ method: 'POST', url, payload, headers: all });
    return { status: answer.statusCode, headers: answer.headers, body: JSON.parse(answer.body) as unknown };
  };
  return { ask, conversion, ...recorded };
}

const SUCCESS = { response: { uid: 'u', result: { status: 'Success' } } };
const failureWith = (message: string) => ({
  response: { result: { status: 'Failed', message: expect.stringContaining(message) as string } },
});

test('a long list is answered as a single response, byte for byte', async () => {
  const { ask } = await start({ bodyLimit: 16 * MIB });
  const objects = Array.from({ length: 3_000 }, (_, index) =>
    server(`ü${index}`, { spec: { text: 'x'.repeat(1_000) } }),
  );
  const { status, headers, body } = await ask(review(objects));
  const convertedObjects = objects.map((object) => ({ ...object, apiVersion: 'infra.example.com/v2' }));
  const expected = { uid: 'u', convertedObjects, result: { status: 'Success' } };
  expect([status, headers['content-type']]).toEqual([200, 'application/json; charset=utf-8']);
  const { apiVersion, kind } = review();
  expect(body).toEqual({ apiVersion, kind, response: expected });
  expect(Number(headers['content-length'])).toBe(Buffer.byteLength(JSON.stringify(body)));
});

test('only the log has the exception of a converter', async () => {
  const secret = new Error('the password is 42');
  const convert = () => {
    throw secret;
  };
  const { ask, conversion, lines } = await start({
    lookUp: () => ({ kind: 'found', converter: { ...found.converter, convert } }),
  });
  const { status, body } = await ask(review());
  expect(status).toBe(200);
  const place = 'Server "a" cannot be converted from v1 to v2: ConversionPolicy servers';
  expect(body).toMatchObject(failureWith(`${place}: internal error; the log of Gatehouse says more`));
  expect(JSON.stringify(body)).not.toContain('password');
  expect(lines).toMatchObject([
    { level: 'error', err: { message: secret.message }, msg: 'conversion failed' },
  ]);
  expect(conversion.mock.calls[0]?.[0]).toMatchObject({ outcome: 'error' });
});

test('an unready replica makes the API server retry', async () => {
  const { ask, conversion } = await start({ lookUp: () => ({ kind: 'unready', message: 'not read yet' }) });
  const { status, headers, body } = await ask(review());
  expect([status, headers['retry-after']]).toEqual([503, '1']);
  expect(body).toMatchObject({ kind: 'Status', message: 'not read yet' });
  expect(conversion.mock.calls[0]?.[0]).toEqual({ crd: '', outcome: 'unready' });
});

test('an invalid review is rejected and counted, and so is one without a converter', async () => {
  const { ask, conversion, rejected } = await start();
  expect((await ask({ kind: 'Pod' })).status).toBe(400);
  expect((await ask('{"request":')).body).toMatchObject({
    message: expect.stringContaining('the body is not JSON') as string,
  });
  expect((await ask(review(), '/convert/a/b')).status).toBe(404);
  expect((await ask('x', '/convert', { 'content-type': 'text/plain' })).status).toBe(415);
  expect(rejected).toEqual([400, 400, 404, 415]);
  expect(conversion).not.toHaveBeenCalled();
});

describe('conversions have separate limits', () => {
  test('for bodies, above that of admission reviews', async () => {
    const { ask } = await start({ bodyLimit: 12 * MIB });
    const large = [server('a', { spec: { text: 'x'.repeat(10 * MIB) } })];
    expect((await ask(review(large))).body).toMatchObject(SUCCESS);
    const { status, body } = await ask(review([...large, ...large]));
    expect(status).toBe(200);
    expect(body).toMatchObject({
      kind: 'ConversionReview',
      ...failureWith('larger than 12 MiB; request fewer'),
    });
  });

  test('for bodies, by the memory of the container', () => {
    expect(affordable(64 * MIB, 512 * MIB)).toBeLessThan(43 * MIB);
    expect(affordable(64 * MIB, 2_048 * MIB)).toBe(64 * MIB);
    expect(affordable(64 * MIB, 0)).toBe(64 * MIB);
  });

  test('for concurrent reviews, shared fairly between kinds', async () => {
    const held = Promise.withResolvers<undefined>();
    const convert = (object: object) => held.promise.then(() => object as never);
    const { ask } = await start({
      lookUp: () => ({ kind: 'found', converter: { ...found.converter, convert } }),
    });
    const waiting = Array.from({ length: 32 }, () => ask(review(), '/convert/a.b'));
    await expect.poll(async () => (await ask(review([]), '/convert/a.b')).status).toBe(429);
    const refused = await ask(review([]), '/convert/a.b');
    expect([refused.headers['retry-after'], refused.body]).toMatchObject(['1', { kind: 'Status' }]);
    expect((await ask(review([]), '/convert/c.d')).status).toBe(200);
    held.resolve(undefined);
    for (const { status } of await Promise.all(waiting)) expect(status).toBe(200);
    expect((await ask(review([]), '/convert/a.b')).status).toBe(200);
  });
});

test('an overload of admission does not affect conversion', async () => {
  const arrive = () => ({ kind: 'refused', why: 'event-loop' }) as const;
  const { ask } = await start({}, { loadShedding: { ...loadSheddingOf(), arrive } });
  expect((await ask(JSON.stringify({}), '/validate/e')).status).toBe(429);
  expect((await ask(review())).body).toMatchObject(SUCCESS);
});

import { expect, onTestFinished, test, vi } from 'vitest';

import { ALLOWED, type Decision } from '../admission/review/decision.ts';
import { firstAuthority } from '../../test/support/pki/fixtures.ts';
import type { Log } from '../log.ts';
import { reviewOf, type ReviewFields } from '../../test/support/webhook-client.ts';
import { certificateOf, recordingOptions } from '../../test/support/webhook-server.ts';
import {
  buildWebhookServer,
  secureOptions,
  swapCertificate,
  type WebhookServerOptions,
} from './webhook-server.ts';

const DENIED: Decision = {
  kind: 'deny',
  code: 403,
  reason: 'Forbidden',
  message: 'spec.rack: is taken',
  causes: [],
  warnings: ['a warning'],
  auditAnnotations: { violations: 'one' },
};

const review = (fields: ReviewFields & { readonly dryRun?: boolean } = {}) =>
  JSON.parse(reviewOf(fields)) as object;
const servingCertificate = async () => certificateOf(await firstAuthority(new Date()));

async function start(deps: Partial<WebhookServerOptions> = {}) {
  const debug = vi.fn<Log['info']>();
  const info = vi.fn<Log['info']>();
  const error = vi.fn<Log['error']>();
  const admission = vi.fn<WebhookServerOptions['metrics']['admission']>();
  const deferred = vi.fn<WebhookServerOptions['metrics']['deferred']>();
  const rejectedRequest = vi.fn<WebhookServerOptions['metrics']['rejectedRequest']>();
  const { options } = recordingOptions({ mutate: () => ALLOWED, validate: () => Promise.resolve(ALLOWED) });
  const all: WebhookServerOptions = {
    ...options,
    log: { debug, info, error, warn: () => undefined },
    metrics: { ...options.metrics, admission, deferred, rejectedRequest },
    ...deps,
  };
  const app = buildWebhookServer(await servingCertificate(), all);
  onTestFinished(() => app.close());
  const ask = async (url: string, payload: object = review()) => {
    const { statusCode, headers, body } = await app.inject({ method: 'POST', url, payload });
    return { status: statusCode, type: headers['content-type'], body: JSON.parse(body) as unknown };
  };
  return { ask, debug, info, error, admission, deferred, rejectedRequest };
}

test('without the token of the paths, nothing is answered, and nothing is looked at', async () => {
  const token = 'a'.repeat(32);
  const mutate = vi.fn<WebhookServerOptions['mutate']>(() => ALLOWED);
  const { ask, admission, info, rejectedRequest } = await start({
    mutate,
    judgePath: (given) => (given === token ? 'known' : 'unknown'),
  });
  for (const path of ['/mutate/e', `/mutate/${'b'.repeat(32)}/e`, `/mutate/e/${token}`, `/mutate//e`])
    expect(await ask(path, { kind: 'Pod' })).toMatchObject({ status: 404 });
  expect([mutate, admission, info].map(({ mock }) => mock.calls.length)).toEqual([0, 0, 0]);
  expect(rejectedRequest.mock.calls).toEqual([[404], [404], [404], [404]]);
  expect(await ask(`/mutate/${token}/e`)).toMatchObject({ status: 200 });
  expect(mutate.mock.calls[0]?.[0]).toBe('e');
});

test('a replica that does not know the tokens yet asks for a retry', async () => {
  const { ask } = await start({ judgePath: () => 'unread' });
  expect(await ask(`/validate/${'a'.repeat(32)}/e`)).toMatchObject({ status: 503 });
});

test('an error in the log does not show the token of the path', async () => {
  const token = 'a'.repeat(32);
  const { ask, error } = await start({
    judgePath: () => {
      throw new Error('broken');
    },
  });
  await ask(`/validate/${token}/e`);
  expect(JSON.stringify(error.mock.calls)).toContain('/validate/…/e');
  expect(JSON.stringify(error.mock.calls)).not.toContain(token);
});

test('S6: each deferred check is counted, except on dry runs', async () => {
  const auditAnnotations = { deferred: 'servers/dc=a,disks/rack=b', 'restore-window': 'w' };
  const { ask, deferred } = await start({ validate: () => ({ ...ALLOWED, auditAnnotations }) });
  await ask('/validate/e');
  expect(deferred.mock.calls).toEqual([['servers'], ['disks']]);
  await ask('/validate/e', review({ dryRun: true }));
  expect(deferred).toHaveBeenCalledTimes(2);
});

test('a denial is a response, a metric and a log line', async () => {
  const { ask, info, error, admission, rejectedRequest } = await start({
    validate: () => Promise.resolve(DENIED),
  });
  const { status, type, body } = await ask('/validate/e');
  expect([status, type]).toEqual([200, 'application/json']);
  expect(body).toMatchObject({
    response: { allowed: false, status: { code: 403, message: 'spec.rack: is taken' } },
  });
  expect(admission).toHaveBeenCalledExactlyOnceWith(
    { webhook: 'validate', operation: 'CREATE', outcome: 'deny' },
    expect.any(Number),
  );
  expect(info.mock.calls).toMatchObject([
    [
      {
        webhook: 'validate',
        entry: 'e',
        uid: 'a-uid',
        operation: 'CREATE',
        resource: 'servers',
        group: 'infra.example.com',
        namespace: 'store',
        name: 'a',
        user: 'jane',
        outcome: 'deny',
        reason: 'Forbidden',
        message: 'spec.rack: is taken',
      },
      'admission',
    ],
  ]);
  expect([error.mock.calls, rejectedRequest.mock.calls]).toEqual([[], []]);
});

test('an invalid review is counted and not decided', async () => {
  const { ask, admission, rejectedRequest } = await start();
  expect((await ask('/validate/e', { kind: 'Pod' })).status).toBe(400);
  expect((await ask('/convert', review())).status).toBe(400);
  expect((await ask('/elsewhere')).status).toBe(404);
  expect(rejectedRequest.mock.calls).toEqual([[400], [400], [404]]);
  expect(admission).not.toHaveBeenCalled();
});

test('a swap repeats all options of the server', async () => {
  const certificate = await servingCertificate();
  const setSecureContext = vi.fn();
  swapCertificate({ setSecureContext }, certificate);
  const { chain: cert, key } = certificate;
  expect(setSecureContext).toHaveBeenCalledExactlyOnceWith(secureOptions(certificate));
  expect(secureOptions(certificate)).toMatchObject({ cert, key, minVersion: 'TLSv1.2' });
  expect(secureOptions(certificate)).not.toHaveProperty('ca');
  swapCertificate({ setSecureContext }, certificate, cert);
  expect(setSecureContext).toHaveBeenLastCalledWith({ ...secureOptions(certificate), ca: cert });
});

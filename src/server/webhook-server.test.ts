import { expect, onTestFinished, test, vi } from 'vitest';

import { ALLOWED, type Decision } from '../admission/review/decision.ts';
import { firstAuthority } from '../../test/support/pki/fixtures.ts';
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
  const { options, recorded } = recordingOptions({
    mutate: () => ALLOWED,
    validate: () => Promise.resolve(ALLOWED),
    ...deps,
  });
  const app = buildWebhookServer(await servingCertificate(), options);
  onTestFinished(() => app.close());
  const ask = async (url: string, payload: object = review()) => {
    const { statusCode, headers, body } = await app.inject({ method: 'POST', url, payload });
    return { status: statusCode, type: headers['content-type'], body: JSON.parse(body) as unknown };
  };
  return { ask, ...recorded };
}

test('without the token of the paths, nothing is answered, and nothing is looked at', async () => {
  const token = 'a'.repeat(32);
  const mutate = vi.fn<WebhookServerOptions['mutate']>(() => ALLOWED);
  const { ask, admissions, lines, rejected } = await start({
    mutate,
    judgePath: (given) => (given === token ? 'known' : 'unknown'),
  });
  for (const path of ['/mutate/e', `/mutate/${'b'.repeat(32)}/e`, `/mutate/e/${token}`, `/mutate//e`])
    expect(await ask(path, { kind: 'Pod' })).toMatchObject({ status: 404 });
  expect([mutate.mock.calls, admissions, lines]).toEqual([[], [], []]);
  expect(rejected).toEqual([404, 404, 404, 404]);
  expect(await ask(`/mutate/${token}/e`)).toMatchObject({ status: 200 });
  expect(mutate.mock.calls[0]?.[0]).toBe('e');
});

test('a replica that does not know the tokens yet asks for a retry', async () => {
  const { ask } = await start({ judgePath: () => 'unread' });
  expect(await ask(`/validate/${'a'.repeat(32)}/e`)).toMatchObject({ status: 503 });
});

test('an error in the log does not show the token of the path', async () => {
  const token = 'a'.repeat(32);
  const { ask, lines } = await start({
    judgePath: () => {
      throw new Error('broken');
    },
  });
  await ask(`/validate/${token}/e`);
  expect(lines).toMatchObject([{ level: 'error', path: '/validate/…/e' }]);
  expect(JSON.stringify(lines)).not.toContain(token);
});

test('S6: each check that is deferred or already violated is counted, except on dry runs', async () => {
  const auditAnnotations = {
    deferred: 'servers/dc=a,disks/rack=b,racks=datacenters.infra//fra1,cut-off…',
    'existing-violations': 'servers/small,servers/schema',
    'restore-window': 'w',
  };
  const [deferred, existingAllowed] = [vi.fn(), vi.fn()];
  const metrics = { ...recordingOptions().options.metrics, deferred, existingAllowed };
  const { ask } = await start({ validate: () => ({ ...ALLOWED, auditAnnotations }), metrics });
  await ask('/validate/e');
  expect(deferred.mock.calls).toEqual([['servers'], ['disks'], ['racks']]);
  expect(existingAllowed.mock.calls).toEqual([['servers'], ['servers']]);
  await ask('/validate/e', review({ dryRun: true }));
  expect(deferred).toHaveBeenCalledTimes(3);
  expect(existingAllowed).toHaveBeenCalledTimes(2);
});

test('a denial is a response, a metric and a log line', async () => {
  const { ask, lines, admissions, rejected } = await start({ validate: () => Promise.resolve(DENIED) });
  const { status, type, body } = await ask('/validate/e');
  expect([status, type]).toEqual([200, 'application/json']);
  expect(body).toMatchObject({
    response: { allowed: false, status: { code: 403, message: 'spec.rack: is taken' } },
  });
  expect(admissions).toEqual([{ webhook: 'validate', operation: 'CREATE', outcome: 'deny' }]);
  expect(lines).toMatchObject([
    {
      level: 'info',
      msg: 'admission',
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
  ]);
  expect(rejected).toEqual([]);
});

test('under failurePolicy: Ignore, a large object is refused before its time is over, whatever its decision does', async () => {
  const { ask } = await start({ validate: () => Promise.withResolvers<Decision>().promise });
  const large = { ...review(), padding: 'x'.repeat(20_000) };
  expect(await ask('/validate/ignore-e?timeout=0.2s', large)).toMatchObject({
    status: 200,
    body: { response: { uid: 'a-uid', allowed: false, status: { code: 429 } } },
  });
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

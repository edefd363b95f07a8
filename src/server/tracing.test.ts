import { expect, onTestFinished, test } from 'vitest';

import { ALLOWED } from '../admission/review/decision.ts';
import { firstAuthority, serverOf } from '../../test/support/pki/fixtures.ts';
import { noConversions } from '../../test/support/server/conversion.ts';
import { loadSheddingOf } from '../../test/support/server/load-shedding.ts';
import type { ServerTracing } from './tracing.ts';
import { buildWebhookServer, type WebhookServerOptions } from './webhook-server.ts';

const quiet = () => undefined;

/** Collects ended spans with the attributes noted on them. */
async function start(deps: Partial<WebhookServerOptions> = {}) {
  const now = new Date();
  const { chain, keyPair } = await serverOf(await firstAuthority(now), now);
  const ended: object[] = [];
  let noted: object = {};
  const tracing: ServerTracing = {
    server: (name, { traceparent }, attributes) => ({
      run: (work) => work(),
      end: (found, failure) => {
        ended.push({ name, traceparent, attributes: { ...attributes, ...noted, ...found }, failure });
      },
    }),
    note: (attributes) => {
      noted = { ...noted, ...attributes };
    },
  };
  const app = buildWebhookServer(
    { chain, key: keyPair.privateKey },
    {
      mutate: () => ALLOWED,
      validate: () => Promise.resolve(ALLOWED),
      isDraining: () => false,
      loadShedding: loadSheddingOf(),
      conversion: noConversions,
      log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
      metrics: {
        admission: quiet,
        deferred: quiet,
        rejectedRequest: quiet,
        conversion: quiet,
        crowdedOut: quiet,
        scrape: quiet,
      },
      tracing,
      ...deps,
    },
  );
  onTestFinished(() => app.close());
  const ask = async (url: string, payload: object) => {
    const headers = { traceparent: 'the-parent' };
    return (await app.inject({ method: 'POST', url, payload, headers })).statusCode;
  };
  return { ask, ended };
}

const review = {
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  request: {
    uid: 'a-uid',
    kind: { group: 'apps', version: 'v1', kind: 'Deployment' },
    resource: { group: 'apps', version: 'v1', resource: 'deployments' },
    subResource: 'scale',
    name: 'a',
    operation: 'CREATE',
    userInfo: { username: 'jane' },
    object: { spec: {} },
    dryRun: true,
  },
};

test.each([
  ['at once', '/mutate/e', 'mutate e'],
  ['later', '/validate/e', 'validate e'],
])('a review that is answered %s has a span', async (_when, url, name) => {
  const { ask, ended } = await start();
  expect(await ask(url, review)).toBe(200);
  expect(ended).toEqual([
    {
      name,
      traceparent: 'the-parent',
      failure: undefined,
      attributes: expect.objectContaining({
        'gatehouse.resource': 'deployments.apps/scale',
        'gatehouse.dry_run': true,
        'gatehouse.outcome': 'allow',
        'http.response.status_code': 200,
      }) as unknown,
    },
  ]);
  expect(JSON.stringify(ended)).not.toContain('jane');
});

test.each([
  [
    'at once',
    () => {
      throw new Error('broken');
    },
  ],
  ['later', () => Promise.reject(new Error('broken'))],
])('a review that fails %s fails its span', async (_when, validate) => {
  const { ask, ended } = await start({ validate });
  expect(await ask('/validate/e', review)).toBe(200);
  expect(ended).toMatchObject([{ failure: 'error', attributes: { 'gatehouse.outcome': 'error' } }]);
});

test('a conversion has a span too', async () => {
  const { ask, ended } = await start();
  const request = { uid: 'u', desiredAPIVersion: 'infra.example.com/v2', objects: [] };
  const conversion = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'ConversionReview', request };
  expect(await ask('/convert', conversion)).toBe(200);
  expect(await ask('/convert/servers.infra.example.com', conversion)).toBe(200);
  expect(ended).toMatchObject([
    { name: 'convert', attributes: { 'http.route': '/convert', 'gatehouse.objects': 0 } },
    { name: 'convert servers.infra.example.com', traceparent: 'the-parent', failure: undefined },
  ]);
});

test('a review that is refused before it is read has no span', async () => {
  const { ask, ended } = await start();
  expect(await ask('/validate/e', {})).toBe(400);
  expect(ended).toEqual([]);
});

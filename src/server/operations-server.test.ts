import { expect, onTestFinished, test } from 'vitest';

import { buildOperationsServer, untilPassed, type HealthChecks } from './operations-server.ts';
import { createMetrics } from './metrics/metrics.ts';

const fine: HealthChecks = { stores: () => undefined };
const broken: HealthChecks = { certificate: () => 'there is none', ...fine };

async function get(url: string, ready = fine) {
  const metrics = createMetrics();
  metrics.rejectedRequest(404);
  const app = buildOperationsServer({ ping: () => undefined }, ready, metrics);
  onTestFinished(() => app.close());
  const { statusCode, headers, body } = await app.inject(url);
  return { statusCode, type: headers['content-type'], body };
}

test.each([
  ['/healthz', fine, 200, 'ok'],
  ['/readyz', fine, 200, 'ok'],
  ['/readyz?verbose', fine, 200, '[+]stores ok\ncheck passed\n'],
  ['/readyz', broken, 503, '[-]certificate failed: there is none\n[+]stores ok\ncheck failed\n'],
  ['/healthz', broken, 200, 'ok'],
  ['/readyz?exclude=certificate', broken, 200, 'ok'],
  ['/readyz?exclude=stores&exclude=certificate', broken, 200, 'ok'],
])('%s with the checks %o answers %i', async (url, ready, statusCode, body) => {
  expect(await get(url, ready)).toEqual({ statusCode, type: 'text/plain; charset=utf-8', body });
});

test('a check that throws fails', async () => {
  const stores = () => {
    throw new Error('not even a reason');
  };
  expect((await get('/readyz', { stores })).statusCode).toBe(500);
});

test('any other path is not found', async () => {
  expect((await get('/validate/x')).statusCode).toBe(404);
});

test('a startup check is not repeated once it has passed', () => {
  let problem: string | undefined = 'not listed yet';
  const check = untilPassed(() => problem);
  expect(check()).toBe('not listed yet');
  problem = undefined;
  expect(check()).toBeUndefined();
  problem = 'a new policy is being judged';
  expect(check()).toBeUndefined();
});

import { expect, onTestFinished, test } from 'vitest';

import { buildOperationsServer, untilPassed, type HealthChecks } from './operations-server.ts';
import { createMetrics } from './metrics/metrics.ts';

async function get(url: string, ready: HealthChecks = { stores: () => undefined }) {
  const metrics = createMetrics();
  metrics.rejectedRequest(404);
  const app = buildOperationsServer({ ping: () => undefined }, ready, metrics);
  onTestFinished(() => app.close());
  const { statusCode, headers, body } = await app.inject(url);
  return { statusCode, type: headers['content-type'], body };
}

const broken: HealthChecks = { certificate: () => 'there is none', stores: () => undefined };

test.each(['/healthz', '/readyz'])('%s answers ok', async (path) => {
  expect(await get(path)).toEqual({ statusCode: 200, type: 'text/plain; charset=utf-8', body: 'ok' });
});

test('?verbose lists the checks', async () => {
  expect((await get('/readyz?verbose')).body).toBe('[+]stores ok\ncheck passed\n');
});

test('a failure lists its reasons without verbose', async () => {
  const { statusCode, body } = await get('/readyz', broken);
  expect(statusCode).toBe(503);
  expect(body).toBe('[-]certificate failed: there is none\n[+]stores ok\ncheck failed\n');
});

test('an unready replica is still live', async () => {
  expect((await get('/healthz', broken)).statusCode).toBe(200);
});

test.each(['/readyz?exclude=certificate', '/readyz?exclude=stores&exclude=certificate'])(
  '%s skips the broken check',
  async (url) => {
    expect((await get(url, broken)).statusCode).toBe(200);
  },
);

test('a check that throws fails', async () => {
  const throwing: HealthChecks = {
    stores: () => {
      throw new Error('not even a reason');
    },
  };
  expect((await get('/readyz', throwing)).statusCode).toBe(500);
});

test('/metrics is in the Prometheus format', async () => {
  const { statusCode, type, body } = await get('/metrics');
  expect(statusCode).toBe(200);
  expect(type).toMatch(/^text\/plain; version=0\.0\.4/);
  expect(body).toContain('gatehouse_rejected_requests_total{code="404"} 1\n');
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

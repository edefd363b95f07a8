import { expect, test } from 'vitest';

import { runChecks, untilPassed } from './health.ts';

const healthy = { certificate: () => undefined, policies: () => undefined };

test('the report is ok when every check is', () => {
  expect(runChecks(healthy)).toEqual({ ok: true, text: '[+]certificate ok\n[+]policies ok\ncheck passed\n' });
});

test('one failing check fails the report, with the reason', () => {
  const report = runChecks({ ...healthy, stores: () => 'datacenters: not listed yet' });
  expect(report.ok).toBe(false);
  expect(report.text).toContain('[-]stores failed: datacenters: not listed yet');
});

test('an excluded check is not run', () => {
  const report = runChecks({ ...healthy, stores: () => 'never' }, ['stores']);
  expect(report.ok).toBe(true);
  expect(report.text).not.toContain('stores');
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

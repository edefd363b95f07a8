import { expect, test } from 'vitest';

import { isServedBuiltIn } from './built-in-versions.ts';

test.each([
  ['policy/v1beta1', 'PodDisruptionBudget', 24, true],
  ['policy/v1beta1', 'PodDisruptionBudget', 25, false],
  ['policy/v1', 'PodDisruptionBudget', 20, false],
  ['batch/v1', 'CronJob', 20, false],
  ['batch/v1', 'Job', 20, undefined],
  ['networking.k8s.io/v1', 'Ingress', 19, true],
  ['networking.k8s.io/v1', 'NetworkPolicy', 18, undefined],
  ['example.com/v1', 'Server', 30, undefined],
])('%s %s in 1.%i: %s', (apiVersion, kind, minor, served) => {
  expect(isServedBuiltIn(apiVersion, kind, minor)).toBe(served);
});

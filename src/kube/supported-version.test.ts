import { expect, test } from 'vitest';

import { refuseOlder, versionProblem } from './supported-version.ts';

test.each([
  [1, 29, 'v1.29.15'],
  [1, 29, 'v1.29.15-eks-1a2b3c4'],
  [1, 20, ''],
])('%i.%i (%s) is too old, and the message names it and what to do', (major, minor, gitVersion) => {
  expect(() => {
    refuseOlder({ major, minor, gitVersion });
  }).toThrow(
    `the API server runs Kubernetes ${gitVersion || '1.20'}, but Gatehouse supports 1.30 to 1.37: upgrade every API server of the cluster`,
  );
});

test.each([
  [1, 30, 'v1.30.0'],
  [1, 30, 'v1.30.5-eks-1a2b3c4'],
  [1, 37, 'v1.37.2'],
  [1, 38, 'v1.38.0-alpha.1'],
  [2, 0, 'v2.0.0'],
])('%i.%i (%s) is not refused', (major, minor, gitVersion) => {
  expect(versionProblem({ major, minor, gitVersion })).toBeUndefined();
});

test('an API server that hides its version is not refused', () => {
  expect(versionProblem({ major: 0, minor: 0, gitVersion: '' })).toBeUndefined();
});

test('the version comes from the network, so the message has neither line breaks nor megabytes of it', () => {
  const problem = versionProblem({
    major: 1,
    minor: 20,
    gitVersion: `v1.20.0\n\u001b[2J${'x'.repeat(1_000_000)}`,
  });
  expect(problem).not.toMatch(/\p{Cc}/u);
  expect(problem?.length).toBeLessThan(300);
});

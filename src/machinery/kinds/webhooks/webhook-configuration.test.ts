import { expect, test } from 'vitest';
import { createProblems } from '../../../../test/support/sandbox/built-in-objects.ts';

const MUTATING = 'admissionregistration.k8s.io/v1 MutatingWebhookConfiguration';
const HEALTHY = {
  name: 'a.b.c',
  clientConfig: { url: 'https://a/b' },
  sideEffects: 'None',
  admissionReviewVersions: ['v1'],
};
const problems = (change: object) => createProblems(MUTATING, { webhooks: [{ ...HEALTHY, ...change }] });

test('a match condition with an unsupported variable or a result other than bool is rejected', () => {
  const problemOf = (expression: string) => problems({ matchConditions: [{ name: 'a', expression }] });
  const refused = (expression: string, why: string) =>
    `webhooks[0].matchConditions[0].expression: Invalid value: ${JSON.stringify(expression)}: ${why}`;
  const asking = "authorizer.group('').resource('pods').check('get').allowed()";
  expect(problemOf(asking)).toEqual([
    refused(asking, 'the sandbox does not support the authorizer in match conditions'),
  ]);
  expect(problemOf('isIP(object.ip)')).toEqual([]);
  expect(problemOf('object.nosuch()')).toEqual([
    refused('object.nosuch()', "compilation failed: undeclared reference to 'nosuch' (in container '')"),
  ]);
  expect(problemOf('object.spec.enabled')).toEqual([
    refused('object.spec.enabled', 'must evaluate to bool but got dyn'),
  ]);
  expect(problemOf("request.nosuch == 'a'")[0]).toContain("compilation failed: undefined field 'nosuch'");
  expect(problemOf('1 + 1')).toEqual([refused('1 + 1', 'must evaluate to bool but got int')]);
});

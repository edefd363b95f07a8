import { expect, test } from 'vitest';
import { toJson } from '../../api-object.ts';
import { cells, created, createProblems, typeOf } from '../../../../test/support/sandbox/built-in-objects.ts';

const MUTATING = 'admissionregistration.k8s.io/v1 MutatingWebhookConfiguration';
const VALIDATING = 'admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration';
const HEALTHY = {
  name: 'a.b.c',
  clientConfig: { url: 'https://a/b' },
  sideEffects: 'None',
  admissionReviewVersions: ['v1'],
};
const RULE = { apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], operations: ['*'] };
const problems = (change: object) => createProblems(MUTATING, { webhooks: [{ ...HEALTHY, ...change }] });

test('a webhook gets the same defaults as in the API server', () => {
  const service = { name: 'a', namespace: 'b' };
  const rules = [{ operations: ['CREATE'], apiGroups: [''], apiVersions: ['v1'], resources: ['pods'] }];
  const configuration = created(VALIDATING, { webhooks: [{ ...HEALTHY, clientConfig: { service }, rules }] });
  expect(toJson(configuration).webhooks).toEqual([
    {
      ...HEALTHY,
      clientConfig: { service: { ...service, port: 443 } },
      rules: [{ ...rules[0], scope: '*' }],
      failurePolicy: 'Fail',
      matchPolicy: 'Equivalent',
      namespaceSelector: {},
      objectSelector: {},
      timeoutSeconds: 10,
    },
  ]);
});

test('a webhook with only the required fields is valid', () => {
  expect(problems({})).toEqual([]);
});

const CC = 'webhooks[0].clientConfig';
const FORM = 'desired format: https://host[/path]';

test.each([
  [
    'is empty',
    { name: '', clientConfig: {}, sideEffects: null, admissionReviewVersions: [] },
    [
      'webhooks[0].name: Required value',
      'webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun',
      `${CC}: Required value: exactly one of url or service is required`,
      'webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1',
    ],
  ],
  [
    'has a URL with every forbidden part',
    { clientConfig: { url: 'http://u:p@/a?b#c' } },
    [
      `${CC}.url: Invalid value: "http": 'https' is the only allowed URL scheme; ${FORM}`,
      `${CC}.url: Invalid value: "": host must be provided; ${FORM}`,
      `${CC}.url: Invalid value: "u:p": user information is not permitted in the URL`,
      `${CC}.url: Invalid value: "c": fragments are not permitted in the URL`,
      `${CC}.url: Invalid value: "b": query parameters are not permitted in the URL`,
    ],
  ],
  [
    'has an invalid service',
    { clientConfig: { service: { name: '', namespace: '', port: 0 } } },
    [
      `${CC}.service.name: Required value: service name is required`,
      `${CC}.service.namespace: Required value: service namespace is required`,
      `${CC}.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive`,
    ],
  ],
  [
    'has a rule with a star and other items',
    {
      rules: [
        { ...RULE, apiGroups: ['*', 'a'], apiVersions: ['*', ''], operations: ['*', 'FOO'], scope: 'x' },
      ],
    },
    [
      'webhooks[0].rules[0].operations: Invalid value: ["*","FOO"]: if \'*\' is present, must not specify other operations',
      'webhooks[0].rules[0].operations[1]: Unsupported value: "FOO": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"',
      'webhooks[0].rules[0].apiGroups: Invalid value: ["*","a"]: if \'*\' is present, must not specify other API groups',
      'webhooks[0].rules[0].apiVersions: Invalid value: ["*",""]: if \'*\' is present, must not specify other API versions',
      'webhooks[0].rules[0].apiVersions[1]: Required value',
      'webhooks[0].rules[0].scope: Unsupported value: "x": supported values: "*", "Cluster", "Namespaced"',
    ],
  ],
  [
    'has redundant resources',
    {
      rules: [
        { ...RULE, resources: ['*/*', 'a'] },
        { ...RULE, resources: ['*', 'a'] },
        { ...RULE, resources: ['a/*', 'a/b', '*/c', 'd/c', ''] },
      ],
    },
    [
      'webhooks[0].rules[0].resources: Invalid value: ["*/*","a"]: if \'*/*\' is present, must not specify other resources',
      'webhooks[0].rules[1].resources: Invalid value: ["*","a"]: if \'*\' is present, must not specify other resources without subresources',
      'webhooks[0].rules[2].resources[1]: Invalid value: "a/b": if \'a/*\' is present, must not specify a/b',
      'webhooks[0].rules[2].resources[3]: Invalid value: "d/c": if \'*/c\' is present, must not specify d/c',
      'webhooks[0].rules[2].resources[4]: Required value',
    ],
  ],
  [
    'has an invalid selector',
    {
      namespaceSelector: {
        matchExpressions: [
          { key: 'a', operator: 'In' },
          { key: 'a', operator: 'Exists', values: ['x'] },
          { key: 'b', operator: 'Foo' },
        ],
      },
    },
    [
      "webhooks[0].namespaceSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
      "webhooks[0].namespaceSelector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
      'webhooks[0].namespaceSelector.matchExpressions[2].operator: Invalid value: "Foo": not a valid selector operator',
    ],
  ],
])('a webhook is rejected that %s', (_what, change, expected) => {
  expect(problems(change)).toEqual(expected);
});

test('a match condition with an unsupported variable or a result other than bool is rejected', () => {
  const problemOf = (expression: string) => problems({ matchConditions: [{ name: 'a', expression }] });
  const refused = (expression: string, why: string) =>
    `webhooks[0].matchConditions[0].expression: Invalid value: ${JSON.stringify(expression)}: ${why}`;
  const asking = "authorizer.group('').resource('pods').check('get').allowed()";
  expect(problemOf(asking)).toEqual([refused(asking, 'the sandbox has no authorizer in match conditions')]);
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

test('generations count changes, and the table shows the number of webhooks', () => {
  expect(typeOf(MUTATING).strategy.countsGenerations).toBe(true);
  expect(cells(MUTATING, created(MUTATING, { webhooks: [HEALTHY] }))).toEqual({ Webhooks: 1 });
  expect(cells(MUTATING, created(MUTATING, {}))).toEqual({ Webhooks: 0 });
});

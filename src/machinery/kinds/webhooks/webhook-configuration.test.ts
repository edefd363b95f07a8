import { expect, test } from 'vitest';
import { toJson } from '../../api-object.ts';
import {
  cells,
  created,
  createProblems,
  SUBDOMAIN_PROBLEM,
  typeOf,
} from '../../../../test/support/sandbox/built-in-objects.ts';

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

test('only a mutating webhook may be reinvoked', () => {
  expect(toJson(created(MUTATING, { webhooks: [HEALTHY] })).webhooks).toMatchObject([
    { reinvocationPolicy: 'Never' },
  ]);
  expect(() => created(VALIDATING, { webhooks: [{ ...HEALTHY, reinvocationPolicy: 'Never' }] })).toThrow(
    'webhooks[0].reinvocationPolicy',
  );
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
    'has a name with two parts',
    { name: 'a.b' },
    [
      'webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots',
    ],
  ],
  [
    'has side effects',
    { sideEffects: 'Some' },
    ['webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'],
  ],
  [
    'has a timeout that is too long',
    { timeoutSeconds: 31 },
    ['webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds'],
  ],
  [
    'has a timeout of zero',
    { timeoutSeconds: 0 },
    ['webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds'],
  ],
  [
    'has unknown policies',
    { failurePolicy: 'x', matchPolicy: 'y', reinvocationPolicy: 'z' },
    [
      'webhooks[0].failurePolicy: Unsupported value: "x": supported values: "Fail", "Ignore"',
      'webhooks[0].matchPolicy: Unsupported value: "y": supported values: "Equivalent", "Exact"',
      'webhooks[0].reinvocationPolicy: Unsupported value: "z": supported values: "IfNeeded", "Never"',
    ],
  ],
  [
    'has both a URL and a service',
    { clientConfig: { url: 'https://a', service: { name: 'a', namespace: 'b' } } },
    [`${CC}: Required value: exactly one of url or service is required`],
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
    'has a URL without a scheme',
    { clientConfig: { url: '::' } },
    [`${CC}.url: Required value: url must be a valid URL: parse "::": missing protocol scheme; ${FORM}`],
  ],
  [
    'has a URL with a space',
    { clientConfig: { url: 'https://a b' } },
    [
      `${CC}.url: Required value: url must be a valid URL: parse "https://a b": invalid character " " in host name; ${FORM}`,
    ],
  ],
  [
    'has a URL that is a word',
    { clientConfig: { url: 'foo' } },
    [
      `${CC}.url: Invalid value: "": 'https' is the only allowed URL scheme; ${FORM}`,
      `${CC}.url: Invalid value: "": host must be provided; ${FORM}`,
    ],
  ],
  [
    'has an invalid service',
    { clientConfig: { service: { name: '', namespace: '', path: '//', port: 0 } } },
    [
      `${CC}.service.name: Required value: service name is required`,
      `${CC}.service.namespace: Required value: service namespace is required`,
      `${CC}.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive`,
      `${CC}.service.path: Invalid value: "//": segment[0] may not be empty`,
    ],
  ],
  [
    'has an invalid path',
    { clientConfig: { service: { name: 'a', namespace: 'b', path: 'a//b' } } },
    [
      `${CC}.service.path: Invalid value: "a//b": must start with a '/'`,
      `${CC}.service.path: Invalid value: "a//b": segment[0] may not be empty`,
      `${CC}.service.path: Invalid value: "a//b": segment[1] may not be empty`,
    ],
  ],
  [
    'accepts only unknown review versions',
    { admissionReviewVersions: ['v2', 'v2'] },
    [
      'webhooks[0].admissionReviewVersions[1]: Invalid value: "v2": duplicate version',
      'webhooks[0].admissionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1',
    ],
  ],
  [
    'has an empty rule',
    { rules: [{}] },
    ['operations', 'apiGroups', 'apiVersions', 'resources'].map(
      (name) => `webhooks[0].rules[0].${name}: Required value`,
    ),
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
  [
    'has a condition without an expression, and its name twice',
    {
      matchConditions: [
        { name: 'a', expression: ' ' },
        { name: 'a', expression: 'true' },
      ],
    },
    [
      'webhooks[0].matchConditions[0].expression: Required value',
      'webhooks[0].matchConditions[1].name: Duplicate value: "a"',
    ],
  ],
  [
    'has too many conditions',
    {
      matchConditions: Array.from({ length: 65 }, (_, index) => ({ name: `c${index}`, expression: 'true' })),
    },
    ['webhooks[0].matchConditions: Too many: 65: must have at most 64 items'],
  ],
])('a webhook is rejected that %s', (_what, change, expected) => {
  expect(problems(change)).toEqual(expected);
});

test('a name with capitals is not a domain', () => {
  expect(problems({ name: 'A.b.c' })[0]).toContain(
    `webhooks[0].name: Invalid value: "A.b.c": ${SUBDOMAIN_PROBLEM}`,
  );
});

test('the webhooks of a configuration must have unique names', () => {
  expect(createProblems(MUTATING, { webhooks: [HEALTHY, HEALTHY] })).toEqual([
    'webhooks[1].name: Duplicate value: "a.b.c"',
  ]);
});

test('the expression of a match condition must compile', () => {
  expect(problems({ matchConditions: [{ name: 'a', expression: 'missing.name' }] })[0]).toContain(
    'webhooks[0].matchConditions[0].expression: Invalid value: "missing.name": compilation failed: ',
  );
  expect(
    problems({
      matchConditions: [{ name: 'a', expression: "request.operation == 'CREATE' && has(object.spec)" }],
    }),
  ).toEqual([]);
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

test('a CA bundle is not validated before the webhook is called', () => {
  expect(problems({ clientConfig: { url: 'https://a', caBundle: 'YWJj' } })).toEqual([]);
});

test('generations count changes, and the table shows the number of webhooks', () => {
  expect(typeOf(MUTATING).strategy.countsGenerations).toBe(true);
  expect(cells(MUTATING, created(MUTATING, { webhooks: [HEALTHY] }))).toEqual({ Webhooks: 1 });
  expect(cells(MUTATING, created(MUTATING, {}))).toEqual({ Webhooks: 0 });
});

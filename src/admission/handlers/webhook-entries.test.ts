import { expect, test } from 'vitest';

import { compilePolicy } from '../policy/compile.ts';
import { webhookConfigurations } from '../webhooks/webhook-configurations.ts';
import { compiled, ENVIRONMENT, MATCH } from '../../../test/support/admission/handler.ts';

const nothing = () => undefined;
const target = {
  service: { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 },
  caBundle: 'Q0E=',
  ownNamespace: 'gatehouse-system',
};

/** A policy whose entry sorts after those of handlers. */
function ignoredPolicy() {
  const result = compilePolicy(
    {
      metadata: { name: 'servers' },
      spec: {
        match: { apiGroups: ['infra.example.com'], resources: ['servers'] },
        failurePolicy: 'Ignore',
        defaults: [{ path: 'spec.a', value: 1 }],
        validate: { immutable: ['spec.b'] },
      },
    },
    { ...ENVIRONMENT, resolve: nothing },
  );
  if (result.kind === 'rejected') throw new Error(JSON.stringify(result.problems));
  return result.policy;
}

test('each handler has an entry per function, sorted by name and after all policies', () => {
  const handlers = [
    compiled({ validate: nothing }, 'b'),
    compiled({ mutate: nothing, validate: nothing }, 'a'),
    compiled({ mutate: nothing }, 'c'),
  ];
  const policy = ignoredPolicy();
  const { mutating, validating } = webhookConfigurations([policy], target, handlers);
  const entries = ({ webhooks }: typeof mutating) => webhooks.map(({ name }) => name.split('.')[0]);
  expect(entries(mutating)).toEqual([policy.entryId, 'handler-a', 'handler-c']);
  expect(entries(validating)).toEqual([policy.entryId, 'handler-a', 'handler-b']);
});

test('an entry has the settings of its author, and for mutation only operations with an object', () => {
  const handler = compiled({
    match: { ...MATCH, objectSelector: { matchLabels: { a: 'b' } } },
    failurePolicy: 'Ignore',
    timeoutSeconds: 2,
    mutate: nothing,
    validate: nothing,
  });
  const { mutating, validating } = webhookConfigurations([], target, [handler]);
  const common = {
    failurePolicy: 'Ignore',
    timeoutSeconds: 2,
    matchPolicy: 'Equivalent',
    objectSelector: { matchLabels: { a: 'b' } },
    sideEffects: 'None',
  };
  expect(mutating.webhooks).toMatchObject([
    {
      ...common,
      name: 'handler-servers.mutate.gatehouse.dev',
      clientConfig: { service: { path: '/mutate/handler-servers' } },
      rules: [{ operations: ['CREATE', 'UPDATE'], apiVersions: ['v1'] }],
      reinvocationPolicy: 'IfNeeded',
    },
  ]);
  expect(validating.webhooks).toMatchObject([
    { ...common, rules: [{ operations: ['CREATE', 'DELETE', 'UPDATE'] }] },
  ]);
});

test('a handler that only converts has no entry: its CustomResourceDefinition names Gatehouse itself', () => {
  const convert = { hub: 'v2', versions: { v1: { toHub: nothing, fromHub: nothing } } };
  const { mutating, validating } = webhookConfigurations([], target, [compiled({ convert })]);
  expect([mutating.webhooks, validating.webhooks]).toEqual([[], []]);
});

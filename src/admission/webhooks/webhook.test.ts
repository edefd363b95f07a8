import { expect, test } from 'vitest';

import { compileCel } from '../../cel/cel.ts';
import { policyOf } from '../../../test/support/admission/policy.ts';
import { webhookConfigurations } from './webhook-configurations.ts';
import type { WebhookTarget } from './webhook.ts';

const TARGET: WebhookTarget = {
  service: { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 },
  caBundle: 'Q0E=',
  ownNamespace: 'gatehouse-system',
  matchConditions: true,
  restorers: [{ group: 'system:serviceaccounts:velero' }, { user: 'system:serviceaccount:"odd"\\:name' }],
};
const references = [{ name: 'dc', path: 'spec.dc', target: { apiGroup: '', resource: 'datacenters' } }];
const entriesOf = (target: WebhookTarget, failurePolicy: 'Fail' | 'Ignore' = 'Fail') =>
  webhookConfigurations([policyOf({ validate: { references }, failurePolicy })], target).validating.webhooks;

test('B4: restorers have a separate entry that fails open', () => {
  const [others, restorers, ...rest] = entriesOf(TARGET);
  expect(rest).toEqual([]);
  expect(others).toMatchObject({ failurePolicy: 'Fail' });
  expect(restorers).toMatchObject({
    failurePolicy: 'Ignore',
    rules: others?.rules,
    clientConfig: others?.clientConfig,
  });
  expect(restorers?.name).not.toBe(others?.name);
});

test.each([
  ['a member of the group', 'velero', ['system:serviceaccounts:velero'], true],
  ['the user', 'system:serviceaccount:"odd"\\:name', [], true],
  ['another user', 'alice', ['system:authenticated'], false],
])('each request matches exactly one of the two entries: %s', (_who, username, groups, isRestorer) => {
  const meets = entriesOf(TARGET).map(({ failurePolicy, matchConditions = [] }) => {
    const holds = matchConditions.every(
      ({ expression }) =>
        compileCel(expression, ['request']).evaluate({
          request: { userInfo: { username, groups } },
        }) === true,
    );
    return [failurePolicy, holds];
  });
  expect(meets).toEqual([
    ['Fail', !isRestorer],
    ['Ignore', isRestorer],
  ]);
});

test.each<[string, Partial<WebhookTarget>, 'Fail' | 'Ignore']>([
  ['no detector names a restorer', { restorers: [] }, 'Fail'],
  ['F20: the API server does not support matchConditions', { matchConditions: false }, 'Fail'],
  ['the entry fails open for all users', {}, 'Ignore'],
])('a single entry remains where %s', (_where, change, failurePolicy) => {
  const entries = entriesOf({ ...TARGET, ...change }, failurePolicy);
  expect(entries).toMatchObject([{ failurePolicy }]);
  expect(entries[0]?.matchConditions).toBeUndefined();
});

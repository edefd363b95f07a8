import { describe, expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { buildPolicySet } from '../policy/validate.ts';
import type { Operation } from '../review/request.ts';
import { webhookConfigurations } from './webhook-configurations.ts';
import { compiled } from '../../../test/support/admission/handler.ts';
import { GROUP as group, policyOf } from '../../../test/support/admission/policy.ts';

const references = [{ name: 'dc', path: 'spec.dc', target: { apiGroup: group, resource: 'datacenters' } }];
const unique = [{ name: 'serial', paths: ['spec.serial'] }];
const rules = [{ name: 'small', expression: 'object.spec.units < 5' }];
const warnings = [{ name: 'large', expression: 'object.spec.units < 4', message: 'it is large' }];
const auditAnnotations = [{ key: 'units', valueExpression: 'string(object.spec.units)' }];

const policy = (name: string, spec: Partial<AdmissionPolicySpec> = {}) => policyOf(spec, name);

const target = {
  service: { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 },
  caBundle: 'Q0E=',
  ownNamespace: 'gatehouse-system',
};

describe('webhookConfigurations', () => {
  test('a webhook has every field that the API server would default', () => {
    const servers = policy('servers', { defaults: [{ path: 'spec.a', value: 1 }] });
    const { mutating, validating } = webhookConfigurations([servers], target);
    expect(mutating).toEqual({
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'MutatingWebhookConfiguration',
      metadata: {
        name: 'gatehouse',
        labels: { 'app.kubernetes.io/managed-by': 'gatehouse', 'velero.io/exclude-from-backup': 'true' },
      },
      webhooks: [
        {
          name: `${servers.entryId}.mutate.gatehouse.dev`,
          clientConfig: {
            service: { ...target.service, path: `/mutate/${servers.entryId}` },
            caBundle: 'Q0E=',
          },
          rules: [
            {
              apiGroups: [group],
              apiVersions: ['*'],
              operations: ['CREATE', 'UPDATE'],
              resources: ['servers'],
              scope: '*',
            },
          ],
          failurePolicy: 'Fail',
          matchPolicy: 'Equivalent',
          namespaceSelector: {
            matchExpressions: [
              { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['gatehouse-system'] },
            ],
          },
          objectSelector: {},
          sideEffects: 'None',
          timeoutSeconds: 5,
          admissionReviewVersions: ['v1'],
          reinvocationPolicy: 'IfNeeded',
        },
      ],
    });
    expect(validating).toMatchObject({ kind: 'ValidatingWebhookConfiguration', webhooks: [] });
  });

  test.each<[Partial<AdmissionPolicySpec>, Operation[][]]>([
    [{ validate: { immutable: ['spec.a'] } }, [['UPDATE']]],
    [{ validate: { references } }, [['CREATE', 'UPDATE']]],
    [{ validate: { references, unique } }, [['CREATE', 'UPDATE']]],
    [{ validate: { rules }, warnings }, [['CREATE', 'DELETE', 'UPDATE']]],
    [{ warnings, auditAnnotations }, [['CREATE', 'DELETE', 'UPDATE']]],
    [{}, []],
  ])('the validating webhook for %j covers only the checked operations', (spec, operations) => {
    const match = {
      apiGroups: [group],
      resources: ['servers'],
      operations: ['CREATE', 'UPDATE', 'DELETE'] as const,
    };
    const { mutating, validating } = webhookConfigurations([policy('p', { match, ...spec })], target);
    expect(validating.webhooks.flatMap(({ rules }) => rules.map((rule) => rule.operations))).toEqual(
      operations,
    );
    expect(mutating.webhooks).toEqual([]);
    expect(JSON.stringify(validating)).not.toContain('reinvocationPolicy');
  });

  test('policies of equal scope share an entry without duplicate rules, in any order of policies', () => {
    const validate = { references };
    const all = [
      policy('a', { validate }),
      policy('b', { validate }),
      policy('c', { validate, match: { apiGroups: [group], resources: ['racks', 'racks'] } }),
      policy('d', { validate, failurePolicy: 'Ignore' }),
    ];
    const { validating } = webhookConfigurations(all, target);
    expect(validating.webhooks.map(({ rules }) => rules.map(({ resources }) => resources))).toEqual([
      [['racks'], ['servers']],
      [['servers']],
    ]);
    expect(webhookConfigurations(all.toReversed(), target).validating).toEqual(validating);
  });

  test('the matchConditions of a policy are in its entry', () => {
    const matchConditions = [{ name: 'a', expression: 'true' }];
    const match = { apiGroups: [group], resources: ['servers'], matchConditions };
    const conditional = policy('p', { match, validate: { references } });
    expect(webhookConfigurations([conditional], target).validating.webhooks).toMatchObject([
      { matchConditions },
    ]);
  });

  test('only claims of other users are reviewed', () => {
    const { webhooks } = webhookConfigurations([], { ...target, protectsOwnKinds: true }).validating;
    expect(webhooks.flatMap((one) => one.matchConditions ?? []).map(({ name }) => name)).toEqual([
      'not-own-claims',
    ]);
  });
});

describe('a policy set', () => {
  const match = (...resources: string[]) => ({ apiGroups: [group], resources });
  const all = [
    policy('z', { match: match('servers') }),
    policy('a', { match: match('*') }),
    policy('m', { match: match('servers/*') }),
    policy('s', { match: match('*/scale') }),
    policy('other', { match: match('servers'), timeoutSeconds: 9 }),
  ];
  const entry = all[0]?.entryId ?? '';
  const request = (resource: string, subResource = '', operation: Operation = 'CREATE') => ({
    resource: { group, version: 'v1', resource },
    subResource,
    operation,
  });

  test.each([
    ['servers', '', ['a', 'm', 'z']],
    ['servers', 'status', ['m']],
    ['servers', 'scale', ['m', 's']],
    ['racks', '', ['a']],
    ['racks', 'scale', ['s']],
  ])('%s %s is governed by %j, in the order of their names', (resource, subResource, names) => {
    const selection = buildPolicySet(all).select(entry, request(resource, subResource));
    expect(selection.kind === 'governed' && selection.policies.map(({ name }) => name)).toEqual(names);
  });

  test('an ungoverned kind differs from an unknown entry', () => {
    const set = buildPolicySet(all);
    expect(set.select(entry, request('racks', 'status'))).toEqual({ kind: 'ungoverned' });
    expect(set.select(entry, request('servers', '', 'DELETE'))).toEqual({ kind: 'ungoverned' });
    const elsewhere = { group: 'other', version: 'v1', resource: 'servers' };
    expect(set.select(entry, { ...request('servers'), resource: elsewhere })).toEqual({ kind: 'ungoverned' });
    expect(set.select('fail-5s-0000000000', request('servers'))).toEqual({ kind: 'unknown-entry' });
  });
});

const nothing = () => undefined;
test('a handler that only converts lacks an entry, because its CustomResourceDefinition references Gatehouse', () => {
  const convert = { hub: 'v2', versions: { v1: { toHub: nothing, fromHub: nothing } } };
  const { mutating, validating } = webhookConfigurations([], target, [compiled({ convert })]);
  expect([mutating.webhooks, validating.webhooks]).toEqual([[], []]);
});

test('what restorers write is paused by the last webhook, which fails open', () => {
  const defaults = [{ path: 'spec.a', value: 1 }];
  const servers = policy('servers', { defaults });
  const kinds = [
    { group: 'apps', resource: 'deployments' },
    { group: '', resource: 'pods' },
    { group: 'apps', resource: 'deployments' },
  ];
  const mutatingWith = (restorers: readonly { readonly user: string }[]) =>
    webhookConfigurations([servers], { ...target, pauses: { kinds, restorers } }).mutating.webhooks;
  expect(mutatingWith([])).toHaveLength(1);
  const all = mutatingWith([{ user: 'velero' }, { user: 'velero' }]);
  expect(all).toHaveLength(2);
  const rule = { apiVersions: ['*'], operations: ['CREATE', 'UPDATE'], scope: '*' };
  expect(all.at(-1)).toMatchObject({
    name: 'own-pause.mutate.gatehouse.dev',
    failurePolicy: 'Ignore',
    reinvocationPolicy: 'IfNeeded',
    sideEffects: 'NoneOnDryRun',
    rules: [
      { ...rule, apiGroups: [''], resources: ['pods'] },
      { ...rule, apiGroups: ['apps'], resources: ['deployments'] },
    ],
    namespaceSelector: { matchExpressions: [{ operator: 'NotIn', values: ['gatehouse-system'] }] },
    matchConditions: [{ name: 'restorer', expression: 'request.userInfo.username == "velero"' }],
  });
});

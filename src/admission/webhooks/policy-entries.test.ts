import { describe, expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { deletionEntriesOf, isDeletionEntry } from './protect-own-kinds.ts';
import { compileSpec, GROUP, policyOf } from '../../../test/support/admission/policy.ts';
import { buildPolicySet } from '../policy/validate.ts';
import { webhookConfigurations } from './webhook-configurations.ts';

const target = {
  service: { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 },
  caBundle: 'Q0E=',
  ownNamespace: 'gatehouse-system',
};

const naming = (resource: string, change: object = {}) => ({
  name: resource,
  path: `spec.${resource}`,
  target: { apiGroup: GROUP, resource },
  onTargetDelete: 'Restrict' as const,
  ...change,
});
const holding = (spec: Partial<AdmissionPolicySpec> = {}, name?: string) =>
  policyOf({ validate: { references: [naming('datacenters'), naming('racks')] }, ...spec }, name);

const entriesOf = (...policies: Parameters<typeof webhookConfigurations>[0]) =>
  webhookConfigurations(policies, target).validating.webhooks;
const deleting = (resource: string) => ({
  resource: { group: GROUP, version: 'v1', resource },
  subResource: '',
  operation: 'DELETE' as const,
});

describe('the webhook entry for deletions of targets', () => {
  test('is shared by policies of equal scope, regardless of their selectors', () => {
    const guards = entriesOf(
      holding(),
      holding(
        {
          match: { apiGroups: [GROUP], resources: ['servers'], objectSelector: { matchLabels: { a: 'b' } } },
        },
        'others',
      ),
    ).filter(({ name }) => isDeletionEntry(name));
    expect(guards).toMatchObject([
      {
        name: expect.stringMatching(/^restrict-fail-5s-[0-9a-f]{10}\.validate\.gatehouse\.dev$/) as string,
        rules: [
          { apiGroups: [GROUP], apiVersions: ['*'], operations: ['DELETE'], resources: ['datacenters'] },
          { apiGroups: [GROUP], apiVersions: ['*'], operations: ['DELETE'], resources: ['racks'] },
        ],
        objectSelector: {},
        failurePolicy: 'Fail',
        sideEffects: 'None',
        timeoutSeconds: 5,
      },
    ]);
    expect(guards[0]?.namespaceSelector).toEqual({
      matchExpressions: [
        { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['gatehouse-system'] },
      ],
    });
  });

  test('has the failurePolicy and the timeout of the policy', () => {
    const [guard] = deletionEntriesOf(holding({ failurePolicy: 'Ignore', timeoutSeconds: 3 }));
    expect(guard?.entryId).toMatch(/^restrict-ignore-3s-/);
  });

  test.each([
    ['Cascade', ['racks']],
    ['SetNull', ['racks']],
    ['Allow', []],
  ])('for references with onTargetDelete: %s selects the resources %j', (onTargetDelete, resources) => {
    const policy = policyOf({ validate: { references: [naming('racks', { onTargetDelete })] } });
    expect(deletionEntriesOf(policy).flatMap(({ match }) => match.resources)).toEqual(resources);
  });

  test('leads only to the policies that protect the kind', () => {
    const both = holding({}, 'both');
    const racks = holding({ validate: { references: [naming('racks')] } }, 'racks');
    const set = buildPolicySet([both, racks]);
    const entry = deletionEntriesOf(both)[0]?.entryId ?? '';
    expect(set.select(entry, deleting('racks'))).toEqual({ kind: 'governed', policies: [both, racks] });
    expect(set.select(entry, deleting('datacenters'))).toEqual({ kind: 'governed', policies: [both] });
    expect(set.select(entry, deleting('servers'))).toEqual({ kind: 'ungoverned' });
    expect(set.select(both.entryId, deleting('racks'))).toEqual({ kind: 'ungoverned' });
  });

  test('covers targets in all versions, even if the policy covers one version', () => {
    const v1 = holding({ match: { apiGroups: [GROUP], apiVersions: ['v1'], resources: ['servers'] } });
    const request = { ...deleting('racks'), resource: { group: GROUP, version: 'v2', resource: 'racks' } };
    expect(buildPolicySet([v1]).select(deletionEntriesOf(v1)[0]?.entryId ?? '', request)).toMatchObject({
      kind: 'governed',
    });
  });
});

describe('a target whose deletion the cluster needs cannot be protected', () => {
  const problemOf = (apiGroup: string, resource: string, failurePolicy: 'Fail' | 'Ignore') => {
    const references = [naming(resource, { target: { apiGroup, resource } })];
    const result = compileSpec({ failurePolicy, validate: { references } });
    return result.kind === 'rejected' ? [result.reason, result.problems[0]?.where] : [];
  };
  const REFUSED = ['LockoutScope', 'spec.validate.references[0].onTargetDelete'];

  test.each([
    ['', 'namespaces'],
    ['', 'nodes'],
    ['', 'pods'],
    ['', 'endpoints'],
    ['discovery.k8s.io', 'endpointslices'],
    ['certificates.k8s.io', 'certificatesigningrequests'],
  ])('%s %s, unless failures are ignored', (group, resource) => {
    expect(problemOf(group, resource, 'Fail')).toEqual(REFUSED);
    expect(problemOf(group, resource, 'Ignore')).toEqual([]);
  });

  test.each([
    ['coordination.k8s.io', 'leases'],
    ['gatehouse.dev', 'admissionpolicies'],
    ['admissionregistration.k8s.io', 'validatingwebhookconfigurations'],
  ])('%s %s, for every failurePolicy', (group, resource) => {
    expect(problemOf(group, resource, 'Ignore')).toEqual(REFUSED);
  });
});

test('a policy with unique values has side effects, except on dry runs', () => {
  const unique = policyOf({ validate: { unique: [{ name: 'serial', paths: ['spec.serial'] }] } });
  const other = policyOf({ timeoutSeconds: 6, validate: { immutable: ['spec.serial'] } }, 'other');
  expect(
    entriesOf(unique, other).map(({ timeoutSeconds, sideEffects }) => [timeoutSeconds, sideEffects]),
  ).toEqual([
    [5, 'NoneOnDryRun'],
    [6, 'None'],
  ]);
  const filling = policyOf({ defaults: [{ path: 'spec.a', value: 1 }], ...unique.spec });
  const [mutating] = webhookConfigurations([filling], target).mutating.webhooks;
  expect(mutating?.sideEffects).toBe('None');
});

test('policies for two groups never share an entry: the API server sends Events in only one of them', () => {
  const events = (apiGroup: string, name: string) =>
    policyOf(
      {
        match: { apiGroups: [apiGroup], resources: ['events'] },
        validate: { rules: [{ expression: 'true' }] },
      },
      name,
    );
  const entries = entriesOf(events('', 'old'), events('events.k8s.io', 'new'));
  expect(
    entries.map(({ rules }) => rules.map(({ apiGroups }) => apiGroups.join()).join('; ')).sort(),
  ).toEqual(['', 'events.k8s.io']);
});

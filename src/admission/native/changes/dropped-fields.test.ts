import { expect, test } from 'vitest';

import { policyOf } from '../../../../test/support/admission/policy.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { compileNative } from '../native-policy.ts';

type Spec = Partial<AdmissionPolicySpec>;
type Mutation = NonNullable<Spec['mutations']>[number];

const OPTIONS = { ownNamespace: 'gatehouse-system', restorers: [], others: [] };
const PODS: Spec = { match: { apiGroups: [''], apiVersions: ['v1'], resources: ['pods'] } };

const reasons = (spec: Spec) =>
  compileNative(policyOf({ ...spec, restore: { mutations: 'Apply' } }, 'own'), OPTIONS).checks.map((one) =>
    one.by === 'Webhook' ? one.reason : undefined,
  );

const LABELS: Mutation = {
  name: 'labels',
  type: 'JSONPatch',
  condition: '!has(object.metadata.labels)',
  expression: '[{"op": "add", "path": "/metadata/labels", "value": {}}]',
};

test.each<[string, Spec]>([
  [
    'patches a parent that an earlier one creates',
    {
      mutations: [
        LABELS,
        {
          ...LABELS,
          name: 'label',
          expression: '[{"op": "add", "path": "/metadata/labels/a", "value": "b"}]',
        },
      ],
    },
  ],
  [
    'has a condition on what an earlier one writes',
    {
      mutations: [
        { name: 'network', expression: '{"spec": {"hostNetwork": false}}' },
        {
          name: 'told',
          condition: 'has(object.spec.hostNetwork)',
          expression: '{"metadata": {"annotations": {"network": "pod"}}}',
        },
      ],
    },
  ],
  [
    'fills a field with what an earlier default fills',
    {
      defaults: [
        { path: 'spec.hostname', value: '' },
        { path: 'spec.subdomain', expression: 'string(object.spec.hostname)' },
      ],
    },
  ],
])(
  'the webhook makes the changes of a built-in kind if one %s, because that field may be empty',
  (_what, spec) => {
    expect(reasons({ ...spec, ...PODS })[0]).toContain('drops empty fields of built-in kinds');
    expect(reasons(spec)).not.toContainEqual(expect.any(String)); // a custom kind keeps them
  },
);

test('a merge may follow, because it creates missing parents', () => {
  const label = { name: 'label', expression: '{"metadata": {"labels": {"a": "b"}}}' };
  const mutations = [LABELS, { ...label, expression: '{"metadata": {"annotations": {"a": "b"}}}' }];
  expect(reasons({ mutations, ...PODS })).toEqual([undefined, undefined]);
  expect(reasons({ mutations: [LABELS, label], ...PODS })).toEqual([undefined, undefined]);
});

test('a mutation may read a string that a default fills, because the API server keeps it', () => {
  const mutations = [
    { name: 'shown', expression: '{"metadata": {"labels": {"a": string(object.spec.hostname)}}}' },
  ];
  const filling = (value: string) =>
    reasons({ ...PODS, mutations, defaults: [{ path: 'spec.hostname', value }] });
  expect(filling('own')).toEqual([undefined, undefined]);
  expect(filling('1000m')[0]).toContain('drops empty fields');
});

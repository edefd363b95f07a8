/** Policies for the comparison of the webhook and the API server: together they have every kind of check. */
import type { AdmissionPolicySpec } from '../../../src/api/admission-policy.ts';
import { GROUP } from '../admission/policy.ts';

type Spec = Partial<AdmissionPolicySpec>;
type Rules = NonNullable<NonNullable<AdmissionPolicySpec['validate']>['rules']>;

const rules = (...all: Rules): Spec => ({ validate: { rules: all } });
const everything = {
  match: {
    apiGroups: [GROUP],
    resources: ['servers', 'servers/status'],
    operations: ['CREATE', 'UPDATE', 'DELETE'],
  },
} satisfies Spec;

const PARAMS = { apiGroup: GROUP, resource: 'classes', name: 'limits', whenMissing: 'Allow' } as const;

const GOLD = 'object.spec.tier == "gold"';

export const COMPARED: readonly Spec[] = [
  rules({ name: 'missing', expression: 'object.spec.absent.deeper == 1' }),
  // subresources, deletion
  {
    ...everything,
    ...rules(
      { name: 'keep', expression: 'request.operation != "DELETE" || oldObject.spec.tier != "gold"' },
      { name: 'status', expression: '!has(request.subResource) || request.userInfo.username != "ada"' },
    ),
  },
  {
    match: { ...everything.match, operations: ['CREATE', 'UPDATE'] },
    ...rules({ name: 'named', expression: '!has(request.name) || request.name != "b"' }),
  },
  {
    ...everything,
    exceptions: [{ name: 'root', reason: 'x', groups: ['guests'], checks: ['immutable'] }],
    validate: { immutable: ['spec.tier'], rules: [{ name: 'object', expression: 'object != null' }] },
  },
  // schema
  {
    ...everything,
    validate: {
      schema: {
        required: ['spec'],
        properties: {
          spec: {
            type: 'object',
            required: ['tier', 'units'],
            dependentRequired: { note: ['list'] },
            minProperties: 2,
            maxProperties: 5,
            properties: {
              tier: { type: 'string', enum: ['gold', 'silver', null, 7, 1.5, true], minLength: 4 },
              units: { type: 'integer', minimum: 1, maximum: 5 },
              note: { type: ['string', 'null'], maxLength: 4, pattern: '^[a-zé😀]*$' },
              list: { type: 'array', minItems: 1, maxItems: 1 },
              enabled: { const: true },
              in: { type: ['number', 'boolean'], exclusiveMinimum: 0, exclusiveMaximum: 2 ** 53 },
            },
          },
        },
      },
    },
  },
  {
    validate: {
      schema: {
        properties: {
          spec: {
            allOf: [
              { not: { properties: { tier: { const: 'iron' } }, required: ['tier'] } },
              {
                if: { properties: { enabled: { const: true } }, required: ['enabled'] },
                then: { required: ['note'], properties: { note: { minLength: 1 } } },
                else: { properties: { units: { maximum: 3 }, note: false } },
              },
            ],
          },
        },
      },
    },
  },
  // exceptions by subject, some with a time
  {
    ...everything,
    exceptions: [
      { name: 'authors', reason: 'x', users: ['a*', 'root'], checks: ['tier'] },
      { name: 'names', reason: 'x', names: ['b', 'c*'], namespaces: ['st*'], checks: ['rules'] },
      {
        name: 'labels',
        reason: 'x',
        objectSelector: {
          matchLabels: { 'example.com/rack': 'r1' },
          matchExpressions: [
            { key: 'app', operator: 'NotIn', values: ['web'] },
            { key: 'zone', operator: 'DoesNotExist' },
          ],
        },
      },
      { name: 'guests', reason: 'x', groups: ['guests'], checks: ['schema', 'units'] },
    ],
    validate: {
      schema: { properties: { spec: { properties: { tier: { const: 'gold' } } } } },
      rules: [
        { name: 'tier', expression: '(object == null ? oldObject : object).spec.tier == "gold"' },
        { name: 'units', expression: '(object == null ? oldObject : object).spec.units > 2' },
      ],
    },
  },
  {
    exceptions: [
      { name: 'soon', reason: 'x', expiresAt: '2026-11-21T12:00:01Z', users: ['mallory'] },
      { name: 'over', reason: 'x', expiresAt: '2026-11-21T11:59:59Z', names: ['b'], checks: ['tier'] },
    ],
    ...rules({ name: 'tier', expression: 'object.spec.tier == "gold"' }),
  },
  // params
  {
    ...everything,
    params: PARAMS,
    variables: [{ name: 'most', expression: 'params.spec.most' }],
    ...rules(
      { name: 'most', expression: 'object.spec.units <= variables.most' },
      {
        name: 'tiers',
        expression: 'object.spec.tier in params.spec.tiers',
        messageExpression: '"one of " + params.spec.tiers.join(", ")',
      },
      { name: 'any', expression: 'object.spec.tier != "iron"' },
    ),
  },
  // notices
  {
    warnings: [
      { message: 'always' },
      { condition: 'object.spec.tier == "iron"', message: 'iron rusts' },
      { condition: 'object.spec.absent.deeper', message: 'never' },
    ],
    auditAnnotations: [
      { key: 'tier', valueExpression: 'string(object.spec.tier)' },
      { key: 'note', valueExpression: 'has(object.spec.note) ? string(object.spec.note) : ""' },
      { key: 'nothing', valueExpression: 'null' },
    ],
    ...rules({ name: 'tier', expression: 'object.spec.tier != "silver"' }),
  },
  // match conditions that can fail
  {
    match: {
      apiGroups: [GROUP],
      resources: ['servers'],
      matchConditions: [{ name: 'large', expression: 'object.spec.?units.orValue(5) > 1' }],
    },
    ...rules({ name: 'tier', expression: GOLD }),
  },
];

const servers = { match: { apiGroups: [GROUP], resources: ['servers'] } } satisfies Spec;
const mutations = (...all: NonNullable<Spec['mutations']>): Spec => ({
  ...servers,
  mutations: all,
  restore: { mutations: 'Apply' },
});

/** Changes in lists, of keys that a JSON pointer escapes, and of replaced fields. */
export const CHANGED: readonly Spec[] = [
  {
    ...servers,
    defaults: [
      { path: 'spec.list[*].name', value: 'x' },
      { path: 'spec.list[*].deep[*]["a~/b"]', value: { 'c/d': [1] } },
      { path: 'spec.list[1]["a~/b"]', value: [] },
      { path: 'spec["a~/b"]["c/d"]', value: 'x' },
    ],
  },
  mutations({
    name: 'item',
    type: 'JSONPatch',
    expression:
      '[{"op": "replace", "path": "/spec/list/1/deep", "value": []}, {"op": "replace", "path": "/spec/list/0/name", "value": "z"}]',
  }),
  mutations({
    name: 'escaped',
    type: 'JSONPatch',
    condition: 'object.spec.units > 1',
    expression: '[{"op": "replace", "path": "/spec/a~0~1b", "value": {"c/d": "z"}}]',
  }),
  mutations({
    name: 'appended',
    type: 'JSONPatch',
    condition: '!("z" in object.spec.list)',
    expression: '[{"op": "add", "path": "/spec/list/-", "value": "z"}]',
  }),
  mutations(
    { name: 'merged', expression: '{"spec": {"a~/b": {"c/d": "z", "e": null}, "note": null}}' },
    { name: 'nested', expression: '{"spec": {"list": [{"deep": ["b", {}]}, []]}}' },
  ),
];

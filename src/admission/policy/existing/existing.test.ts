/** Updates of objects that are older than the checks they violate: `existingViolations: Allow`. */
import fc from 'fast-check';
import { expect, test } from 'vitest';

import {
  clusterOf,
  createRequest,
  DATACENTER,
  GROUP,
  policyOf,
  updateRequest,
} from '../../../../test/support/admission/policy.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { JsonObject } from '../../../json/json.ts';
import type { KubeObject } from '../../../json/kube-object.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { validate } from '../validate.ts';

type Spec = Partial<AdmissionPolicySpec>;

const rule = (expression: string, rest: object = {}): Spec => ({
  validate: { rules: [{ name: 'r', expression }] },
  ...rest,
});
const schema = (spec: object, rest: object = {}): Spec => ({
  validate: { schema: { properties: { spec }, ...rest } },
});
const servers = (match: object): Spec => ({
  match: { apiGroups: [GROUP], resources: ['servers'], ...match },
});

const IRON = { spec: { tier: 'iron' } } as KubeObject;
const STORED = {
  [`datacenters.${GROUP}/old`]: IRON,
  [`datacenters.${GROUP}/older`]: IRON,
  [`classes.${GROUP}/a/old`]: IRON,
  [`classes.${GROUP}/b/old`]: IRON,
  'configmaps/store/limits': { data: { units: '5' } } as KubeObject,
};

const decide = async (spec: Spec, request: AdmissionRequest) =>
  await validate(
    request,
    [policyOf({ existingViolations: 'Allow', ...spec })],
    clusterOf({ stored: STORED }),
  );

const kindOf = async (spec: Spec, request: AdmissionRequest): Promise<string> =>
  (await decide(spec, request)).kind;

const MAXIMUM = { properties: { units: { maximum: 5 } } };
const readsTarget = (reference: typeof DATACENTER): Spec => ({
  validate: {
    references: [reference],
    rules: [{ name: 'r', expression: `refs.${reference.name}.spec.tier == "gold"` }],
  },
});
const READS_TARGET = readsTarget(DATACENTER);
const CLASS = {
  name: 'class',
  path: 'spec.class',
  namespacePath: 'spec.of',
  target: { apiGroup: GROUP, resource: 'classes' },
};
const units = (schema: object) => ({ properties: { spec: { properties: { units: schema } } } });
const IF_TIER = { if: { properties: { spec: { required: ['tier'] } } } };

type Row = readonly [string, Spec, before: JsonObject, after: JsonObject];

const SMALL = rule('object.spec.units < 5');
const [LARGE, SAME] = [{ units: 9 }, { units: 9, more: 1 }];
const LIMITED = (name: string) =>
  rule('object.spec.units < int(params.data.units)', {
    params: { apiGroup: '', resource: 'configmaps', name },
  });
const INDIRECT = (expression: string, read: string) =>
  rule(expression, { variables: [{ name: 'v', expression: read }] });
const XOR = { anyOf: [{ required: ['x'] }, { required: ['y'] }] };

test.each<Row>([
  ['a rule', SMALL, LARGE, SAME],
  ['a rule that fails', rule('object.spec.nothing < 5'), {}, { more: 1 }],
  ['a test for a parent', rule('has(object.spec.a) && object.spec.a.x > 1'), { a: {} }, { a: { y: 2 } }],
  ['a rule with a variable', INDIRECT('variables.v < 5', 'object.spec.units'), LARGE, SAME],
  ['a rule that reads params', LIMITED('limits'), LARGE, SAME],
  ['a rule whose params are gone', LIMITED('gone'), LARGE, SAME],
  ['a rule that reads a target', READS_TARGET, { datacenter: 'old' }, { datacenter: 'old', more: 1 }],
  ['a schema', schema(MAXIMUM), LARGE, SAME],
  ['a required field', schema({ required: ['units'] }), {}, { more: 1 }],
  ['alternatives', schema({ properties: { a: XOR } }), { a: {} }, { a: {}, more: 1 }],
])('an update of another field passes with a warning: %s', async (_check, spec, before, after) => {
  expect(await decide(spec, updateRequest(before, after))).toMatchObject({
    kind: 'allow',
    warnings: [expect.stringMatching(/\(policy servers\); allowed, because the update does not change what/)],
    auditAnnotations: { 'existing-violations': spec.validate?.schema ? 'servers/schema' : 'servers/r' },
  });
  const other = { units: 1, nothing: 1, a: { x: 2 }, datacenter: 'none' };
  const created = { ...updateRequest(before, after), operation: 'CREATE' as const };
  for (const request of [created, updateRequest(other, after)])
    expect(await kindOf(spec, request)).toBe('deny');
  expect(await kindOf({ ...spec, existingViolations: 'Deny' }, updateRequest(before, after))).toBe('deny');
});

const NAMESAKES = ['units', 'more'].map((key) => ({ name: 'r', expression: `object.spec.${key} < 5` }));
const MANY = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`n${index}`, true]));
const NEVER = { not: { minimum: 0 } };
const GOLD = { ...LARGE, tier: 'gold' };
const GOLD_IS_SMALL = { if: { required: ['tier'] }, then: MAXIMUM };
const LIST = { properties: { list: { items: GOLD_IS_SMALL } } };
const COSTLY = 'object.spec.list.all(x, object.spec.list.all(y, x + y >= 0))';
const LONG = { list: Array.from({ length: 3_000 }, (_, index) => index) };

test.each<Row>([
  ['the field of a rule', SMALL, LARGE, { units: 8 }],
  ['another element of a list', rule('object.spec.list[0] < 5'), { list: [9] }, { list: [9, 1] }],
  ['a field in the value of a variable', INDIRECT('variables.v.units < 5', 'object.spec'), LARGE, SAME],
  ['a part of the whole object', rule('[object].all(o, o.spec.units < 5)'), LARGE, SAME],
  ['the existence of a parent', rule('has(object.spec.b.c)'), { b: {} }, {}],
  ['the type of a parent', rule('object.spec.a.x < 5'), { a: [] }, { a: 'text' }],
  ['the reference of a target', READS_TARGET, { datacenter: 'old' }, { datacenter: 'older' }],
  ['the namespace of a target', readsTarget(CLASS), { class: 'old', of: 'a' }, { class: 'old', of: 'b' }],
  ['the field of a rule of the same name', { validate: { rules: NAMESAKES } }, LARGE, { units: 9, more: 9 }],
  ['the field of a schema', schema(MAXIMUM), LARGE, { units: 8 }],
  ['a condition', schema(GOLD_IS_SMALL), LARGE, GOLD],
  [
    'a condition that replaces a keyword by another',
    schema({}, { ...IF_TIER, then: units(NEVER), else: units({ not: {} }) }),
    LARGE,
    GOLD,
  ],
  ['a sibling that alternatives read', schema(XOR), {}, { z: 1 }],
  ['the whole object, which alternatives at the top read', schema({}, XOR), {}, { z: 1 }],
  ['the condition of another element', schema(LIST), { list: [GOLD, LARGE] }, { list: [GOLD, GOLD] }],
  ['nothing, with more flaws than are listed', schema({ additionalProperties: false }), MANY, MANY],
  ['nothing, above the cost limit', rule(COSTLY), LONG, LONG],
  ['nothing, but the rule reads the request', rule('request.operation == "CREATE"'), {}, {}],
  ['nothing, but the rule reads the old object', rule('oldObject == null'), {}, {}],
])('an update is refused if it changes %s', async (_field, spec, before, after) => {
  expect(await kindOf(spec, updateRequest(before, after))).toBe('deny');
});

const conditionally = (expression: string) => servers({ matchConditions: [{ name: 'm', expression }] });
const HAS_LABELS = 'has(object.metadata.labels)';
const UNSIZED = { matchExpressions: [{ key: 'sized', operator: 'DoesNotExist' } as const] };

test.each<[string, Spec]>([
  ['the selector of the policy', servers({ objectSelector: { matchLabels: { sized: 'yes' } } })],
  ['a match condition', conditionally(HAS_LABELS)],
  ['a match condition with the user', conditionally(`request.userInfo.username == 'x' || ${HAS_LABELS}`)],
  ['an exception', { exceptions: [{ name: 'unsized', reason: 'r', objectSelector: UNSIZED }] }],
])('a change of labels that ends %s refuses the violation', async (_scope, scope) => {
  const labels = { labels: { sized: 'yes' } };
  for (const spec of [SMALL, schema(MAXIMUM)]) {
    const request = updateRequest(LARGE, LARGE, labels);
    expect(await kindOf({ ...spec, ...scope }, request)).toBe('deny');
    const { object: oldObject } = createRequest(LARGE, labels);
    expect(await kindOf({ ...spec, ...scope }, { ...request, oldObject })).toBe('allow');
  }
});

test('a new violation next to an existing one is refused, alone', async () => {
  const rules = [...(SMALL.validate?.rules ?? []), { name: 'new', expression: 'object.spec.more < 5' }];
  const decision = await decide({ validate: { rules } }, updateRequest(SAME, { units: 9, more: 9 }));
  if (decision.kind !== 'deny') throw new Error(decision.kind);
  expect(decision.causes.map(({ message }) => message)).toEqual([expect.stringContaining('(rule new)')]);
});

test('a policy that only warns keeps its warnings', async () => {
  expect(await decide({ ...SMALL, enforcement: 'Warn' }, updateRequest(LARGE, SAME))).toMatchObject({
    warnings: [expect.stringMatching(/\(policy servers\)$/)],
  });
});

test('an object that is being deleted may still keep violations that its update reads', async () => {
  const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z' };
  const { object: oldObject } = createRequest(LARGE, deleted);
  for (const spec of [SMALL, rule('[object].all(o, o.spec.units < 5)')])
    expect(await kindOf(spec, { ...updateRequest(LARGE, SAME, deleted), oldObject })).toBe('allow');
});

/** Each check, and what it reads of the spec. */
const CHECKS: readonly (readonly [Spec, (spec: JsonObject) => unknown])[] = [
  [rule('object.spec.a < 3'), (spec) => at(spec, 'a')],
  [rule('!has(object.spec.a) || object.spec.b == 1'), (spec) => ['a' in spec, at(spec, 'b')]],
  [rule('object.spec.?a.orValue(0) == 0 && object.spec.c.a == 1'), (spec) => [at(spec, 'a'), nested(spec)]],
  [rule('has(object.spec.c.a)'), (spec) => nested(spec).slice(0, 2)],
  [rule('object.spec.all(k, k != "b")'), (spec) => spec],
  [rule('object.spec["a"] == object.spec["b"]'), (spec) => [at(spec, 'a'), at(spec, 'b')]],
  [schema({ properties: { a: { maximum: 3 } } }), (spec) => at(spec, 'a')],
  [schema({ properties: { c: { required: ['a'] } } }), (spec) => nested(spec).slice(0, 2)],
  [schema({ not: { required: ['b'] } }), (spec) => spec],
];

const at = (value: object, key: string): unknown => Object.entries(value).filter(([name]) => name === key);

/** Of `c.a`: its parent, whether it exists, its value. */
function nested({ c }: JsonObject): readonly unknown[] {
  if (typeof c !== 'object' || c === null) return [c === undefined ? 'absent' : c];
  return ['object', 'a' in c, at(c, 'a')];
}

test('property: an update passes if and only if it is valid, or its old object was invalid and its reads are equal', async () => {
  const value = fc.constantFrom<null | number | string>(null, 0, 1, 5, 'x');
  const record = fc.record({ a: value, b: value }, { requiredKeys: [] });
  const specs = fc.record({ a: value, b: value, c: fc.oneof(record, value) }, { requiredKeys: [] });
  const pair = fc.tuple(specs, specs, fc.subarray(['a', 'b', 'c'])).map(([before, other, keys]) => {
    const entries = Object.entries(other).filter(([key]) => keys.includes(key));
    return [before, { ...before, ...Object.fromEntries(entries) }] as const;
  });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...CHECKS), pair, async ([spec, readsOf], [before, after]) => {
      const isValid = async (one: JsonObject) => (await kindOf(spec, createRequest(one))) === 'allow';
      const isKept =
        JSON.stringify(readsOf(before)) === JSON.stringify(readsOf(after)) && !(await isValid(before));
      const passes = (await kindOf(spec, updateRequest(before, after))) === 'allow';
      expect(passes).toBe((await isValid(after)) || isKept);
    }),
    { numRuns: 2_000 },
  );
});

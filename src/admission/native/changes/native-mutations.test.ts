import { describe, expect, test } from 'vitest';

import { GROUP, policyOf } from '../../../../test/support/admission/policy.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { compileNative } from '../native-policy.ts';

type Spec = Partial<AdmissionPolicySpec>;
type Mutation = NonNullable<AdmissionPolicySpec['mutations']>[number];

const OPTIONS = { ownNamespace: 'gatehouse-system', restorers: [], others: [] };
const merge = (expression: string, more: Partial<Mutation> = {}): Mutation => ({
  name: 'm',
  expression,
  ...more,
});
const patch = (expression: string, condition?: string): Mutation =>
  merge(expression, { type: 'JSONPatch', ...(condition === undefined ? {} : { condition }) });
const mutating = (...mutations: readonly Mutation[]): Spec => ({
  mutations: [...mutations],
  restore: { mutations: 'Apply' },
});

const native = (spec: Spec, ...others: readonly Spec[]) =>
  compileNative(policyOf(spec, 'own'), {
    ...OPTIONS,
    others: others.map((other, index) => policyOf(other, `other-${index}`)),
  });

/** The expressions of the mutations. Throws if the webhook keeps one. */
function texts(...mutations: readonly Mutation[]): readonly string[] {
  const { checks } = native(mutating(...mutations));
  return checks.flatMap((one) => {
    if (one.by === 'Webhook') throw new Error(`${one.check}: ${one.reason}`);
    return one.mutations ?? [];
  });
}

const reasons = (...specs: readonly [Spec, ...Spec[]]): readonly (string | undefined)[] =>
  native(...specs).checks.map((one) => (one.by === 'Webhook' ? one.reason : undefined));

test('a merge may write computed strings, and values of several types', () => {
  const expression =
    '{"spec": {"a": string(object.y) + "b", "b": true, "c": [1, "a", {"d": -2.5}]}, "x": [] }';
  expect(texts(merge(expression))).toHaveLength(1);
});

const add = (path: string, value = '1') => `{"op": "add", "path": ${path}, "value": ${value}}`;

test.each<[string, string, Mutation]>([
  ['a value may be of any type', 'write string(…)', merge('{"a": object.b}')],
  ['the first item may be null', 'write string(…)', merge('{"a": object.b.first().orValue("c")}')],
  ['a value is a large integer', 'a number literal', merge('{"a": 9007199254740993}')],
  ['the expression is no literal', 'not a map literal', merge('object.a')],
  ['a key is computed', 'not a string literal', merge('{object.a: 1}')],
  ['an entry is optional', 'optional entries', merge('{?"a": object.?b}')],
  ['null is in a list', 'null into a list', merge('{"a": [null]}')],
  ['a list has several types', 'refuses its expression', merge('{"a": string([1, "b"].size())}')],
  ['nothing changes', 'changes nothing', merge('{}')],
  ['the name changes', 'identity of the object', merge('{"metadata": {"name": "b"}}')],
  ['the patches are no literal', 'not a list literal', patch('object.a')],
  ['an operation tests', 'not a literal', patch('[{"op": "test", "path": "/a", "value": 1}]')],
  ['a path is computed', 'not a literal', patch(`[${add('"/" + string(object.a)')}]`)],
  ['a path lacks the slash', 'differently', patch(`[${add('"a"')}]`)],
  ['a path counts from the end', 'differently', patch(`[${add('"/a/-1"')}]`)],
  ['an item is added', 'may add an item', patch(`[${add('"/a/-"')}]`)],
  ['a field is removed', 'without the condition that it exists', patch('[{"op": "remove", "path": "/a"}]')],
  ['its own value is read', 'reads what it writes', merge('{"a": string(object.a) + "b"}')],
  ['a parent follows', 'then its parent', patch(`[${add('"/a/b"')}, ${add('"/a"')}]`)],
])('the webhook keeps a mutation if %s', (_what, reason, mutation) => {
  expect(reasons(mutating(mutation))).toEqual([expect.stringContaining(reason)]);
});

test('the webhook keeps a mutation if the API server infers the type string for a variable of unknown type', () => {
  const spec = mutating(merge('{"a": string(variables.b)}'));
  const reading = (expression: string) => reasons({ ...spec, variables: [{ name: 'b', expression }] });
  expect(reading('object.b.orValue("c")')[0]).toContain('may infer another type for variables.b');
  expect(reading('string(object.b.orValue("c"))')).toEqual([undefined]);
});

test('the webhook keeps a mutation that a restore may skip, and all other changes of the policy', () => {
  const spec = { ...mutating(merge('{"a": 1}')), defaults: [{ path: 'spec.b', value: 1 }] };
  expect(reasons(spec)).toEqual([undefined, undefined]);
  expect(reasons({ ...spec, restore: {} })).toEqual([
    'mutation m needs the webhook, and all changes of a policy are made in one place, in order',
    'a restore may skip it: set restore.mutations to Apply, if it may change restored objects',
  ]);
});

describe('mutations that read params', () => {
  const params = { apiGroup: GROUP, resource: 'datacenters', name: 'limits', whenMissing: 'Allow' } as const;
  const reading = merge('{"a": string(params.b)}');

  test('compile if all changes of the policy read them', () => {
    const { checks, pairs } = native({ ...mutating(reading), params });
    expect(checks).toMatchObject([{ check: 'mutation m', by: 'APIServer' }]);
    const [{ policy, binding } = { policy: {}, binding: {} }] = pairs;
    expect(policy).toMatchObject({ spec: { paramKind: { kind: 'Datacenter' } } });
    expect(binding).toMatchObject({
      spec: { paramRef: { name: 'limits', parameterNotFoundAction: 'Allow' } },
    });
  });

  test.each<[string, string, Spec]>([
    ['only some do', 'only some', { ...mutating(reading, merge('{"x": 1}', { name: 'n' })), params }],
    [
      'missing params refuse',
      'whenMissing is Deny',
      { ...mutating(reading), params: { ...params, whenMissing: 'Deny' } },
    ],
    [
      'each namespace has its own',
      'no probe',
      { ...mutating(reading), params: { ...params, resource: 'classes' } },
    ],
  ])('need the webhook if %s', (_what, reason, spec) => {
    expect(reasons(spec)[0]).toContain(reason);
  });
});

describe('the webhook keeps mutations that may change their own result', () => {
  const tier = (value: string, condition?: string) =>
    merge(`{"spec": {"tier": "${value}"}}`, condition === undefined ? {} : { condition });

  test.each<[string, readonly Mutation[]]>([
    ['two set one field', [tier('a'), tier('b')]],
    [
      'a later one sets what the condition of an earlier one reads',
      [merge('{"x": 1}', { condition: 'object.?spec.?tier.hasValue()' }), tier('a')],
    ],
    [
      'a condition excludes another field',
      [merge('{"x": 1}', { condition: '!has(object.x) && object.spec.tier == "b"' }), tier('a')],
    ],
    [
      'a later one removes what an earlier one added',
      [merge('{"x": 1}', { condition: '!has(object.x)' }), merge('{"x": null}')],
    ],
    [
      'the condition needs the parent of what one removes',
      [patch('[{"op": "remove", "path": "/spec/a"}]', 'has(object.spec)')],
    ],
  ])('if %s', (_what, mutations) => {
    expect(reasons(mutating(...mutations))[0]).toContain('only the webhook can check');
  });

  test('but not if an earlier one sets what a later one reads, or if the condition of a removal is that the field exists', () => {
    expect(texts(tier('a'), merge('{"x": string(object.spec.tier)}'))).toHaveLength(2);
    const labels = patch(`[${add('"/metadata/labels"', '{}')}]`, '!has(object.metadata.labels)');
    const label = patch(`[${add('"/metadata/labels/a"', '"b"')}]`);
    expect(texts(labels, { ...label, name: 'n' })).toHaveLength(2);
    expect(texts(patch('[{"op": "remove", "path": "/spec/a"}]', '"a" in object.spec'))).toHaveLength(1);
  });
});

describe('an item is added to a list if the condition is that it is missing', () => {
  const append = (value: string) => `[${add('"/spec/disks/-"', value)}]`;
  const hasDisk = 'object.spec.disks.exists(disk, disk.name == "boot")';

  test.each<[string, string]>([
    [`!${hasDisk}`, append('{"name": "boot", "size": 1}')],
    [`has(object.spec.disks) && !${hasDisk}`, append('{"name": "boot"}')],
    ['!("boot" in object.spec.disks)', append('"boot"')],
  ])('%s', (condition, expression) => {
    expect(texts(patch(expression, condition))).toHaveLength(1);
  });

  test.each<[string, string, string]>([
    ['the condition is the opposite', hasDisk, append('{"name": "boot"}')],
    ['the name differs', `!${hasDisk}`, append('{"name": "data"}')],
    [
      'the macro has two variables',
      '!object.spec.disks.exists(index, disk, index.name == "boot")',
      append('{"name": "boot"}'),
    ],
    ['the name is computed', `!${hasDisk}`, append('{"name": string(object.x)}')],
    [
      'another operation removes an item',
      '!("boot" in object.spec.disks)',
      `${append('"boot"').slice(0, -1)}, {"op": "remove", "path": "/spec/disks/0"}]`,
    ],
  ])('but not if %s', (_what, condition, expression) => {
    expect(reasons(mutating(patch(expression, condition)))[0]).toContain('only the webhook can check');
  });
});

describe('between policies', () => {
  const own = mutating(merge('{"spec": {"tier": "gold"}}'));
  test.each<[string, Spec, boolean]>([
    ['writes the same field', mutating(merge('{"spec": {"tier": "iron"}}')), false],
    ['may write any field', mutating(merge('object')), false],
    [
      'reads the field',
      { defaults: [{ path: 'x', expression: 'string(object.?spec.?tier.orValue(""))' }] },
      false,
    ],
    ['fails without a spec', { defaults: [{ path: 'x', expression: 'string(object.spec.y)' }] }, false],
    ['patches a spec that must exist', mutating(patch(`[${add('"/spec/a"')}]`)), false],
    [
      'fills a field of a parent that is possibly not a map',
      { defaults: [{ path: 'spec.x', value: 1 }] },
      false,
    ],
    ['merges into the same parent', mutating(merge('{"spec": {"x": 1}}')), true],
    ['writes other metadata', mutating(merge('{"metadata": {"labels": {"a": "b"}}}')), true],
  ])('another one %s', (_what, other, compiles) => {
    expect(reasons(own, other)).toEqual([
      compiles ? undefined : expect.stringContaining('AdmissionPolicy other-0'),
    ]);
  });

  const claiming: Spec = {
    validate: {
      references: [
        {
          name: 'claim',
          path: 'spec.claim.name',
          uidPath: 'spec.claim.uid',
          target: { apiGroup: GROUP, resource: 'claims' },
        },
      ],
    },
  };
  const keeping: Spec = { owners: { preserve: true } };
  const copies = (field: string) =>
    mutating(merge(`{"metadata": {"labels": {"a": string(object.?${field}.orValue(""))}}}`));
  const owners = 'metadata.?annotations["gatehouse.dev/owner-references"]';

  test.each<[string, Spec, Spec, boolean]>([
    ['a uid that the webhook corrects later', copies('spec.?claim.?uid'), claiming, false],
    ['the parent of such a uid', mutating(merge('{"spec": {"claim": null}}')), claiming, false],
    ['the record of the owners', copies(owners), keeping, false],
    ['another field', copies('spec.?tier'), { ...claiming, ...keeping }, true],
  ])('%s: in the same policy or another one', (_what, reading, correcting, compiles) => {
    const ofMutation = (...specs: readonly [Spec, ...Spec[]]) => reasons(...specs)[0];
    expect(ofMutation({ ...correcting, ...reading }) === undefined).toBe(compiles);
    expect(ofMutation(reading, correcting) === undefined).toBe(compiles);
  });
});

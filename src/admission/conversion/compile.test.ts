import { describe, expect, test } from 'vitest';

import type { ConversionPolicySpec, ConversionStep } from '../../api/conversion-policy.ts';
import { compileConversion } from './compile.ts';
import {
  definitionOf,
  GROUP,
  policyOf,
  serversSpec,
  threeVersions,
  v1Schema,
  v2Schema,
} from '../../../test/support/admission/conversion.ts';
import { readDefinition, sameForConversion } from './definition.ts';
import { invert } from './step.ts';

const TWO = [
  { name: 'v1', schema: v1Schema },
  { name: 'v2', schema: v2Schema },
];
const compile = (spec: Partial<ConversionPolicySpec>, definition = threeVersions()) =>
  compileConversion(policyOf(spec), definition);
const problemsOf = (...args: Parameters<typeof compile>) =>
  compile(...args).problems.map(({ reason, where, message }) => `${reason} ${where}: ${message}`);

/**
 * The problems of these steps from v1 to the hub. The fields that they read and write exist, unless the test says
 * otherwise.
 */
const problemsOfSteps = (toHub: readonly ConversionStep[], fromHub: readonly ConversionStep[] = []) =>
  problemsOf({ versions: [{ name: 'v1', toHub, fromHub }] }, definitionOf([{ name: 'v1' }, { name: 'v2' }]));

test('a valid policy compiles and reports the versions it converts between', () => {
  const { usable, problems } = compile({});
  expect(problems).toEqual([]);
  expect(usable).toMatchObject({
    name: 'servers',
    generation: 1,
    spec: serversSpec,
    converter: {
      name: 'ConversionPolicy servers',
      target: { group: GROUP, resource: 'servers' },
      versions: ['v2', 'v1', 'v3'],
    },
  });
});

describe('a step is refused', () => {
  test.each<[string, ConversionStep, string]>([
    ['into the name', { move: { from: 'spec.a', to: 'metadata.name' } }, 'labels and annotations only'],
    ['into all labels at once', { set: { path: 'metadata.labels', expression: '{}' } }, 'name one key'],
    [
      'into a key that labels cannot have',
      { default: { path: 'metadata.labels["a b"]', value: 'x' } },
      'is not a key that labels can have',
    ],
    [
      'into the annotations of Gatehouse',
      { remove: { path: 'metadata.annotations["conversion.gatehouse.dev/v2"]' } },
      'belongs to Gatehouse',
    ],
    ['into the kind', { set: { path: 'kind', expression: '"X"' } }, 'written by Gatehouse'],
    ['of one element', { remove: { path: 'spec.l[0]' } }, 'names one element of a list'],
    ['of every element', { remove: { path: 'spec.l[*]' } }, 'end it in a field'],
    ['between lists', { move: { from: 'spec.l[*].a', to: 'spec.m[*].a' } }, 'lead into different lists'],
    ['into itself', { move: { from: 'spec.a', to: 'spec.a.b' } }, 'one of the two is part of the other'],
    ['from an invalid path', { move: { from: 'spec..a', to: 'spec.b' } }, 'expected a field name'],
  ])('%s', (_what, step, message) => {
    const [problem, ...others] = problemsOfSteps([step]);
    expect(others).toEqual([]);
    expect(problem).toMatch(/^InvalidPath spec\.versions\[0\]\.toHub\[0\]\.(move|set|default|remove)/);
    expect(problem).toContain(message);
  });

  test.each<[string, ConversionStep, string]>([
    [
      'without a value',
      { default: { path: 'spec.a' } },
      'InvalidPolicy spec.versions[0].toHub[0].default: write either',
    ],
    [
      'with two sources of a value',
      { default: { path: 'spec.a', value: 1, expression: '1' } },
      'write either value or expression',
    ],
    ['with null', { default: { path: 'spec.a', value: null } }, 'without null'],
    ['that has no effect', {}, 'write one of move, default, set and remove'],
    [
      'with an incomplete expression',
      { set: { path: 'spec.a', expression: 'object.' } },
      'InvalidExpression spec.versions[0].toHub[0].set.expression',
    ],
    [
      'with an unknown variable',
      { set: { path: 'spec.a', expression: 'self.x' } },
      'an expression sees object (item is there only in a path with [*])',
    ],
    [
      'with an invalid condition',
      { set: { path: 'spec.a', expression: '1', when: '1 + 1' } },
      'InvalidExpression spec.versions[0].toHub[0].set.when',
    ],
  ])('%s', (_what, step, message) => {
    expect(problemsOfSteps([step]).join('\n')).toContain(message);
  });

  test('every mistake is reported at once', () => {
    const problems = problemsOfSteps([
      { move: { from: '', to: 'metadata.uid' } },
      { set: { path: 'spec[', expression: '(' } },
    ]);
    expect(problems.map((problem) => problem.split(': ')[0])).toEqual([
      'InvalidPath spec.versions[0].toHub[0].move.from',
      'InvalidPath spec.versions[0].toHub[0].move.to',
      'InvalidPath spec.versions[0].toHub[1].set.path',
      'InvalidExpression spec.versions[0].toHub[1].set.expression',
    ]);
  });
});

describe('the reverse direction', () => {
  const moves: readonly ConversionStep[] = [
    { move: { from: 'spec.a', to: 'spec.b' } },
    { default: { path: 'spec.d', value: 1 } },
    { move: { from: 'spec.b', to: 'spec.c' } },
  ];

  test('of moves is derived: the inverse steps in reverse order', () => {
    expect(invert(moves)).toEqual({
      kind: 'inverse',
      steps: [{ move: { from: 'spec.c', to: 'spec.b' } }, { move: { from: 'spec.b', to: 'spec.a' } }],
    });
  });

  test.each(['toHub', 'fromHub'] as const)('is derived from %s', async (direction) => {
    const { usable } = compile(
      { versions: [{ name: 'v1', [direction]: moves }] },
      definitionOf([{ name: 'v1' }, { name: 'v2' }]),
    );
    const [from, to] = direction === 'toHub' ? ['v1', 'v2'] : ['v2', 'v1'];
    const object = { apiVersion: `${GROUP}/${from}`, kind: 'Server', metadata: {}, spec: { a: 'x' } };
    const signal = new AbortController().signal;
    const there = await usable?.converter.convert(object, to, signal);
    expect(there).toMatchObject({ spec: { c: 'x', d: 1 } });
    expect(await usable?.converter.convert(there ?? {}, from, signal)).toEqual(object);
  });

  test.each<[string, ConversionStep]>([
    ['set', { set: { path: 'spec.a', expression: '1' } }],
    ['remove', { remove: { path: 'spec.a' } }],
  ])('of %s must be written explicitly', (verb, step) => {
    const problems = problemsOf(
      { versions: [{ name: 'v1', toHub: [...moves, step] }] },
      definitionOf([{ name: 'v1' }, { name: 'v2' }]),
    );
    expect(problems).toEqual([
      expect.stringContaining(`spec.versions[0].fromHub: write it: ${verb} in toHub[3] has no inverse`),
    ]);
  });
});

describe('policy and definition', () => {
  test.each<[string, Partial<ConversionPolicySpec>, string]>([
    [
      'an unknown hub',
      { hub: 'v9' },
      'UnknownVersion spec.hub: servers.infra.example.com has no version "v9": choose one of "v1", "v2", "v3"',
    ],
    [
      'an unknown version',
      { versions: [...serversSpec.versions, { name: 'v9' }] },
      'UnknownVersion spec.versions[2].name',
    ],
    [
      'steps for the hub',
      { versions: [...serversSpec.versions, { name: 'v2' }] },
      'InvalidPolicy spec.versions[2].name: is the hub',
    ],
    [
      'a served version without steps',
      { versions: serversSpec.versions.slice(0, 1) },
      'MissingVersion spec.versions: servers.infra.example.com serves version "v3", which has no steps here: add it',
    ],
  ])('%s is reported as a mismatch', (_what, spec, message) => {
    expect(problemsOf(spec).join('\n')).toContain(message);
  });

  test('a version needs no steps if it is neither served nor stored; a storage version needs them', () => {
    const versions = [...TWO, { name: 'v3', served: false }];
    const spec = { versions: serversSpec.versions.slice(0, 1) };
    expect(problemsOf(spec, definitionOf(versions))).toEqual([]);
    const stored = definitionOf(versions, {}, { storedVersions: ['v2', 'v3'] });
    expect(problemsOf(spec, stored).join()).toContain('may have stored objects in version "v3"');
  });

  test('with different versions still convert between those that both know', () => {
    const more = definitionOf([...TWO, { name: 'v3' }, { name: 'v4' }]);
    expect(compile({}, more).usable?.converter.versions).toEqual(['v2', 'v1', 'v3']);
    const fewer = definitionOf(TWO);
    expect(compile({}, fewer)).toMatchObject({
      usable: { converter: { versions: ['v2', 'v1'] } },
      problems: [{ reason: 'UnknownVersion' }],
    });
    expect(compile({ hub: 'v9' }).usable).toBeUndefined();
  });
});

describe('steps and schemas', () => {
  const steps = (toHub: readonly ConversionStep[]) =>
    problemsOf({ versions: [{ name: 'v1', toHub, fromHub: [] }] }, definitionOf(TWO));

  test.each<[string, readonly ConversionStep[], string]>([
    [
      'takes a missing field',
      [{ move: { from: 'spec.rakc', to: 'spec.tier' } }],
      'spec.rakc is no field in the schema of version v1, so the step would never find anything',
    ],
    [
      'writes a field that the schema prunes',
      [{ move: { from: 'spec.rack', to: 'spec.teir' } }],
      'spec.teir is no field in the schema of version v2, so the API server would drop',
    ],
  ])('a step that %s is a mistake', (_what, toHub, message) => {
    expect(steps(toHub).filter((problem) => problem.startsWith('UnknownField'))).toEqual([
      expect.stringContaining(message),
    ]);
  });

  test('a step may take a field that an earlier step creates', () => {
    const viaNowhere = steps([
      { move: { from: 'spec.rack', to: 'spec.temporary' } },
      { move: { from: 'spec.temporary', to: 'spec.tier' } },
    ]);
    expect(viaNowhere).toEqual([]);
  });

  const typed = (type: string) => ({
    type: 'object',
    properties: {
      spec: { type: 'object', properties: { size: { type }, list: { type: 'array', items: { type } } } },
    },
  });
  const sizes = (one: string, other: string, versions: ConversionPolicySpec['versions']) =>
    problemsOf(
      { versions },
      definitionOf([
        { name: 'v1', schema: typed(one) },
        { name: 'v2', schema: typed(other) },
      ]),
    );

  test('a type mismatch of a field that no step touches is a mistake', () => {
    expect(sizes('string', 'integer', [{ name: 'v1' }])).toEqual([
      'TypeChange spec.versions[0]: spec.size is a string in version v1 and an integer in v2: convert it by a set step in both directions, or remove it',
      expect.stringContaining('spec.list[*] is a string in version v1'),
    ]);
    expect(sizes('integer', 'number', [{ name: 'v1' }])).toEqual([]);
    const toHub = [
      { set: { path: 'spec.size', expression: 'int(object.spec.size)' } },
      { remove: { path: 'spec.list' } },
    ];
    expect(sizes('string', 'integer', [{ name: 'v1', toHub, fromHub: [] }])).toEqual([]);
  });
});

describe('a definition', () => {
  test.each([undefined, null, {}, { spec: { group: 'g' } }, []])('is not read from %j', (value) => {
    expect(readDefinition(value)).toBeUndefined();
  });

  test('that differs only in its webhook counts as equal for conversion', () => {
    const [one, other] = [definitionOf(TWO), definitionOf(TWO, { conversion: { strategy: 'Webhook' } })];
    expect(sameForConversion(one, other)).toBe(true);
    expect(sameForConversion(one, definitionOf([...TWO, { name: 'v3' }]))).toBe(false);
  });
});

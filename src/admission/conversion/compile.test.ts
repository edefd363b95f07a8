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

/** The problems of these steps from v1 to the hub, without schemas. */
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

const set = (expression: string, when?: string): ConversionStep => ({
  set: { path: 'spec.a', expression, ...(when === undefined ? {} : { when }) },
});

describe('a step is refused', () => {
  test.each<[string, ConversionStep, string]>([
    ['into the name', { move: { from: 'spec.a', to: 'metadata.name' } }, 'only the labels and annotations'],
    ['into all labels together', { set: { path: 'metadata.labels', expression: '{}' } }, 'a key is missing'],
    [
      'into an invalid key',
      { default: { path: 'metadata.labels["a b"]', value: 'x' } },
      'not a valid key of labels',
    ],
    [
      'into the annotations of Gatehouse',
      { remove: { path: 'metadata.annotations["conversion.gatehouse.dev/v2"]' } },
      'reserved for values',
    ],
    ['into the kind', { set: { path: 'kind', expression: '"X"' } }, 'cannot be changed by a step'],
    ['of one element', { remove: { path: 'spec.l[0]' } }, 'selects one element of a list'],
    ['of every element', { remove: { path: 'spec.l[*]' } }, 'end it in a field'],
    ['between lists', { move: { from: 'spec.l[*].a', to: 'spec.m[*].a' } }, 'lead into different lists'],
    ['into itself', { move: { from: 'spec.a', to: 'spec.a.b' } }, 'one path contains the other'],
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
      'InvalidPolicy spec.versions[0].toHub[0].default: write',
    ],
    [
      'with two values',
      { default: { path: 'spec.a', value: 1, expression: '1' } },
      'either value or expression',
    ],
    ['with null', { default: { path: 'spec.a', value: null } }, 'must not contain null'],
    ['that has no effect', {}, 'exactly one of move, default, set'],
    [
      'with an incomplete expression',
      set('object.'),
      'InvalidExpression spec.versions[0].toHub[0].set.expression',
    ],
    [
      'with an unknown variable',
      set('self.x'),
      'an expression can use object (and item, if the path has [*])',
    ],
    ['with an invalid condition', set('1', '1 + 1'), 'InvalidExpression spec.versions[0].toHub[0].set.when'],
  ])('%s', (_what, step, message) => {
    expect(problemsOfSteps([step]).join('\n')).toContain(message);
  });

  test('all mistakes are reported together', () => {
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
    ['set', set('1')],
    ['remove', { remove: { path: 'spec.a' } }],
  ])('of %s must be written explicitly', (verb, step) => {
    const problems = problemsOf(
      { versions: [{ name: 'v1', toHub: [...moves, step] }] },
      definitionOf([{ name: 'v1' }, { name: 'v2' }]),
    );
    expect(problems).toEqual([
      expect.stringContaining(
        `spec.versions[0].fromHub: required, because ${verb} in toHub[3] cannot be inverted`,
      ),
    ]);
  });
});

const withVersion = (name: string) => ({ versions: [...serversSpec.versions, { name }] });

describe('policy and definition', () => {
  test.each<[string, Partial<ConversionPolicySpec>, string]>([
    [
      'an unknown hub',
      { hub: 'v9' },
      'UnknownVersion spec.hub: version "v9" not found in servers.infra.example.com; choose one of "v1", "v2", "v3"',
    ],
    ['an unknown version', withVersion('v9'), 'UnknownVersion spec.versions[2].name'],
    ['steps for the hub', withVersion('v2'), 'InvalidPolicy spec.versions[2].name: is the hub'],
    [
      'a served version without steps',
      { versions: serversSpec.versions.slice(0, 1) },
      'MissingVersion spec.versions: version "v3" is missing, and servers.infra.example.com serves it; add its steps',
    ],
  ])('%s is reported as a mismatch', (_what, spec, message) => {
    expect(problemsOf(spec).join('\n')).toContain(message);
  });

  test('a version needs steps only if it is served or stored', () => {
    const versions = [...TWO, { name: 'v3', served: false }];
    const spec = { versions: serversSpec.versions.slice(0, 1) };
    expect(problemsOf(spec, definitionOf(versions))).toEqual([]);
    const stored = definitionOf(versions, {}, { storedVersions: ['v2', 'v3'] });
    expect(problemsOf(spec, stored).join()).toContain('may have stored objects in it');
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
      'spec.rakc not found in the schema of version v1, so the step would never find a value',
    ],
    [
      'writes a field that the schema prunes',
      [{ move: { from: 'spec.rack', to: 'spec.teir' } }],
      'spec.teir not found in the schema of version v2, so the API server would drop',
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
      'TypeChange spec.versions[0]: spec.size is a string in version v1 and an integer in v2; use set in both directions, or remove it',
      expect.stringContaining('spec.list[*] is a string in version v1'),
    ]);
    for (const [one = '', other = ''] of [['integer', 'number'], ['string'], ['', 'string']])
      expect(sizes(one, other, [{ name: 'v1' }])).toEqual([]);
    const toHub = [
      {
        set: {
          path: 'spec.size',
          when: 'has(object.spec) && has(object.spec.size)',
          expression: 'int(object.spec.size)',
        },
      },
      { remove: { path: 'spec.list' } },
    ];
    expect(sizes('string', 'integer', [{ name: 'v1', toHub, fromHub: [] }])).toEqual([]);
  });
});

describe('steps on an object with only its required fields', () => {
  const version = (name: string, required: readonly string[] = []) => ({
    name,
    schema: {
      type: 'object',
      required,
      properties: {
        spec: {
          type: 'object',
          required: ['disks', 'zone', 'tier'],
          properties: {
            zone: { type: 'string', pattern: '^[ab]$' },
            tier: { type: 'string', enum: ['iron', 'gold'] },
            host: { type: 'string' },
            size: { type: 'integer', default: 1 },
            disks: { type: 'array', items: { type: 'object', properties: { kind: { type: 'string' } } } },
          },
        },
        status: { type: 'object', properties: { phase: { type: 'string' } } },
      },
    },
  });
  const of = (step: ConversionStep, required?: readonly string[]) =>
    problemsOf(
      { versions: [{ name: 'v1', toHub: [step], fromHub: [] }] },
      definitionOf([version('v1', required), version('v2')]),
    );
  const at = 'InvalidExpression spec.versions[0].toHub[0]:';

  test.each<[string, ConversionStep, readonly string[], string]>([
    [
      'a guard without a guard of its parent',
      { set: { path: 'spec.host', when: 'has(object.status.phase)', expression: '"a"' } },
      ['spec'],
      'when: no such key: status; guard what can be absent: has(object.status) && …, or object.?status',
    ],
    [
      'an expression on an optional field',
      set('object.spec.host'),
      ['spec'],
      'no such key: host; limit the step to some objects, e.g. when: has(object.spec.host)',
    ],
    [
      'an expression on an element',
      { set: { path: 'spec.disks[*].kind', expression: 'item.kind + "x"' } },
      [],
      'no such key: kind; limit the step to some objects, e.g. when: has(item.kind)',
    ],
    [
      'a guard of a label',
      { default: { path: 'spec.host', when: '"a" in object.metadata.labels', value: 'a' } },
      ['spec'],
      'when: no such key: labels; guard what can be absent: has(object.metadata.labels) && …, or object.metadata.?labels',
    ],
  ])('%s is refused with the remedy', (_what, step, required, message) => {
    expect(of(step, required).filter((one) => one.startsWith('Invalid'))).toEqual([`${at} ${message}`]);
  });

  test.each<[string, ConversionStep]>([
    ['a required field', set('string(object.spec.disks.size())')],
    ['a field with a default', set('string(object.spec.size)')],
    ['a guarded field', set('object.status.phase', 'has(object.status) && has(object.status.phase)')],
    ['an optional field', set('object.?status.?phase')],
    ['a map of the values that a pattern allows', set('{"a": "x", "b": "y"}[object.spec.zone]')],
    [
      'a condition on a value that an enum allows',
      set('object.spec.tier in ["iron", "gold"] ? "x" : object.spec.host'),
    ],
  ])('%s is accepted', (_what, step) => {
    expect(of(step, ['spec']).filter((one) => one.startsWith('Invalid'))).toEqual([]);
  });

  test('do not end a policy that is in force', () => {
    const definition = definitionOf([version('v1'), version('v2')]);
    const step = { set: { path: 'spec.host', expression: 'object.status.phase' } };
    const spec = { versions: [{ name: 'v1', toHub: [step], fromHub: [] }] };
    expect(compile(spec, definition)).toMatchObject({
      usable: { name: 'servers' },
      problems: [{ reason: 'InvalidExpression' }],
    });
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

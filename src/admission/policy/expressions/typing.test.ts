import { expect, test } from 'vitest';

import { celToJson, CelError, compileCel } from '../../../cel.ts';
import { compileSpec, createRequest, GROUP } from '../../../../test/support/admission/policy.ts';
import { createSeeded, faultSeed, type Seeded } from '../../../../test/support/seeded.ts';
import { fieldName } from '../../../cel/types/schema-type.ts';
import type { JsonObject, JsonValue } from '../../../json/json.ts';
import { describeProblems } from '../problem.ts';
import { createExpressionCompiler } from './compile-expression.ts';

const specSchema = (properties: JsonObject): JsonObject => ({
  type: 'object',
  properties: { spec: { type: 'object', properties } },
});
const AWKWARD = specSchema({
  'a-b': { type: 'string' },
  in: { type: 'integer' },
  x__dash__y: { type: 'string' },
  ratio: { type: 'number' },
  ratios: { type: 'array', items: { type: 'number' } },
});

const problemsOf = (spec: Parameters<typeof compileSpec>[0], schemas: readonly JsonObject[]) => {
  const result = compileSpec(spec, 'p', { schemas });
  return result.kind === 'rejected' ? describeProblems(result.problems) : '';
};
const rule = (expression: string) => ({ validate: { rules: [{ expression }] } });
const ESCAPED = 'object.spec.a__dash__b == "x"';
const ADVICE = 'write object.spec["a-b"]';

test.each([
  ['a rule', rule(ESCAPED), ADVICE],
  ['has()', rule('has(object.spec.a__dash__b)'), 'write "a-b" in object.spec'],
  ['an optional field', rule('object.spec.?a__dash__b == optional.none()'), 'write object.spec[?"a-b"]'],
  ['a reserved word', rule('object.spec.__in__ == 1'), 'write object.spec["in"]'],
  ['metadata', rule('oldObject.metadata.__namespace__ == "x"'), 'write oldObject.metadata["namespace"]'],
  ['a map', rule('object.metadata.labels.a__dash__b == "x"'), 'write object.metadata.labels["a-b"]'],
  ['a variable', { variables: [{ name: 'v', expression: ESCAPED }] }, ADVICE],
  [
    'a message',
    { validate: { rules: [{ expression: 'true', messageExpression: 'object.spec.a__dash__b' }] } },
    ADVICE,
  ],
  ['a default', { defaults: [{ path: 'spec.x', expression: 'object.spec.a__dash__b' }] }, ADVICE],
  ['a mutation', { mutations: [{ name: 'm', condition: ESCAPED, expression: '{}' }] }, ADVICE],
  [
    'a match condition',
    {
      match: {
        apiGroups: [GROUP],
        resources: ['servers'],
        matchConditions: [{ name: 'c', expression: ESCAPED }],
      },
    },
    ADVICE,
  ],
] as const)(
  'an escaped field in %s is refused, and the message says how to write it',
  (_what, spec, advice) => {
    expect(problemsOf(spec, [AWKWARD])).toContain(advice);
    expect(problemsOf(spec, [])).toContain(advice); // without a schema too
  },
);

test('a field whose own name looks escaped can be read', () => {
  expect(problemsOf(rule('object.spec.x__dash__y == "x"'), [AWKWARD])).toBe('');
  expect(
    problemsOf(
      { ...rule('variables.a__dash__b'), variables: [{ name: 'a__dash__b', expression: 'true' }] },
      [],
    ),
  ).toBe('');
});

test('arithmetic with a number of the schema must convert it, because 3 in JSON is an int', () => {
  const advice = 'write double(…)';
  expect(problemsOf(rule('object.spec.ratio * 1.5 < 3.0'), [AWKWARD])).toContain(advice);
  expect(problemsOf(rule('object.spec.ratios.sum() < 3.0'), [AWKWARD])).toContain(advice);
  expect(problemsOf(rule('object.spec.ratios.all(one, one + 1.0 < 3.0)'), [AWKWARD])).toContain(advice);
  expect(problemsOf(rule('double(object.spec.ratio) * 1.5 < 3.0 && object.spec.ratio < 2'), [AWKWARD])).toBe(
    '',
  );
});

const deleted = (expression: string, ...others: ('CREATE' | 'UPDATE')[]) => ({
  ...rule(expression),
  match: { apiGroups: [GROUP], resources: ['servers'], operations: ['DELETE' as const, ...others] },
});

test.each([
  ['DELETE alone', deleted('params.x || object.spec.a == 1'), 'is null on DELETE: write oldObject'],
  ['another operation', deleted('!has(object.spec.a)', 'UPDATE'), "or request.operation == 'DELETE' || …"],
])('a rule for %s that fails on every DELETE is refused', (_what, spec, advice) => {
  expect(
    problemsOf({ params: { apiGroup: GROUP, resource: 'datacenters', name: 'x' }, ...spec }, []),
  ).toContain(advice);
});

test('a rule that a DELETE can satisfy is accepted', () => {
  for (const text of [
    'object == null || object.spec.a == 1',
    'object.?spec.?a != optional.of(1)',
    'request.operation == "DELETE" || object.spec.a == 1',
  ])
    expect(problemsOf(deleted(text, 'UPDATE'), [])).toBe('');
  expect(problemsOf(deleted('oldObject.spec.a == 1'), [])).toBe('');
});

const NAMES = ['a', 'a-b', 'a.b', 'a/b', 'a__b', 'x__dash__y', 'in', 'namespace', 'type'];

const TYPES: readonly (readonly [JsonObject, (chance: Seeded) => JsonValue])[] = [
  [{ type: 'string' }, (chance) => chance.pick(['', 'x', '3'])],
  [{ type: 'integer' }, (chance) => chance.pick([0, 1, -3])],
  [{ type: 'number' }, (chance) => chance.pick([0, 1.5, 3])],
  [{ type: 'boolean' }, (chance) => chance.chance(0.5)],
  [{ type: 'array', items: { type: 'number' } }, (chance) => chance.pick([[], [1, 2.5], [2]])],
  [{ type: 'array', items: { type: 'string' } }, (chance) => chance.pick([[], ['x'], ['y', 'x']])],
  [{ type: 'object', additionalProperties: { type: 'number' } }, (chance) => chance.pick([{}, { a: 1 }])],
  [{ type: 'string', nullable: true }, (chance) => chance.pick([null, 'x'])],
  [{ 'x-kubernetes-int-or-string': true }, (chance) => chance.pick([1, '1'])],
];

function fieldsFrom(chance: Seeded) {
  const chosen = chance.shuffle(NAMES).slice(0, 5);
  const typed = chosen.map((name) => [name, chance.pick(TYPES)] as const);
  const absent = chance.pick(chosen);
  const spec = typed.filter(([name]) => name !== absent).map(([name, [, value]]) => [name, value(chance)]);
  return {
    names: chosen,
    schema: specSchema(Object.fromEntries(typed.map(([name, [schema]]) => [name, schema]))),
    object: createRequest(Object.fromEntries(spec) as JsonObject).object,
  };
}

function operandFrom(chance: Seeded, names: readonly string[]): string {
  const name = chance.pick(names);
  const key = JSON.stringify(name);
  const field = chance.chance(0.5) ? fieldName(name) : name;
  const isWord = /^\w+$/.test(field) && field !== 'in';
  const paths = [`object.spec[${key}]`, `object.spec[?${key}].orValue(${chance.pick(['0', '1.5', '"x"'])})`];
  return chance.pick(isWord ? [...paths, `object.spec.${field}`, `object.spec.?${field}.orValue(1)`] : paths);
}

function expressionFrom(chance: Seeded, names: readonly string[]): string {
  const [left, right] = [operandFrom(chance, names), operandFrom(chance, names)];
  const literal = chance.pick(['1', '1.5', '"x"', 'true']);
  const operator = chance.pick(['+', '-', '*', '/', '%', '<', '==', 'in']);
  const field = fieldName(chance.pick(names));
  return chance.pick([
    left,
    `${left} ${operator} ${chance.pick([right, literal])}`,
    `has(object.spec.${field})`,
    `${left}.sum()`,
    `${left}.map(x, x + ${literal})`,
    `${left}.exists(x, x == ${literal})`,
    `${left}.a * ${literal}`,
    `(${left} == ${right} ? ${left} : ${right}) + ${literal}`,
    // cel-go relies on the type of the alternative, so that double() refuses an int here.
    ...(left.includes('[?') ? [] : [`double(${left}) * 1.5`]),
  ]);
}

/** The value, or why there is none. */
function outcome(evaluate: () => unknown): unknown {
  try {
    return celToJson(evaluate());
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    return error.message;
  }
}

test('an accepted expression evaluates as it does with the types of the schema', () => {
  const seed = faultSeed();
  const chance = createSeeded(seed);
  const seen = { compared: 0, refused: 0 };
  for (let count = 0; count < 5000; count += 1) {
    const { names, schema, object } = fieldsFrom(chance);
    const expression = expressionFrom(chance, names);
    const { compile } = createExpressionCompiler({}, [schema], () => undefined);
    const accepted = compile(expression, 'spec', 'any');
    seen[accepted === undefined ? 'refused' : 'compared'] += 1;
    let typed;
    try {
      typed = compileCel(expression, { object: { schema } });
    } catch {
      continue; // without the types, more is allowed: a number equals an int
    }
    if (accepted === undefined) continue;
    const found = { seed, expression, object, is: outcome(() => accepted.program.evaluate({ object })) };
    expect(found).toEqual({ ...found, is: outcome(() => typed.evaluate({ object })) });
  }
  expect(seen.compared).toBeGreaterThan(1000);
  expect(seen.refused).toBeGreaterThan(1000);
});

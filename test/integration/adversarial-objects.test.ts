/** Hostile objects that users can make the API server send: none bypasses a check of a policy or takes long. */
import { describe, expect, test } from 'vitest';

import { parseJson } from '../../src/json/json.ts';
import { sharedServer } from '../support/hostile-clients.ts';
import { judgeAdmission, patched } from '../support/review-checker.ts';
import { post, reviewOf, serverObject } from '../support/webhook-client.ts';
import { policy } from '../support/webhook-server.ts';

const MIB = 1024 * 1024;

/** A policy on Servers that uses every check. It makes even slots odd; a second call changes nothing more. */
const everything = policy('everything', {
  match: { apiGroups: ['infra.example.com'], resources: ['servers'] },
  defaults: [{ path: 'spec.tier', value: 'standard' }],
  mutations: [
    {
      name: 'odd-slots',
      condition: 'has(object.spec.slots)',
      expression: `{'spec': {'slots': object.spec.slots.map(slot, slot % 2 == 0 ? slot + 1 : slot)}}`,
    },
  ],
  validate: {
    schema: { properties: { spec: { properties: { note: { type: 'string', pattern: '^(a+)+$' } } } } },
    immutable: ['spec.payload', 'metadata.labels'],
    references: [
      {
        name: 'datacenter',
        path: 'spec.datacenter',
        target: { apiGroup: 'infra.example.com', resource: 'datacenters' },
      },
    ],
    rules: [
      { expression: "!has(object.spec.code) || object.spec.code.matches('^(a|aa)+$')", message: 'no code' },
      { expression: '!has(object.spec.serial) || object.spec.serial != 9007199254740993', message: 'taken' },
    ],
  },
});

const server = sharedServer(everything);

async function ask(webhook: 'mutate' | 'validate', body: string) {
  const answer = await post(server, `/${webhook}/${everything.entryId}?timeout=10s`, body);
  expect(answer.status).toBe(200);
  return judgeAdmission(webhook, body, answer.body);
}

/** A review of an update of a Server; the arguments are the raw JSON of the new and the old spec. */
function reviewOfSpec(is: string, was?: string): string {
  const object = (spec: string) =>
    JSON.stringify(serverObject()).replace(/"spec":\{[^}]*\}/, `"spec":${spec}`);
  return reviewOf({
    operation: was === undefined ? 'CREATE' : 'UPDATE',
    object: 'IS',
    oldObject: was === undefined ? null : 'WAS',
  })
    .replace('"IS"', object(is))
    .replace('"WAS"', object(was ?? ''));
}

const spec = (more: string) => `{"datacenter":"fra1"${more}}`;

test('an update of a 3 MiB object gets the correct verdict and patch', async () => {
  const big = (letter: string) => spec(`,"payload":"${letter.repeat(3 * MIB)}"`);
  expect((await ask('validate', reviewOfSpec(big('a'), big('a')))).allowed).toBe(true);
  expect((await ask('validate', reviewOfSpec(big('a'), big('b')))).message).toContain('spec.payload');
  const { patch } = await ask('mutate', reviewOfSpec(big('a'), big('a')));
  expect(patch).toEqual([{ op: 'add', path: '/spec/tier', value: 'standard' }]);
});

test('a mutation of half of a 2,000-element array gives a short patch', async () => {
  const slots = Array.from({ length: 2_000 }, (_, index) => index);
  const body = reviewOfSpec(spec(`,"slots":${JSON.stringify(slots)}`));
  const { patch } = await ask('mutate', body);
  expect(patch.length).toBeLessThan(300); // one operation on the list rather than a thousand
  const object = serverObject({ slots });
  expect(patched(object, patch)).toEqual(
    serverObject({ slots: slots.map((slot) => slot | 1), tier: 'standard' }),
  );
});

describe('nesting', () => {
  const deep = (levels: number, leaf = '1') => '['.repeat(levels) + leaf + ']'.repeat(levels);
  const objects = (levels: number) => '{"a":'.repeat(levels) + '1' + '}'.repeat(levels);

  test('of depth 10,000 is judged at every level', async () => {
    for (const nested of [deep(9_990), objects(9_990)]) {
      const body = reviewOfSpec(spec(`,"payload":${nested}`), spec(`,"payload":${nested}`));
      expect((await ask('validate', body)).allowed).toBe(true);
      expect((await ask('mutate', body)).patch).toHaveLength(1);
    }
    const changed = reviewOfSpec(spec(`,"payload":${deep(9_990)}`), spec(`,"payload":${deep(9_990, '2')}`));
    expect((await ask('validate', changed)).allowed).toBe(false);
  });

  test.each([
    ['lists', '['.repeat(4_000_000) + ']'.repeat(4_000_000)],
    ['objects', '{"":'.repeat(1_600_000) + '1' + '}'.repeat(1_600_000)],
    ['unclosed lists', '['.repeat(8_000_000)],
  ])('in 8 MB of brackets is refused (%s)', async (_what, nested) => {
    for (const body of [nested, `{"request":${nested}}`]) {
      const { status, body: text } = await post(server, `/validate/${everything.entryId}`, body);
      expect(status).toBe(400);
      expect(text).toContain('nested more than 10,000 levels deep');
    }
  });
});

describe('keys', () => {
  // A long integer selects the second of our two parsers.
  const integers = ['1', '9007199254740993'];
  const names = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty'];

  test.each(names.flatMap((name) => integers.map((integer) => [name, integer])))(
    '%s is an ordinary key (next to the integer %s)',
    async (key, integer) => {
      const payload = (value: string) => spec(`,"payload":{"${key}":${value},"n":${integer}}`);
      const same = reviewOfSpec(payload('{"tier":"x"}'), payload('{"tier":"x"}'));
      expect((await ask('validate', same)).allowed).toBe(true);
      expect((await ask('mutate', same)).patch).toEqual([
        { op: 'add', path: '/spec/tier', value: 'standard' },
      ]);
      const changed = reviewOfSpec(payload('{"tier":"x"}'), payload('{"tier":"y"}'));
      expect((await ask('validate', changed)).message).toContain('spec.payload');
      expect(({} as Record<string, unknown>).tier).toBeUndefined();
    },
  );

  test('__proto__ adds no inherited field to an object', async () => {
    const { patch } = await ask('mutate', reviewOfSpec(spec(',"__proto__":{"tier":"gold","slots":[2]}')));
    expect(patch).toEqual([{ op: 'add', path: '/spec/tier', value: 'standard' }]);
  });

  test('that occur twice have the last value, the way the API server reads them', async () => {
    const twice = (first: string, second: string) => `{"datacenter":"${first}","datacenter":"${second}"}`;
    expect((await ask('validate', reviewOfSpec(twice('nowhere', 'fra1')))).allowed).toBe(true);
    expect((await ask('validate', reviewOfSpec(twice('fra1', 'nowhere')))).allowed).toBe(false);
  });
});

describe('int64', () => {
  test('values are compared exactly, including by expressions', async () => {
    const serial = (value: string) => spec(`,"serial":${value}`);
    expect((await ask('validate', reviewOfSpec(serial('9007199254740993')))).message).toContain('taken');
    expect((await ask('validate', reviewOfSpec(serial('9007199254740992')))).allowed).toBe(true);
    const payload = (value: string) => spec(`,"payload":${value}`);
    const changed = reviewOfSpec(payload('9223372036854775807'), payload('9223372036854775806'));
    expect((await ask('validate', changed)).allowed).toBe(false);
  });

  test('values stay exact in mutations and patches', async () => {
    const body = reviewOfSpec(spec(',"slots":[9007199254740994,9223372036854775806]'));
    const answer = await post(server, `/mutate/${everything.entryId}`, body);
    const { response } = JSON.parse(answer.body) as { response: { patch: string } };
    const patch = Buffer.from(response.patch, 'base64').toString();
    expect(parseJson(patch)).toEqual([
      { op: 'replace', path: '/spec/slots/0', value: 9007199254740995n },
      { op: 'replace', path: '/spec/slots/1', value: 9223372036854775807n },
      { op: 'add', path: '/spec/tier', value: 'standard' },
    ]);
  });
});

describe('ReDoS', () => {
  const hostile = `${'a'.repeat(50_000)}!`;

  test('is impossible with a pattern of a schema', async () => {
    const verdict = await ask('validate', reviewOfSpec(spec(`,"note":"${hostile}"`)));
    expect(verdict.message).toContain('spec.note');
    expect((await ask('validate', reviewOfSpec(spec(`,"note":"${hostile.slice(0, -1)}"`)))).allowed).toBe(
      true,
    );
  });

  test('is impossible with a pattern of an expression', async () => {
    const verdict = await ask('validate', reviewOfSpec(spec(`,"code":"${hostile}"`)));
    expect(verdict.message).toContain('no code');
  });
});

import { describe, expect, test } from 'vitest';

import { sign } from '../../../test/support/quiesce-world.ts';
import { tryParsePath } from '../../json/field-path.ts';
import type { JsonObject, JsonValue } from '../../json/json.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { pausedWrite, planQuiesce, QUIESCE_ANNOTATION } from './plan.ts';

const KIND = { group: 'example.com', resource: 'parts' };
const metadata = { namespace: 'ops', name: 'a' };
const at = (path: string, value: JsonValue) => [
  { path, keys: tryParsePath(path)?.concrete?.keys ?? [], value, pauses: true },
];
const POLICIES = at('spec.managementPolicies', ['Observe']);
const of = (spec: JsonObject, more: JsonObject = {}) =>
  ({ metadata: { ...metadata, ...more }, spec }) as unknown as KubeObject;
const pause = (object: KubeObject, rules = POLICIES) => {
  const plan = planQuiesce(KIND, object, rules, sign);
  return plan.kind === 'pause' ? (plan.after as unknown as KubeObject) : undefined;
};
const undo = (object: KubeObject | undefined) => {
  const plan = object && planQuiesce(KIND, object, [], sign);
  return plan?.kind === 'undo' ? plan.after : undefined;
};
const write = (object: KubeObject, before?: KubeObject, rules = POLICIES) =>
  pausedWrite(KIND, { object, before }, rules, sign) as KubeObject | undefined;
const specOf = (object: unknown) => (object as { readonly spec?: JsonObject } | undefined)?.spec;

test.each<[what: string, rules: typeof POLICIES, object: KubeObject]>([
  ['a list', POLICIES, of({ managementPolicies: ['Create', { a: [1] }] })],
  ['an absent list', POLICIES, of({})],
  ['parents that were absent', at('spec.a.b.paused', true), of({ size: 1 })],
  ['parents that were empty', at('spec.a.b.paused', true), of({ a: { b: {} } })],
  ['an annotation', at('metadata.annotations["a.b/c"]', 'x'), of({}, { annotations: { 'a.b/c': 'y' } })],
  [
    'an annotation among others',
    at('metadata.annotations["a.b/c"]', 'x'),
    of({}, { annotations: { d: 'e' } }),
  ],
  ['an annotation without any', at('metadata.annotations["a.b/c"]', 'x'), of({})],
  ['a label', at('metadata.labels["a.b/c"]', 'x'), of({}, { labels: { d: 'e' } })],
])('the undo restores exactly what was there: %s', (_what, rules, object) => {
  const paused = pause(object, rules);
  expect(paused).not.toEqual(object);
  expect(undo(paused)).toEqual(object);
});

test('parents that others have filled stay', () => {
  const paused = pause(of({}), at('spec.a.paused', true));
  const filled = { ...paused, spec: { a: { paused: true, other: 1 } } } as KubeObject;
  expect(specOf(undo(filled))).toEqual({ a: { other: 1 } });
});

test('a record from before parents were recorded is still valid', () => {
  const text = pause(of({ managementPolicies: ['*'] }))?.metadata?.annotations?.[QUIESCE_ANNOTATION];
  expect(JSON.parse(text ?? '')).toEqual({
    path: 'spec.managementPolicies',
    set: ['Observe'],
    was: ['*'],
    times: 1,
    mac: sign('["example.com","parts","ops","a","spec.managementPolicies",["Observe"],[["*"]],1]'),
  });
});

test('a value that is too long to be recorded, or a parent that is no object, is left alone', () => {
  const long = of({ managementPolicies: ['x'.repeat(40_000)] });
  expect(planQuiesce(KIND, long, POLICIES, sign)).toEqual({ kind: 'none', state: 'too-long' });
  expect(pause(of({ a: 'text' }), at('spec.a.paused', true))).toBeUndefined();
});

describe('a write of a restorer', () => {
  const paused = pause(of({ managementPolicies: ['*'] })) ?? of({});
  const { annotations, labels } = paused.metadata ?? {};
  const marked = (value: readonly string[]) =>
    of({ managementPolicies: value }, { annotations, labels } as JsonObject);

  const text = annotations?.[QUIESCE_ANNOTATION]?.replace('"mac":"', '"mac":"x') ?? '';
  const foreign = of({ managementPolicies: ['Observe'] }, { annotations: { [QUIESCE_ANNOTATION]: text } });

  test('that creates an object is paused, and a second call changes nothing', () => {
    expect(write(of({ managementPolicies: ['*'] }))).toEqual(paused);
    expect(write(paused)).toBeUndefined();
  });

  test.each<[what: string, object: KubeObject, restored: readonly string[]]>([
    ['keeps the record', marked(['Delete']), ['Delete']],
    ['removes the record', of({ managementPolicies: ['Delete'] }), ['Delete']],
  ])('that sets another value and %s stays paused, and its value is restored', (_what, object, restored) => {
    for (const before of [paused, undefined]) {
      const after = write(object, before);
      expect(specOf(after)).toEqual({ managementPolicies: ['Observe'] });
      expect(specOf(undo(after))).toEqual({ managementPolicies: restored });
    }
  });

  test.each<[what: string, object: KubeObject, before: KubeObject | undefined]>([
    ['leaves the value', paused, paused],
    ['has the record of another installation', foreign, undefined],
    ['wants the paused value itself', of({ managementPolicies: ['Observe'] }), paused],
    ['does not touch a value that another writer has set', marked(['Create']), marked(['Create'])],
  ])('that %s is not changed', (_what, object, before) => {
    expect(write(object, before)).toBeUndefined();
  });
});

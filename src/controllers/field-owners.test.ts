import { expect, test } from 'vitest';
import { differingFields, lastWriter, showFields } from './field-owners.ts';

const entry = (manager: string, fieldsV1: object, time = '2026-01-01T00:00:00Z') => ({
  manager,
  operation: 'Update',
  time,
  fieldsV1,
});
const replicas = { 'f:spec': { 'f:replicas': {} } };

test.each<[string, object, object, readonly string[]]>([
  ['another value', { spec: { replicas: 2, a: 1 } }, { spec: { replicas: 3, a: 1 } }, ['spec.replicas']],
  ['a missing field', {}, { spec: { a: 1 } }, ['spec']],
  ['an item', { a: [{ b: 1 }, { b: 2 }] }, { a: [{ b: 1 }, { b: 3 }] }, ['a[1].b']],
  ['a list of another length', { a: [1] }, { a: [1, 2] }, ['a']],
  ['more than three', {}, { a: 1, b: 1, c: 1, d: 1 }, ['a', 'b', 'c']],
])('the fields that differ: %s', (_what, found, wanted, fields) => {
  expect(showFields(differingFields(found, wanted))).toEqual(fields);
});

test.each<[string, readonly object[], string | undefined]>([
  ['our own', [entry('own', replicas)], undefined],
  ['of another field', [entry('hpa', { 'f:spec': {} })], undefined],
  [
    'the latest',
    [entry('a', replicas), entry('b', replicas, '2026-01-02T00:00:00Z')],
    'b (Update at 2026-01-02T00:00:00Z)',
  ],
  ['that are damaged', [{ manager: 7, fieldsV1: 'x' }, {}], undefined],
])('the other writer among managers: %s', (_what, managedFields, writer) => {
  const object = { metadata: { name: 'a', managedFields } } as never;
  expect(lastWriter(object, [['spec', 'replicas']], 'own')).toBe(writer);
});

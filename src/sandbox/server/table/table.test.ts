import { expect, test } from 'vitest';
import type { ApiObject } from '../../machinery/api-object.ts';
import type { PrinterColumn } from '../../machinery/resource-type.ts';
import { toPartialMetadata, toPartialMetadataList } from './partial-metadata.ts';
import { includeObjectOf, toTable, type TableOptions, cellText } from './table.ts';

const now = new Date('2026-01-06T00:00:00Z');

const db: ApiObject = {
  apiVersion: 'infra.example.com/v1',
  kind: 'Server',
  metadata: { name: 'db', resourceVersion: '7', creationTimestamp: '2026-01-01T00:00:00Z' },
  spec: { size: 3, share: 2.5, on: true, text: 'x', nothing: null, list: ['first', 'second'] },
};

const ask: TableOptions = {
  type: { columns: [], custom: true },
  objects: [db],
  listMeta: { resourceVersion: '9' },
  includeObject: 'Metadata',
  withColumns: true,
  version: 'v1',
  now,
};

const cells = (columns: readonly PrinterColumn[], custom = true, object = db) =>
  toTable({ ...ask, type: { columns, custom }, objects: [object] }).rows;

const cell = (column: Omit<PrinterColumn, 'name'>, custom = true) =>
  (cells([{ name: 'Column', ...column }], custom) as { cells: unknown[] }[])[0]?.cells[1];

test.each([
  ['integer', '.spec.size', 3],
  ['integer', '.spec.share', 2],
  ['integer', '.spec.text', null],
  ['integer', '.spec.nothing', null],
  ['number', '.spec.share', 2.5],
  ['number', '.spec.on', null],
  ['boolean', '.spec.on', true],
  ['boolean', '.spec.text', null],
  ['string', '.spec.size', '3'],
  ['string', '.spec.nothing', '<no value>'],
  ['string', '.spec.missing', null],
  ['string', '.spec.list[*]', 'first'],
  ['string', '.spec..text', null],
  ['date', '.metadata.creationTimestamp', '5d'],
  ['date', '.spec.text', '<invalid>'],
  ['date', '.spec.size', null],
  ['date', '.metadata.deletionTimestamp', null],
] as const)('a %s column of a custom resource shows %s as %j', (type, value, shown) => {
  expect(cell({ type, value })).toBe(shown);
});

test('a built-in kind computes its cells, and an unknown age is shown as a word', () => {
  const builtIn = false;
  expect(cell({ type: 'string', value: (object) => object.kind }, builtIn)).toBe('Server');
  expect(cell({ type: 'string', value: () => null }, builtIn)).toBeNull();
  expect(cell({ type: 'date', value: () => '24h' }, builtIn)).toBe('24h');
  expect(cell({ type: 'date', value: '.metadata.deletionTimestamp' }, builtIn)).toBe('<unknown>');
});

test('the name comes first, and every column has a full definition', () => {
  const columns: readonly PrinterColumn[] = [
    { name: 'Size', type: 'integer', value: '.spec.size', priority: 1, format: 'int32' },
    { name: 'Age', type: 'date', description: 'How old it is.', value: '.metadata.creationTimestamp' },
  ];
  const { columnDefinitions } = toTable({ ...ask, type: { columns, custom: true } });
  expect(columnDefinitions).toEqual([
    { name: 'Name', type: 'string', format: 'name', description: expect.any(String) as string, priority: 0 },
    {
      name: 'Size',
      type: 'integer',
      format: 'int32',
      description: 'Custom resource definition column (in JSONPath format): .spec.size',
      priority: 1,
    },
    { name: 'Age', type: 'date', format: '', description: 'How old it is.', priority: 0 },
  ]);
});

test('a list has the metadata of the list', () => {
  const listMeta = { resourceVersion: '9', continue: 'token', remainingItemCount: 3 };
  expect(toTable({ ...ask, listMeta })).toMatchObject({
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata: listMeta,
  });
});

test('a watch event has the resourceVersion of its object, and columns only in the first event', () => {
  expect(toTable({ ...ask, listMeta: undefined, withColumns: false })).toMatchObject({
    metadata: { resourceVersion: '7' },
    columnDefinitions: null,
    rows: [{ cells: ['db'] }],
  });
});

test('an empty list is a table without rows', () => {
  expect(toTable({ ...ask, objects: [] }).rows).toEqual([]);
});

test.each([
  ['Metadata', { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1beta1', metadata: db.metadata }],
  ['None', null],
  ['Object', db],
] as const)('rows contain what includeObject=%s requests', (includeObject, object) => {
  const table = toTable({ ...ask, includeObject, version: 'v1beta1' });
  expect(table.rows).toEqual([{ cells: ['db'], object }]);
});

test('includeObject defaults to Metadata, and unknown values are rejected', () => {
  expect(includeObjectOf(null)).toBe('Metadata');
  expect(includeObjectOf('')).toBe('Metadata');
  expect(includeObjectOf('None')).toBe('None');
  expect(() => includeObjectOf('Foo')).toThrow(
    `includeObject: Invalid value: "Foo": must be 'Metadata', 'Object', 'None', or empty`,
  );
});

test('partial metadata contains all metadata and nothing else', () => {
  const partial = { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: db.metadata };
  expect(toPartialMetadata(db)).toEqual(partial);
  expect(toPartialMetadataList([db], { resourceVersion: '9' })).toEqual({
    kind: 'PartialObjectMetadataList',
    apiVersion: 'meta.k8s.io/v1',
    metadata: { resourceVersion: '9' },
    items: [partial],
  });
});

// As kube-apiserver printed these values in a string column.
test.each([
  ['text', 'text'],
  ['<a&b>', '<a&b>'],
  [7, '7'],
  [1234567890123, '1234567890123'],
  [9007199254740993n, '9007199254740993'],
  [2.75, '2.75'],
  [12345678.5, '1.23456785e+07'],
  [0.00001, '1e-05'],
  [true, 'true'],
  [null, '<no value>'],
  [{ z: 1, a: [true, null, 'x'] }, '{"a":[true,null,"x"],"z":1}'],
  [{ a: '<a&b>' }, String.raw`{"a":"\u003ca\u0026b\u003e"}`],
])('%o is printed as %s', (value, text) => {
  expect(cellText(value)).toBe(text);
});

import { expect, test } from 'vitest';

import { compileJsonPath } from './json-path.ts';

const object = {
  metadata: { annotations: { 'a.b/c': 'annotated', constructor: 'own' } },
  spec: {
    text: 'text',
    nothing: null,
    list: ['l0', 'l1'],
    map: { z: 1, a: 2 },
    conditions: [
      { type: 'Ready', status: 'True', n: 1, f: 1 },
      { type: 'Other)]', status: 'False', n: 2, x: 1, f: 1.5 },
    ],
  },
};

// The answers match a kube-apiserver's, which shows the first value in a column.
test.each([
  ['.spec.text', ['text']],
  ['.spec.nothing', [null]],
  ['.spec.missing', []],
  ['.spec.toString', []],
  ['.spec.list', [['l0', 'l1']]],
  ['.spec.list[0]', ['l0']],
  ['.spec.list[-1]', ['l1']],
  ['.spec.list[0:2]', ['l0', 'l1']],
  ['.spec.list[*]', ['l0', 'l1']],
  ['.spec.map.*', [1, 2]],
  ['.spec.conditions[*].type', ['Ready', 'Other)]']],
  ['.spec.conditions[?(@.type=="Ready")].status', ['True']],
  ['.spec.conditions[?(@.type=="Other)]")].status', ['False']],
  ['.spec.conditions[?(@.type!="Ready")].status', ['False']],
  ['.spec.conditions[?(@.x)].status', ['False']],
  ['.spec.conditions[?(@.n>1)].status', ['False']],
  ['.spec.conditions[?(@.x<@.n)].status', ['False']],
  [String.raw`.metadata.annotations.a\.b/c`, ['annotated']],
  [String.raw`.metadata.annotations['a\.b/c']`, ['annotated']],
  [".metadata.annotations['a.b/c']", []], // dots separate names even inside quotes
  ['.metadata.annotations.constructor', ['own']],
])('%s leads to %j', (path, found) => {
  expect(compileJsonPath(path)(object)).toEqual(found);
});

import { describe, expect, test } from 'vitest';

import { compileCel, MUTATION_MESSAGES } from '../../cel.ts';
import type { JsonObject } from '../../json/json.ts';
import { ofJson, toJson } from '../api-object.ts';
import { CONFIG_MAP } from '../kinds/core/config-map.ts';
import { POD } from '../kinds/workloads/pod.ts';
import { applyMutation } from './apply-mutation.ts';

type PatchType = 'ApplyConfiguration' | 'JSONPatch';

const BOX: JsonObject = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'box' }, data: { a: '1' } };

function apply(patchType: PatchType, text: string, object: JsonObject = BOX): JsonObject {
  const program = compileCel(text, [], { messages: MUTATION_MESSAGES });
  const type = object.kind === 'Pod' ? POD : CONFIG_MAP;
  const mutation = { patchType, expression: { text, path: '', program } };
  return toJson(applyMutation(mutation, program.run({}), { object: ofJson(object), type, isView: false }));
}

describe('an apply configuration', () => {
  test('is merged into the object', () => {
    expect(apply('ApplyConfiguration', "Object{data: {'b': '2'}}").data).toEqual({ a: '1', b: '2' });
  });

  test.each([
    [
      'Object{spec: Object.spec{tolerations: []}}',
      'may not mutate atomic arrays, maps or structs: .spec.tolerations',
    ],
    ['Object{spec: Object.data{}}', 'unexpected type name "Object.data", expected "Object.spec"'],
    ['Object{nope: 1}', '.nope: field not declared in schema'],
  ])('%s is refused', (text, message) => {
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: {} };
    expect(() => apply('ApplyConfiguration', text, pod)).toThrow(message);
  });

  test('does not change an object whose kind has no type, such as Scale', () => {
    const program = compileCel('Object{}', [], { messages: MUTATION_MESSAGES });
    const mutation = {
      patchType: 'ApplyConfiguration',
      expression: { text: '', path: '', program },
    } as const;
    const scale = ofJson({ apiVersion: 'autoscaling/v1', kind: 'Scale', metadata: { name: 'x' } });
    expect(() =>
      applyMutation(mutation, program.run({}), { object: scale, type: POD, isView: true }),
    ).toThrow('no corresponding type for autoscaling/v1, Kind=Scale');
  });
});

describe('a JSON patch', () => {
  test.each([
    ["[JSONPatch{op: 'add', path: '/data/b', value: '2'}]", { a: '1', b: '2' }],
    ["[JSONPatch{op: 'replace', path: '/data/b', value: '2'}]", { a: '1', b: '2' }],
    ["[JSONPatch{op: 'remove', path: '/data/a'}]", {}],
    ['[]', { a: '1' }],
    // A failed test skips the whole patch.
    [
      "[JSONPatch{op: 'add', path: '/data/b', value: '2'}, JSONPatch{op: 'test', path: '/data/a', value: '2'}]",
      { a: '1' },
    ],
    [
      "[JSONPatch{op: 'test', path: '/data/b', value: null}, JSONPatch{op: 'remove', path: '/data/a'}]",
      { a: '1' },
    ],
  ])('%s', (text, data) => {
    expect(apply('JSONPatch', text).data).toEqual(data);
  });

  test.each([
    ["[JSONPatch{op: 'add', path: '/x/b', value: '2'}]", 'JSON Patch: add operation does not apply'],
    ["[JSONPatch{op: 'remove', path: '/data/b'}]", "JSON Patch: error in remove for path: '/data/b'"],
    ["[JSONPatch{op: 'jump', path: '/data/b'}]", 'JSON Patch: Unexpected kind: jump'],
    ['[JSONPatch{}]', 'JSON Patch: Unexpected kind: '],
  ])('%s is an error', (text, message) => {
    expect(() => apply('JSONPatch', text)).toThrow(message);
  });
});

/** Patches that users send to the sandbox. */
import fc from 'fast-check';

import { toJsonText } from '../../../src/json/json-text.ts';
import type { JsonObject, JsonValue } from '../../../src/json/json.ts';
import { ApiFailure } from '../../../src/machinery/failure.ts';
import { applyJsonPatch } from '../../../src/machinery/patch/json-patch.ts';
import { applyMergePatch } from '../../../src/machinery/patch/merge-patch.ts';
import { applyStrategicPatch } from '../../../src/machinery/patch/strategic-merge-patch.ts';
import type { Schema } from '../../../src/machinery/schema/schema.ts';
import { anyJson, mutatedObject } from '../mutated.ts';
import { SERVER } from '../seeds.ts';
import { answerOf, fuzzTarget, hold } from '../target.ts';

const SCHEMA: Schema = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      properties: {
        disks: {
          type: 'array',
          'x-kubernetes-patch-strategy': 'merge',
          'x-kubernetes-patch-merge-key': 'name',
          items: { type: 'object', properties: { name: { type: 'string' } } },
        },
        slots: { type: 'array', 'x-kubernetes-patch-strategy': 'merge' },
        nested: { type: 'object', 'x-kubernetes-patch-strategy': 'retainKeys' },
      },
    },
  },
};

const STRATEGIC: JsonObject = {
  metadata: { labels: { team: null, new: 'x' } },
  spec: {
    $retainKeys: ['disks', 'slots'],
    '$setElementOrder/disks': [{ name: 'b' }, { name: 'a' }],
    '$deleteFromPrimitiveList/slots': [1],
    disks: [
      { name: 'a', class: 'hdd' },
      { $patch: 'delete', name: 'b' },
    ],
    slots: [9],
    nested: { $patch: 'replace', flag: true },
  },
};

const STEPS: readonly JsonObject[] = [
  { op: 'add', path: '/metadata/labels/x', value: 'y' },
  { op: 'remove', path: '/spec/disks/0' },
  { op: 'replace', path: '/spec/units', value: 3 },
  { op: 'move', from: '/spec/note', path: '/spec/code' },
  { op: 'copy', from: '/spec/disks', path: '/spec/nested/disks' },
  { op: 'test', path: '/spec/serial', value: 9007199254740993n },
  { op: 'add', path: '/spec/disks/-', value: { name: 'c' } },
];

const isFailure = (error: unknown) => error instanceof ApiFailure;

type Apply = (object: JsonObject, patch: JsonValue) => JsonObject;

const patchTarget = (name: string, apply: Apply, patches: fc.Arbitrary<JsonValue>) =>
  fuzzTarget(name, 45, fc.tuple(mutatedObject([SERVER]), patches), ([object, patch]) => {
    const before = toJsonText(object);
    const once = answerOf(() => toJsonText(apply(object, patch)), isFailure);
    hold(toJsonText(object) === before, () => 'the patch changed its input');
    hold(
      once === answerOf(() => toJsonText(apply(object, patch)), isFailure),
      () => 'the second application has another result',
    );
  });

export const sandboxPatches = [
  patchTarget(
    'sandbox: JSON patch',
    applyJsonPatch,
    fc.oneof(fc.array(mutatedObject(STEPS), { maxLength: 6 }), anyJson),
  ),
  patchTarget('sandbox: merge patch', applyMergePatch, fc.oneof(mutatedObject([SERVER, STRATEGIC]), anyJson)),
  patchTarget(
    'sandbox: strategic merge patch',
    (object, patch) => applyStrategicPatch(object, patch, SCHEMA),
    fc.oneof(mutatedObject([STRATEGIC]), anyJson),
  ),
];

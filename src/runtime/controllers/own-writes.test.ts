import { describe, expect, test } from 'vitest';

import type { KubeObject } from '../../json/kube-object.ts';
import { createOwnWrites } from './cluster-world.ts';

const kind = { group: '', version: 'v1', resource: 'configmaps', kind: 'ConfigMap', namespaced: true };
const at = (resourceVersion: string, metadata: object = {}): KubeObject => ({
  metadata: { name: 'a', labels: { 'gatehouse.dev/owner': 'm' }, resourceVersion, ...metadata },
});
const key = 'configmaps a';

test('a state that the controller wrote is its own, until it has changed', () => {
  const writes = createOwnWrites();
  writes.wrote(key, at('5'));
  expect(writes.causeOf(key, { kind: 'added', object: at('4') })).toBeUndefined();
  expect(writes.causeOf(key, { kind: 'added', object: at('5') })).toBe('patch');
  expect(writes.causeOf(key, { kind: 'deleted', object: at('5') })).toBeUndefined();
  writes.applied(key, { kind, object: at('6') });
  expect(writes.causeOf(key, { kind: 'changed', object: at('6'), previous: at('5') })).toBe('apply');
});

test('a write over a version that the pass has not seen is news', () => {
  const writes = createOwnWrites();
  writes.wrote(key, at('5'), false);
  expect(writes.causeOf(key, { kind: 'changed', object: at('5'), previous: at('3') })).toBeUndefined();
  expect(writes.isSeen(key, at('4'))).toBe(false);
});

test('what was applied is listed by its owner, until a store has it', () => {
  const writes = createOwnWrites();
  writes.applied(key, { kind, object: at('5') });
  expect(writes.unseen('m').map(([found]) => found)).toEqual([key]);
  expect(writes.unseen('other')).toEqual([]);
  expect(writes.isSeen(key, undefined)).toBe(false);
  expect(writes.isSeen(key, at('4'))).toBe(false);
  expect(writes.isSeen(key, at('5'))).toBe(true);
  expect(writes.unseen('m')).toEqual([]);
});

describe('memory is released', () => {
  test.each<[string, (writes: ReturnType<typeof createOwnWrites>) => void]>([
    ['of a write that a store has', (writes) => writes.saw(key, { kind: 'added', object: at('5') })],
    ['of an object that is gone', (writes) => writes.saw(key, { kind: 'deleted', object: at('5') })],
    [
      'of an object that the controller deleted',
      (writes) => {
        writes.removed(key);
        writes.saw(key, { kind: 'deleted', object: at('5') });
      },
    ],
  ])('%s', (_what, happen) => {
    const writes = createOwnWrites();
    writes.applied(key, { kind, object: at('5') });
    happen(writes);
    expect(writes.size()).toBe(0);
    expect(writes.unseen('m')).toEqual([]);
  });
});

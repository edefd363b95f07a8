/** From what an author's functions return to the keys of passes. */
import { expect, test } from 'vitest';

import { compileController } from './compile-controller.ts';
import { defineController } from './controller.ts';
import type { WatchSource } from './watch-map.ts';

const WATCH = { apiGroups: ['example.com'], apiVersions: ['v1'], resources: ['teams'] } as const;
const compiled = (watches: readonly WatchSource[]) =>
  compileController(
    'teams',
    defineController({ name: 'teams', watch: WATCH, watches, reconcile: () => undefined }),
  );

test.each([true, false, undefined, 'yes'])('only false drops a change: `when` returns %j', (value) => {
  const source = { kind: 'secrets', when: () => value as boolean, map: () => [] };
  expect(compiled([source]).watches[0]?.when?.({}, {})).toBe(value !== false);
});

test.each([[[true, false]], [[false, true]]])(
  'a kind is read with its content if one entry needs it: %j',
  (order) => {
    const watches = order.map((metadataOnly) => ({
      kind: { resource: 'secrets', metadataOnly },
      map: () => [],
    }));
    const { reads } = compiled(watches);
    expect(reads.filter(({ resource }) => resource === 'secrets')).toMatchObject([{ metadataOnly: false }]);
  },
);

test('the objects of the controller itself are read with their content', () => {
  const kind = { resource: 'teams', apiGroup: 'example.com', metadataOnly: true };
  const { reads } = compiled([{ kind, map: () => [] }]);
  expect(reads).toMatchObject([{ resource: 'teams', metadataOnly: false }]);
});

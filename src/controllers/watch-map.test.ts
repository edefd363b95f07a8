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

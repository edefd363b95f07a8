import { expect, test } from 'vitest';

import { createRootEvidence } from './target-store.ts';

const trusting = (...roots: readonly string[]) => ({ roots: new Set(roots), canVeto: false });
const names = (count: number) => Array.from({ length: count }, (_, n) => `ConfigMap prod/${n}`);

function evidence() {
  const calls = { count: 0 };
  return { calls, ...createRootEvidence(() => calls.count++) };
}

test('one rotation over 600 targets causes a change when the first one lags and when the last one has the root', () => {
  const { calls, set, without } = evidence();
  for (const name of names(600)) set(name, trusting('old'));
  expect(without('new').delaying).toHaveLength(600);
  for (const name of names(600)) {
    set(name, trusting()); // the watch knows the new version, but not its content
    set(name, trusting('old', 'new'));
  }
  expect(calls.count).toBe(1);
  expect(without('new').delaying).toEqual([]);
  set('ConfigMap prod/late', trusting('old'));
  expect(without('new').delaying).toEqual(['ConfigMap prod/late']);
  set('ConfigMap prod/late', undefined);
  expect(calls.count).toBe(3);
});

test('a change that no question concerns is no change', () => {
  const { calls, set } = evidence();
  for (const name of names(600)) set(name, trusting('old'));
  expect(calls.count).toBe(0);
});

test('T12: a target that another client keeps reverting loses its veto until it is settled', () => {
  const { calls, set, contend, without } = evidence();
  set('CustomResourceDefinition x', { roots: new Set(), canVeto: true });
  expect(without('new')).toEqual({ vetoing: ['CustomResourceDefinition x'], delaying: [] });
  contend('CustomResourceDefinition x', true);
  expect(without('new')).toEqual({ vetoing: [], delaying: ['CustomResourceDefinition x'] });
  contend('CustomResourceDefinition x', true);
  expect(calls.count).toBe(1);
  contend('CustomResourceDefinition x', false);
  expect(without('new').vetoing).toHaveLength(1);
});

test('it answers for any number of roots', () => {
  const { set, without } = evidence();
  set('ConfigMap prod/x', trusting('root 3'));
  for (let n = 0; n < 10; n++) expect(without(`root ${n}`).delaying).toHaveLength(n === 3 ? 0 : 1);
});

import { expect, test } from 'vitest';

import { sourceName, type SourceRef } from './request.ts';
import { admitSources, type SourceDemand } from './source-quota.ts';

const ref = (name: string): SourceRef => ({ kind: 'Secret', namespace: 'vault', name });
const demand = (namespace: string | undefined, name: string): SourceDemand => ({ namespace, ref: ref(name) });
const many = (count: number, namespace: string | undefined, prefix: string) =>
  Array.from({ length: count }, (_, n) => demand(namespace, `${prefix}-${String(n).padStart(4, '0')}`));
const admit = (demands: readonly SourceDemand[], watched: readonly string[] = []) => {
  const names = new Set(watched.map((name) => sourceName(ref(name))));
  return [...admitSources(demands, (name) => names.has(name)).values()].map(({ name }) => name);
};

test('one namespace has ten sources, and leaves the rest to others', () => {
  const admitted = admit([...many(500, 'greedy', 'greedy'), demand('modest', 'modest')]);
  expect(admitted.filter((name) => name.startsWith('greedy'))).toHaveLength(10);
  expect(admitted).toContain('modest');
});

test('cluster-scoped targets keep their share, however many sources namespaces name', () => {
  const tenants = Array.from({ length: 300 }, (_, n) => demand(`tenant-${n}`, `tenant-${n}`));
  const admitted = admit([...tenants, ...many(200, undefined, 'webhook')]);
  expect(admitted.filter((name) => name.startsWith('webhook'))).toHaveLength(200);
  expect(admitted.filter((name) => name.startsWith('tenant'))).toHaveLength(200);
});

test('every namespace gets one source before any gets a second one, also if the second one is watched', () => {
  const first = Array.from({ length: 40 }, (_, n) => many(10, `a-${n}`, `a-${n}`)).flat();
  const before = admit(first);
  expect(before).toHaveLength(200);
  const after = admit([...first, demand('z', 'z')], before);
  expect(after).toContain('z');
  expect(before.filter((name) => !after.includes(name))).toHaveLength(1);
});

test('a watched source is not replaced by another of the same round', () => {
  const watched = Array.from({ length: 200 }, (_, n) => demand(`m-${n}`, `m-${n}`));
  const names = watched.map(({ ref: { name } }) => name);
  expect(admit([demand('a', 'a'), ...watched], names)).not.toContain('a');
});

test('a source that cluster-scoped targets name is free for namespaces', () => {
  const shared = Array.from({ length: 300 }, (_, n) => demand(`tenant-${n}`, 'shared'));
  expect(admit([...shared, demand(undefined, 'shared')])).toEqual(['shared']);
});

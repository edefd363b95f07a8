import { expect, test } from 'vitest';

import { compareVersions } from './resource-type.ts';

test('stable versions come before beta, beta before alpha, and higher numbers first', () => {
  const shuffled = [
    'foo10',
    'v12alpha1',
    'v3beta1',
    'v1',
    'foo1',
    'v10',
    'v11alpha2',
    'v10beta3',
    'v2',
    'v11beta2',
  ];
  expect(shuffled.toSorted(compareVersions)).toEqual([
    'v10',
    'v2',
    'v1',
    'v11beta2',
    'v10beta3',
    'v3beta1',
    'v12alpha1',
    'v11alpha2',
    'foo1',
    'foo10',
  ]);
});

test('within a stage, the number after it decides last', () => {
  expect(['v1beta1', 'v1beta2', 'v2beta1'].toSorted(compareVersions)).toEqual([
    'v2beta1',
    'v1beta2',
    'v1beta1',
  ]);
});

test('names that only resemble versions come last', () => {
  expect(['v1gamma1', 'v1', 'v1beta', '1'].toSorted(compareVersions)).toEqual([
    'v1',
    '1',
    'v1beta',
    'v1gamma1',
  ]);
});

test('a version equals itself', () => {
  expect(compareVersions('v1beta1', 'v1beta1')).toBe(0);
  expect(compareVersions('custom', 'custom')).toBe(0);
});

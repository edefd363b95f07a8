import { expect, test } from 'vitest';

import { ApiFailure } from '../../machinery/failure.ts';
import { checkListOptions } from './list-options.ts';

function refusal(query: string, isWatch: boolean): string | undefined {
  try {
    checkListOptions(new URLSearchParams(query), isWatch);
    return undefined;
  } catch (error) {
    if (error instanceof ApiFailure) return error.message;
    throw error;
  }
}

const MATCH = 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: ';

test.each([
  ['', undefined],
  ['resourceVersion=7&resourceVersionMatch=Exact', undefined],
  ['resourceVersion=0&resourceVersionMatch=NotOlderThan', undefined],
  ['continue=x&resourceVersion=0', undefined],
  ['continue=x&resourceVersion=7', 'specifying resource version is not allowed when using continue'],
  [
    'resourceVersionMatch=Exact',
    `${MATCH}Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided`,
  ],
  [
    'resourceVersion=0&resourceVersionMatch=Exact',
    `${MATCH}Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`,
  ],
  [
    'sendInitialEvents=true',
    'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list',
  ],
])('the options %j of a list are validated', (query, expected) => {
  expect(refusal(query, false)).toBe(expected);
});

test.each([
  ['', undefined],
  ['sendInitialEvents=true&resourceVersionMatch=NotOlderThan', undefined],
  [
    'sendInitialEvents=true',
    `${MATCH}Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`,
  ],
  [
    'resourceVersionMatch=NotOlderThan',
    `${MATCH}Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided`,
  ],
])('the options %j of a watch are validated', (query, expected) => {
  expect(refusal(query, true)).toBe(expected);
});

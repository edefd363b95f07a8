import { expect, test } from 'vitest';

import { splitApiVersion } from './kube-object.ts';

test.each([
  ['v1', { group: '', version: 'v1' }],
  ['apps/v1', { group: 'apps', version: 'v1' }],
  ['/v1', { group: '', version: 'v1' }],
  ['', { group: '', version: '' }],
])('the apiVersion %j has a group and a version', (apiVersion, parts) => {
  expect(splitApiVersion(apiVersion)).toEqual(parts);
});

import { expect, test } from 'vitest';
import { isDnsSubdomain } from './kube-object.ts';

test.each([
  ['db-tls', true],
  ['db.tls', true],
  ['a'.repeat(100), true],
  ['a'.repeat(254), false],
  ['', false],
  ['DB', false],
  ['db_tls', false],
  ['db/tls', false],
  ['-db', false],
  ['db.', false],
])('an object can have the name %j: %s', (name, can) => {
  expect(isDnsSubdomain(name)).toBe(can);
});

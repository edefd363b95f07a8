import { expect, test } from 'vitest';

import { newWindow, WrongUsage, type OpenFlags } from './new-window.ts';

const NOW = new Date('2026-11-21T23:44:57.250Z');
const VELERO = 'system:serviceaccount:velero:velero';

const flags = (change: Partial<OpenFlags>): OpenFlags => ({ user: [VELERO], for: '2h', ...change });

test('repeated flags are deduplicated', () => {
  const { spec } = newWindow(
    'drill',
    flags({
      group: ['restorers'],
      namespace: ['a', 'b', 'a'],
      operation: ['DELETE', 'CREATE', 'DELETE'],
      reason: 'drill of March',
      requireApproval: true,
      for: '24h',
    }),
    NOW,
  );
  expect(spec).toMatchObject({
    principals: [{ user: VELERO }, { group: 'restorers' }],
    match: { operations: ['DELETE', 'CREATE'], namespaces: { include: ['a', 'b'] } },
    sweep: { requireApprovalToLink: true },
    reason: 'drill of March',
    expiresAt: '2026-11-22T23:44:57Z',
  });
});

test.each([
  ['no principal is given', { user: [] }, /^name the user that restores: --user system:serviceaccount:.*$/],
  ['the group is all', { group: ['system:authenticated'] }, /^--group: system:authenticated is not one.*$/],
  [
    'an operation cannot be deferred',
    { operation: ['create'] },
    /^--operation create: only CREATE, UPDATE.*$/,
  ],
  ['the duration is invalid', { for: 'soon' }, /^--for soon: must be a duration.*$/],
  ['the duration is zero', { for: '0s' }, /^--for 0s: must be a duration.*$/],
  ['the duration is too long', { for: '25h' }, /^--for 25h: must not exceed 24h$/],
  ['a namespace is empty', { namespace: [''] }, /^--namespace must not be empty.*$/],
  ['several flags are wrong', { user: [], for: '2d' }, /^name the user that restores.*\n--for 2d: must.*$/],
])('it is wrong usage when %s', (_when, change, message) => {
  const open = () => newWindow('drill', flags(change), NOW);
  expect(open).toThrow(WrongUsage);
  expect(open).toThrow(message);
});

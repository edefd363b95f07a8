// suite: shared-plane, sandbox: long
/** The validation rules in the CRD of RestoreWindows, which hold while no replica answers. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { RestoreWindow } from '../../src/api/restore-window.ts';
import { RESTORE_WINDOWS, startClusterFor, type Cluster } from '../support/cluster.ts';
import { restoreWindow } from '../support/objects.ts';

let cluster: Cluster;

const END = '2099-01-01T12:00:00Z';

const window = (name: string, spec: Partial<RestoreWindow['spec']> = {}) =>
  restoreWindow(name, { expiresAt: END, ...spec });

beforeAll(async () => {
  cluster = await startClusterFor(1); // no server listens there, and no webhook is configured
});

afterAll(() => cluster.stop());

test.each<[string, Partial<RestoreWindow['spec']>, Partial<RestoreWindow['spec']>, RegExp]>([
  ['can be reopened', { close: true }, { close: false }, /spec\.close: .*a closed window stays closed/],
  [
    'can end later',
    {},
    { expiresAt: '2099-01-01T12:00:01Z' },
    /spec\.expiresAt: .*can only be moved to an earlier time/,
  ],
  [
    'can change its principals',
    {},
    { principals: [{ user: 'eve' }] },
    /spec\.principals: .*cannot be changed/,
  ],
  ['can change its source', {}, { source: { type: 'Startup' } }, /spec\.source: .*cannot be changed/],
  ['can match more', {}, { match: { operations: ['DELETE'] } }, /spec\.match: .*cannot be changed/],
  [
    'can change its reason',
    { reason: 'a drill' },
    { reason: 'another' },
    /spec\.reason: .*cannot be changed/,
  ],
  [
    'can withdraw an approval',
    { sweep: { requireApprovalToLink: true, approved: true } },
    { sweep: { requireApprovalToLink: true, approved: false } },
    /spec\.sweep\.approved: .*an approval cannot be undone/,
  ],
])('no window %s', async (what, before, after, why) => {
  const name = what.replaceAll(' ', '-');
  await cluster.admin.create(RESTORE_WINDOWS, window(name, before));
  const change = cluster.admin.patchMerge(RESTORE_WINDOWS, { name }, { spec: after });
  await expect(change).rejects.toThrow(why);
});

const TOO_WIDE = [
  ...['*', 'system:authenticated', 'system:authenticated:oauth', 'system:serviceaccounts', 'system:nodes'],
  ...['system:masters', 'kubeadm:cluster-admins'],
];

test.each<[string, RestoreWindow['spec']['principals']]>([
  ...TOO_WIDE.map((group): [string, RestoreWindow['spec']['principals']] => [group, [{ group }]]),
  ['a user and a group in one principal', [{ user: 'jane', group: 'restorers' }]],
])('no window can be for %s', async (_who, principals) => {
  const opening = cluster.admin.create(RESTORE_WINDOWS, window('wide', { principals }));
  await expect(opening).rejects.toThrow(/spec\.principals: .*each must have either a user or a group/);
});

test('a window can be for the service accounts of a namespace', async () => {
  const principals = [{ group: 'system:serviceaccounts:velero' }];
  await cluster.admin.create(RESTORE_WINDOWS, window('accounts', { principals }));
});

test('a window can be closed, can end sooner, and its links can be approved', async () => {
  await cluster.admin.create(RESTORE_WINDOWS, window('fine', { sweep: { requireApprovalToLink: true } }));
  for (const spec of [
    { expiresAt: '2099-01-01T11:00:00Z' },
    { sweep: { approved: true } },
    { close: true },
    { close: true, expiresAt: '2099-01-01T10:00:00Z' },
  ])
    await cluster.admin.patchMerge(RESTORE_WINDOWS, { name: 'fine' }, { spec });
});

// suite: shared-plane, sandbox: yes
/** The validation rules in the CRD of RestoreWindows, which hold while no replica answers. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import type { RestoreWindow } from '../../src/api/restore-window.ts';
import type { JsonPatchOperation } from '../../src/kube/client.ts';
import { customResourceDefinitions } from '../../src/kube/well-known.ts';
import { RESTORE_WINDOWS, startClusterFor, type Cluster } from '../support/cluster.ts';
import { eventually } from '../support/processes.ts';

let cluster: Cluster;

const RULES_SINCE = 25;

/** The rules as shipped. */
const RULES = crdRules();

const END = '2099-01-01T12:00:00Z';

const window = (name: string, spec: Partial<RestoreWindow['spec']> = {}): RestoreWindow => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'RestoreWindow',
  metadata: { name },
  spec: { principals: [{ user: 'jane' }], expiresAt: END, ...spec },
});

beforeAll(async () => {
  cluster = await startClusterFor(1); // no server listens there, and no webhook is configured
  if (cluster.plane.version.minor < RULES_SINCE) return;
  await cluster.admin.patchJson(customResourceDefinitions, { name: 'restorewindows.gatehouse.dev' }, RULES);
  await eventually('the rules hold', async () => {
    const wide = window('probe', { principals: [{ group: 'system:authenticated' }] });
    const opened = cluster.admin.create(RESTORE_WINDOWS, wide, { dryRun: true });
    return await opened.then(
      () => false,
      () => true,
    );
  });
});

beforeEach(({ skip }) => {
  const { minor, gitVersion } = cluster.plane.version;
  if (minor >= RULES_SINCE) return;
  const why = `skipped: ${gitVersion} drops the rules of CRDs, which came with Kubernetes 1.25`;
  console.log(why);
  skip(why);
});

function crdRules(): readonly JsonPatchOperation[] {
  const file = join(import.meta.dirname, '../../deploy/components/crd-rules/kustomization.yaml');
  const { patches } = parse(readFileSync(file, 'utf8')) as {
    readonly patches: readonly [{ readonly patch: string }];
  }; // a file of this repository
  return parse(patches[0].patch) as readonly JsonPatchOperation[]; // a file of this repository
}

afterAll(() => cluster.stop());

test.each<[string, Partial<RestoreWindow['spec']>, Partial<RestoreWindow['spec']>, string]>([
  ['can be reopened', { close: true }, { close: false }, 'a closed window stays closed'],
  ['can end later', {}, { expiresAt: '2099-01-01T12:00:01Z' }, 'can only be moved to an earlier time'],
  ['can change its principals', {}, { principals: [{ user: 'eve' }] }, 'principals cannot be changed'],
  ['can match more', {}, { match: { operations: ['DELETE'] } }, 'match cannot be changed'],
  ['can change its reason', { reason: 'a drill' }, { reason: 'another' }, 'reason cannot be changed'],
  [
    'can withdraw an approval',
    { sweep: { requireApprovalToLink: true, approved: true } },
    { sweep: { requireApprovalToLink: true, approved: false } },
    'an approval of links cannot be taken back',
  ],
])('no window %s', async (what, before, after, why) => {
  const name = what.replaceAll(' ', '-');
  await cluster.admin.create(RESTORE_WINDOWS, window(name, before));
  const change = cluster.admin.patchMerge(RESTORE_WINDOWS, { name }, { spec: after });
  await expect(change).rejects.toThrow(why);
});

test.each([
  ['all authenticated users', [{ group: 'system:authenticated' }]],
  ['the users of an OAuth server', [{ group: 'system:authenticated:oauth' }]],
  ['the administrators of kubeadm', [{ group: 'kubeadm:cluster-admins' }]],
  ['a user and a group in one principal', [{ user: 'jane', group: 'restorers' }]],
])('no window can be for %s', async (_who, principals) => {
  const opening = cluster.admin.create(RESTORE_WINDOWS, window('wide', { principals }));
  await expect(opening).rejects.toThrow('each of principals has either a user or a group');
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

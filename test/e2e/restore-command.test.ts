// suite: shared-plane, sandbox: long
/** `gatehouse restore`, as a user runs it on the day of a restore. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { RestoreWindow } from '../../src/api/restore-window.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { DATACENTERS, RESTORE_WINDOWS, SERVERS, type Cluster } from '../support/cluster.ts';
import type { User } from '../support/control-plane.ts';
import { enforceExamples, startGatehouse } from '../support/gatehouse-cluster.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import { datacenter, grant, server } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { runGatehouse, type Ran } from '../support/review-command.ts';
import { VELERO } from '../support/velero-client.ts';

let cluster: Cluster;
let restorer: KubeClient;

beforeAll(async () => {
  ({ cluster } = await startGatehouse());
  await enforceExamples(cluster);
  await cluster.apply(clusterAdmin('test-velero', VELERO.user));
  restorer = cluster.impersonate(VELERO);
});

afterAll(() => cluster.stop());

const restoreAs = (user: User, ...args: readonly string[]): Promise<Ran> =>
  runGatehouse(['restore', ...args, '--kubeconfig', cluster.plane.kubeconfig(user)]);

const read = (name: string) => cluster.admin.get<RestoreWindow>(RESTORE_WINDOWS, { name });

/** RBAC for alice on RestoreWindows. */
const letAlice = (name: string, verbs: readonly string[]) =>
  cluster.apply(
    ...grant(name, ['alice'], [{ apiGroups: ['gatehouse.dev'], resources: ['restorewindows'], verbs }]),
  );

test('wrong usage is reported before any request to a cluster, and exits with 2', async () => {
  const { code, stderr } = await runGatehouse([
    ...['restore', 'open', '--for', '30h', '--kubeconfig', '/nowhere'],
  ]);
  expect(stderr.split('\n')).toEqual([
    expect.stringMatching(/^error: name the user that restores.*; --for 30h: must not exceed 24h$/) as string,
    'See gatehouse restore open --help',
    '',
  ]);
  expect(code).toBe(2);
});

test('a user who may not open a window learns which permission to request', async () => {
  const open = () => restoreAs('alice', 'open', 'alices', '--user', VELERO.user, '--no-wait');
  const stranger = await open();
  expect(stranger.stderr).toContain('could not open RestoreWindow "alices"');
  expect(stranger.stderr).toContain('hint: ask for the verb "create" on restorewindows.gatehouse.dev');
  expect(stranger.code).toBe(1);

  await letAlice('test-alice-creates', ['create', 'get']);
  // The authorizer learns of the change through a watch.
  await eventually('the webhook refuses her instead', async () => {
    const { code, stderr } = await open();
    expect(code).toBe(1);
    return stderr.includes('ask for the verb "open"');
  });
  expect(await read('alices')).toBeUndefined();
});

test('a window can be opened, inspected, and closed with the report of its violations', async () => {
  const opened = await restoreAs('admin', ...['open', 'drill', '--user', VELERO.user, '--for', '1h']);
  expect(opened.stderr).toBe('');
  expect(opened.stdout).toMatch(/^RestoreWindow "drill" is open, until \d{4}-.*Z\.$/m);
  expect(opened.stdout).toContain(`CREATE, UPDATE by ${VELERO.user}, everywhere`);
  expect(opened.code).toBe(0);
  expect((await read('drill'))?.metadata).toMatchObject({
    labels: { 'velero.io/exclude-from-backup': 'true' },
    annotations: { 'gatehouse.dev/opened-by': 'admin' },
  });
  await restorer.create(SERVERS, server('shop', 'restored', 'muc1'));

  const listed = await restoreAs('admin', 'status', '-o', 'json');
  expect(JSON.parse(listed.stdout)).toMatchObject({
    windows: [{ name: 'drill', source: 'Manual', phase: 'Open' }],
  });

  const closed = await restoreAs('admin', 'close', 'drill', '--wait');
  expect(closed.stderr).toContain('"drill" is closed: all checks are enforced again');
  expect(closed.stdout).toContain('RestoreWindow drill: CompletedWithViolations');
  expect(closed.stdout).toMatch(
    /^Server shop\/restored +spec\.datacenter +servers +TargetMissing: .*"muc1"/m,
  );
  expect(closed.code).toBe(1);
});

test('a window that ends clean is a success, and its name cannot be used again', async () => {
  await cluster.admin.create(DATACENTERS, datacenter('muc1'));
  await cluster.see<RestoreWindow>(
    'a clean report',
    RESTORE_WINDOWS,
    { name: 'drill' },
    ({ status }) => status?.phase === 'Completed',
    15_000,
  );
  const again = await restoreAs('admin', 'close', 'drill', '--wait');
  expect(again.stderr).toContain('"drill" was closed at');
  expect(again.code).toBe(0);

  const reopened = await restoreAs('admin', 'open', 'drill', '--user', VELERO.user);
  expect(reopened.stderr).toContain('hint: choose another name');
  expect(reopened.code).toBe(1);
});

test('links can be approved only in a window that waits for an approval', async () => {
  const opening = ['open', 'careful', '--user', VELERO.user, '--require-approval', '--namespace', 'shop'];
  expect((await restoreAs('admin', ...opening)).code).toBe(0);
  const approved = await restoreAs('admin', 'approve', 'careful');
  expect(approved.stderr).toBe('');
  expect(approved.code).toBe(0);
  expect((await read('careful'))?.spec).toMatchObject({
    match: { namespaces: { include: ['shop'] } },
    sweep: { requireApprovalToLink: true, approved: true },
  });

  const refused = await restoreAs('admin', 'approve', 'drill');
  expect(refused.stderr).toContain('"drill" needs no approval: it links lost owners without approval');
  expect(refused.code).toBe(1);
  const missing = await restoreAs('admin', 'status', 'nothing');
  expect(missing.stderr).toContain('RestoreWindow "nothing" does not exist');
  expect(missing.code).toBe(1);
});

// suite: shared-plane, sandbox: long
/** Commands the way users run them while a replica runs: `gatehouse refs`, `restore` and `restore rehearse --record`. */
import { join } from 'node:path';
import { parse } from 'yaml';
import { describe, afterAll, beforeAll, expect, test } from 'vitest';

import type { AdmissionPolicy } from '../../src/api/admission-policy.ts';
import {
  ADMISSION_POLICIES,
  createNamespace,
  DATACENTERS,
  established,
  SERVERS,
  type Cluster,
  RESTORE_WINDOWS,
  SYSTEM_NAMESPACE,
} from '../support/cluster.ts';
import { type User } from '../support/control-plane.ts';
import { enforceExamples, startGatehouse, refusal, seePhase } from '../support/gatehouse-cluster.ts';
import { eventually } from '../support/processes.ts';
import { datacenter, server, type EventObject, grant } from '../support/objects.ts';
import { runGatehouse, writeFiles, type Ran } from '../support/review-command.ts';
import type { RestoreWindow } from '../../src/api/restore-window.ts';
import type { Resource } from '../../src/kube/object.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import { VELERO } from '../support/velero-client.ts';
import { readManifests } from '../../src/cli/deploy-manifests.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, customResourceDefinitions, events } from '../../src/kube/well-known.ts';
import { USERS } from '../support/control-plane-users.ts';
import type { Replica } from '../support/gatehouse.ts';
import { fileFolder } from '../support/folder.ts';

const EXAMPLES = join(import.meta.dirname, '..', '..', 'deploy', 'examples');
const NAMES = ['web-1', 'web-2', 'web-3'];

let cluster: Cluster;
let replica: Replica;
const folder = fileFolder('refs');

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse());
  await enforceExamples(cluster);
  await createNamespace(cluster, 'refs');
  await cluster.admin.create(DATACENTERS, datacenter('hel1'));
  for (const name of NAMES) await cluster.admin.create(SERVERS, server('refs', name, 'hel1'));
  const objects = [datacenter('hel1'), ...NAMES.map((name) => server('refs', name, 'hel1'))];
  writeFiles(folder, Object.fromEntries(objects.map((one, index) => [`${index}.json`, JSON.stringify(one)])));
});

afterAll(() => cluster.stop());

const refsAs = (user: User, ...args: readonly string[]): Promise<Ran> =>
  runGatehouse(['refs', ...args, '--kubeconfig', cluster.plane.kubeconfig(user)]);

test('an API server serves and enforces a definition that generate crd printed', async () => {
  const schema = {
    type: 'object',
    required: ['size', 'note'],
    properties: {
      size: { anyOf: [{ const: 'small' }, { const: 'large' }] },
      note: { anyOf: [{ type: 'string' }, { type: 'null' }] },
      port: { anyOf: [{ type: 'integer' }, { type: 'string' }] },
      count: { type: 'integer', exclusiveMinimum: 0, default: 3 },
      labels: { type: 'object', propertyNames: { type: 'string' }, additionalProperties: { type: 'string' } },
    },
  };
  const kind = {
    group: 'generated.example.com',
    version: 'v1',
    kind: 'Desk',
    scope: 'Cluster',
    spec: schema,
  };
  writeFiles(folder, {
    'kinds/desk.ts': `import { defineKind } from '@gatehouse-dev/gatehouse';
export const desk = defineKind(${JSON.stringify(kind)});`,
  });
  const { code, stdout, stderr } = await runGatehouse(['generate', 'crd', join(folder, 'kinds', 'desk.ts')]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  await cluster.admin.create(customResourceDefinitions, parse(stdout) as KubeObject);
  await established(cluster, 'desks.generated.example.com');

  const desks: Resource = {
    ...DATACENTERS,
    group: kind.group,
    version: 'v1',
    resource: 'desks',
    kind: 'Desk',
  };
  const create = (name: string, spec: object) => cluster.admin.create(desks, { metadata: { name }, spec });
  await expect(
    create('a', { size: 'small', note: null, port: 'http', labels: { a: 'b' } }),
  ).resolves.toMatchObject({ spec: { note: null, port: 'http', count: 3 } });
  expect((await refusal(create('b', { size: 'huge', note: '' }))).message).toContain(
    'spec.size: Unsupported value',
  );
  expect((await refusal(create('c', { size: 'small', note: '', count: 0 }))).message).toContain('spec.count');
});

test('a target lists the objects that name it, and an object its target', async () => {
  const target = await refsAs('admin', 'Datacenter/hel1');
  expect(target).toMatchObject({ code: 0, stderr: '' });
  for (const name of NAMES)
    expect(target.stdout).toContain(`servers.infra.example.com refs/${name}   spec.datacenter`);
  const { stdout } = await refsAs('admin', 'servers/web-1', '-n', 'refs', '-o', 'dot');
  expect(stdout).toContain('-> "datacenters.infra.example.com//hel1" [label="spec.datacenter"]');
});

test('files give the same answer as the cluster', async () => {
  const online = await refsAs('admin', 'datacenters.infra.example.com/hel1', '-o', 'json');
  const offline = await runGatehouse([
    ...['refs', 'datacenters.infra.example.com/hel1', '-o', 'json', '-f', folder, '-p', EXAMPLES],
  ]);
  expect(online.code).toBe(0);
  expect(JSON.parse(offline.stdout)).toEqual(JSON.parse(online.stdout));
});

test('an object that does not exist gives exit code 1, and a kind without references 2', async () => {
  const absent = await refsAs('admin', 'Datacenter/nowhere');
  expect(absent).toMatchObject({ code: 1, stdout: '' });
  expect(absent.stderr).toContain('datacenters.infra.example.com "nowhere" does not exist');
  const foreign = await refsAs('admin', 'configmaps/a');
  expect(foreign.code).toBe(2);
  expect(foreign.stderr).toContain(
    'no reference connects the kind "configmaps", only datacenters.infra.example.com',
  );
});

test('a user with permissions in one namespace sees its objects, and what is missing', async () => {
  const read = (apiGroup: string, ...resources: string[]) => ({
    apiGroups: [apiGroup],
    resources,
    verbs: ['get', 'list'],
  });
  await cluster.apply(
    ...grant('refs-reader', ['alice'], [read('infra.example.com', 'servers')], 'refs'),
    ...grant(
      'refs-reader',
      ['alice'],
      [read('gatehouse.dev', 'admissionpolicies'), read('apiextensions.k8s.io', 'customresourcedefinitions')],
    ),
  );
  const ran = await eventually('the permissions of alice', async () => {
    const one = await refsAs('alice', 'Server/web-1', '-n', 'refs');
    return one.code === 0 ? one : undefined;
  });
  expect(ran.stdout).toContain('datacenters.infra.example.com hel1   spec.datacenter');
  expect(ran.stdout).toContain('unknown: its kind could not be read');
  expect(ran.stdout).toContain('nothing that could be read refers to it');
  expect(ran.stderr).toContain('datacenters.infra.example.com could not be read completely');
  expect(ran.stderr).toContain('servers.infra.example.com could be read only in the namespace refs');
  expect(ran.stderr).toContain('namespaces could not be read');
});

test('of a policy whose newest version is not in force, the version in force counts', async () => {
  const policy = await cluster.admin.get<AdmissionPolicy>(ADMISSION_POLICIES, { name: 'servers' });
  if (policy === undefined) throw new Error('the policy servers is missing');
  const { metadata, spec } = policy;
  const target = { apiGroup: 'infra.example.com', resource: 'nowheres' };
  const references = [{ name: 'nowhere', path: 'spec.nowhere', target }];
  await cluster.admin.patchMerge(
    ADMISSION_POLICIES,
    { name: 'servers' },
    { spec: { validate: { references } } },
  );
  const ran = await eventually('the note', async () => {
    const one = await refsAs('admin', 'dc/hel1');
    return one.stderr.includes('is in force') ? one : undefined;
  });
  expect(ran.stderr).toContain(`generation ${metadata.generation ?? 0} is in force`);
  for (const name of NAMES) expect(ran.stdout).toContain(`refs/${name}   spec.datacenter`);
  await cluster.admin.patchMerge(ADMISSION_POLICIES, { name: 'servers' }, { spec });
});

describe('gatehouse restore', () => {
  let restorer: KubeClient;

  beforeAll(async () => {
    await cluster.apply(clusterAdmin('test-velero', VELERO.user));
    restorer = cluster.impersonate(VELERO);
  });

  const restoreAs = (user: User, ...args: readonly string[]): Promise<Ran> =>
    runGatehouse(['restore', ...args, '--kubeconfig', cluster.plane.kubeconfig(user)]);

  const read = (name: string) => cluster.admin.get<RestoreWindow>(RESTORE_WINDOWS, { name });

  /** RBAC for alice on RestoreWindows. */
  const letAlice = (name: string, verbs: readonly string[]) =>
    cluster.apply(
      ...grant(name, ['alice'], [{ apiGroups: ['gatehouse.dev'], resources: ['restorewindows'], verbs }]),
    );

  test('a user who lacks permission to open a window learns which permission to request', async () => {
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
    await seePhase(cluster, 'drill', 'Completed');
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
    expect(refused.stderr).toContain('"drill" cannot be approved: it links lost owners without approval');
    expect(refused.code).toBe(1);
    const missing = await restoreAs('admin', 'status', 'nothing');
    expect(missing.stderr).toContain('RestoreWindow "nothing" does not exist');
    expect(missing.code).toBe(1);
  });
});

describe('a scheduled rehearsal: with the permissions of its component, its result, Events and metrics', () => {
  const COMPONENT = join(import.meta.dirname, '..', '..', 'deploy', 'components', 'restore-rehearsal');
  const RESULT = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-restore-rehearsal' };

  beforeAll(async () => {
    const manifests = readManifests(COMPONENT).filter(
      ({ kind }) => kind !== 'CronJob' && kind !== 'ServiceAccount',
    );
    await cluster.apply(...manifests.map((object) => ('subjects' in object ? boundToAlice(object) : object)));
  });

  const bucket = fileFolder('bucket');

  const boundToAlice = (binding: KubeObject): KubeObject & { readonly subjects: readonly object[] } => ({
    ...binding,
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: USERS.alice.name }],
  });

  /** A backup of Servers, as Velero stores it; the folder takes the place of the archive. */
  function backUp(day: number, servers: Readonly<Record<string, string>>): void {
    const name = `nightly-${day}`;
    const inside = `backups/${name}/${name}.tar.gz`;
    const object = (server: string, datacenter: string) => ({
      apiVersion: 'infra.example.com/v1',
      kind: 'Server',
      metadata: { namespace: 'shop', name: server },
      spec: { datacenter, size: 's' },
    });
    writeFiles(bucket, {
      [`backups/${name}/velero-backup.json`]: JSON.stringify({
        status: { phase: 'Completed', startTimestamp: `2026-03-0${day}T01:00:00Z` },
      }),
      [`${inside}/metadata/version`]: '1.1.0',
      [`${inside}/resources/datacenters.infra.example.com/cluster/fra1.json`]: JSON.stringify({
        apiVersion: 'infra.example.com/v1',
        kind: 'Datacenter',
        metadata: { name: 'fra1' },
      }),
      ...Object.fromEntries(
        Object.entries(servers).map(([server, datacenter]) => [
          `${inside}/resources/servers.infra.example.com/namespaces/shop/${server}.json`,
          JSON.stringify(object(server, datacenter)),
        ]),
      ),
    });
  }

  const rehearse = () =>
    runGatehouse([
      ...['restore', 'rehearse', '--newest-in', bucket, '--policies-from-cluster', '--record'],
      ...['--kubeconfig', cluster.plane.kubeconfig('alice')],
    ]);

  const result = async () =>
    (await cluster.admin.get<KubeObject & { readonly data?: object }>(configMaps, RESULT))?.data;

  const noted = async (): Promise<readonly string[]> => {
    const { items } = await cluster.admin.listAll<EventObject>(events, { namespace: SYSTEM_NAMESPACE });
    return items
      .filter(({ involvedObject }) => involvedObject.name === RESULT.name)
      .map(({ type, reason, message }) => `${type} ${reason}: ${message}`)
      .toSorted();
  };

  const seeMetric = (name: string, value: number) =>
    eventually(`${name} is ${value}`, async () =>
      (await replica.metrics()).includes(`gatehouse_restore_rehearsal_${name} ${value}\n`),
    );

  test('the account may do no more than the rehearsal needs', async () => {
    const alice = await cluster.as('alice');
    const other = { metadata: { namespace: SYSTEM_NAMESPACE, name: 'other' } };
    expect((await refusal(alice.create(configMaps, other))).code).toBe(403);
    expect((await refusal(alice.list(configMaps, { namespace: SYSTEM_NAMESPACE }))).code).toBe(403);
  });

  /** So that the alert about a missing rehearsal fires. */
  const seeNoResult = async () => {
    const { creationTimestamp = '' } = (await cluster.admin.get(configMaps, RESULT))?.metadata ?? {};
    await seeMetric('timestamp_seconds', Date.parse(creationTimestamp) / 1_000);
    expect(await replica.metrics()).not.toMatch(/^gatehouse_restore_rehearsal_(new_)?problems \d/m);
  };

  test('before the first rehearsal has ended, the time of the ConfigMap counts', async () => {
    await seeNoResult();
  });

  test('the first rehearsal keeps its problems, and an Event and metrics report them', async () => {
    backUp(1, { db: 'gone' });
    const { code, stderr } = await rehearse();
    expect(stderr).not.toContain('error');
    expect(code).toBe(1);
    expect(await result()).toMatchObject({
      backup: 'nightly-1',
      backupTakenAt: '2026-03-01T01:00:00.000Z',
      problems: '1',
      newProblems: '0',
      list: 'TargetMissing servers.infra.example.com shop/db\n',
    });
    expect(await noted()).toEqual([
      'Warning RehearsalProblems: a restore of nightly-1 would have 1 problem: TargetMissing servers.infra.example.com shop/db',
    ]);
    await seeMetric('problems', 1);
    await seeMetric('new_problems', 0);
    await seeMetric('backup_timestamp_seconds', Date.parse('2026-03-01T01:00:00Z') / 1_000);
  });

  test('a newer backup with one problem less and another one more is worse', async () => {
    backUp(2, { db: 'fra1', web: 'gone' });
    expect((await rehearse()).code).toBe(1);
    await seeMetric('new_problems', 1);
    expect(await noted()).toContain(
      'Warning RehearsalWorse: a restore of nightly-2 would have 1 new problem: TargetMissing servers.infra.example.com shop/web',
    );
  });

  test('a clean backup ends with exit code 0', async () => {
    backUp(3, { db: 'fra1' });
    const { code, stdout } = await rehearse();
    expect(stdout).toContain('no problems');
    expect(code).toBe(0);
    await seeMetric('problems', 0);
    expect(await noted()).toContain(
      'Normal RehearsalClean: a restore of nightly-3 would succeed without problems',
    );
  });

  test('a failed rehearsal keeps the result, and says what is missing', async () => {
    const before = await result();
    backUp(4, { db: 'fra1' });
    writeFiles(bucket, { 'backups/nightly-4/nightly-4.tar.gz/metadata/version': '9' });
    const { code, stderr } = await rehearse();
    expect(stderr).toContain('format version "9" is not supported');
    expect(code).toBe(2);
    expect(await result()).toEqual(before);
  });

  test('a result that a user has edited into something else counts as none', async () => {
    const stored = await cluster.admin.get<KubeObject>(configMaps, RESULT);
    await cluster.admin.replace(configMaps, { ...stored, data: { finishedAt: 'never' } });
    await seeNoResult();
  });
});

// suite: shared-plane, sandbox: long
/** What `gatehouse status` and `gatehouse doctor` say about the controllers of users. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { Finding } from '../../src/cli/inspect/doctor/finding.ts';
import type { StatusReport } from '../../src/cli/inspect/status/report/status-report.ts';
import { configMaps, customResourceDefinitions, namespaces } from '../../src/kube/well-known.ts';
import { CONTROLLERS_CONFIGMAP } from '../../src/runtime/controllers/published.ts';
import { established, SYSTEM_NAMESPACE, untilGone, type Cluster } from '../support/cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { eventually, freePort } from '../support/processes.ts';
import { runGatehouse } from '../support/review-command.ts';
import {
  isReady,
  startControllerScene,
  USERS,
  type ControllerScene,
  type Reconciled,
} from '../support/user-controllers-scene.ts';

const CRD = 'users.people.example.com';
const PLACE = { namespace: SYSTEM_NAMESPACE, name: CONTROLLERS_CONFIGMAP };
const LONG = 120_000;

let scene: ControllerScene;
let cluster: Cluster;
let replica: Replica;
let port: number;

beforeAll(async () => {
  port = await freePort();
  scene = await startControllerScene(port, ['users']);
  ({ cluster } = scene);
  replica = await start('one');
});

afterAll(async () => {
  await replica.program.stop(15_000);
  await scene.stop();
});

async function start(name: string): Promise<Replica> {
  const settings = { handlers: scene.folder };
  const started = await startReplica(cluster.plane, { name, port, arrangement: 'both', settings });
  await started.whenReady();
  return started;
}

const run = (...args: readonly string[]) =>
  runGatehouse([...args, '--kubeconfig', cluster.plane.kubeconfig('admin')]);

async function look() {
  const [status, doctor] = await Promise.all([run('status', '-o', 'json'), run('doctor', '-o', 'json')]);
  expect([status.stderr, doctor.stderr]).toEqual(['', '']);
  const report = JSON.parse(status.stdout) as StatusReport; // as docs/status.md promises
  const { findings } = JSON.parse(doctor.stdout) as { readonly findings: readonly Finding[] };
  return {
    report,
    said: report.attention.filter(({ part }) => part === 'userControllers').map(({ message }) => message),
    found: findings.filter(({ check }) => check === 'user-controllers'),
  };
}

/** Both commands name it. */
const says = (what: string, text: string) =>
  eventually(
    what,
    async () => {
      const { said, found, report } = await look();
      const isSeen = found.some(({ severity, seen }) => severity === 'problem' && seen.includes(text));
      return said.some((message) => message.includes(text)) && isSeen && !report.healthy;
    },
    { timeoutMs: LONG },
  );

const isHealthy = (what: string) =>
  eventually(
    what,
    async () => {
      const { said, found, report } = await look();
      const [row] = report.userControllers.items;
      const works =
        row?.name === 'users' && row.lastPass !== undefined && report.userControllers.stale === undefined;
      return works && said.length === 0 && found.every(({ severity }) => severity === 'ok');
    },
    { timeoutMs: LONG },
  );

const createUser = (name: string) =>
  cluster.admin.create(USERS, { metadata: { name }, spec: { mail: `${name}@example.com` } });
const untilReady = (name: string) => cluster.see<Reconciled>(`${name} is ready`, USERS, { name }, isReady);

test('a controller that works is shown, and at rest nothing is written', async () => {
  await createUser('alice');
  await untilReady('alice');
  await isHealthy('the controller works');
  expect((await run('status')).stdout).toMatch(/^ {2}users +users\.people\.example\.com +1 /m);
});

test('a failing object is named with its cause, until it is gone', async () => {
  await cluster.admin.create(namespaces, { metadata: { name: 'bob' } });
  await createUser('bob');
  await says('the object fails', '(ReconcileFailed: Namespace bob exists and was not created for User bob');
  await cluster.admin.delete(USERS, { name: 'bob' });
  await untilGone(cluster, USERS, { name: 'bob' });
  await isHealthy('no object fails');
}, 300_000);

test('a deleted CustomResourceDefinition is no healthy controller, and works again when it is back', async () => {
  await cluster.admin.delete(USERS, { name: 'alice' });
  await untilGone(cluster, USERS, { name: 'alice' });
  await cluster.admin.delete(customResourceDefinitions, { name: CRD });
  await says('the kind is missing', `the API server does not serve ${CRD}, so it reconciles nothing`);
  await cluster.applyFolder('examples/users', ({ kind }) => kind === 'CustomResourceDefinition');
  await established(cluster, CRD);
  await createUser('carol');
  await untilReady('carol');
  await isHealthy('the kind is back');
}, 600_000);

test('finalizers of a controller that does not exist are found', async () => {
  const finalizers = ['gatehouse.dev/controller-former'];
  await cluster.admin.patchMerge(
    USERS,
    { name: 'carol' },
    { metadata: { finalizers: [...finalizers, 'gatehouse.dev/controller-users'] } },
  );
  const { found } = await look();
  expect(found).toMatchObject([{ severity: 'warning' }]);
  expect(found[0]?.seen).toContain(`gatehouse.dev/controller-former is left on 1 object of ${CRD}: carol`);
  await cluster.admin.patchMerge(
    USERS,
    { name: 'carol' },
    { metadata: { finalizers: ['gatehouse.dev/controller-users'] } },
  );
});

test('a killed leader leaves a stale state, and the next leader writes its own', async () => {
  replica.program.kill('SIGKILL');
  await says('the state is stale', 'and no replica leads now');
  replica = await start('two');
  await isHealthy('the new leader has written the state');
}, 300_000);

test.each([
  'garbage \u001b[2J',
  JSON.stringify({
    at: '2026-01-01T00:00:00Z',
    leader: '\u001b[2J',
    controllers: [{ name: 'x', watches: 'users', failing: 1, troubles: [{ message: '\u001b[2J' }] }],
  }),
])('forged content neither crashes the commands nor reaches the terminal: %j', async (text) => {
  await cluster.admin.patchMerge(configMaps, PLACE, { data: { 'report.json': text } });
  for (const command of ['status', 'doctor']) {
    const { code, stdout, stderr } = await run(command);
    expect([code, stderr]).toEqual([1, '']);
    expect(stdout).not.toContain('\u001b');
  }
});

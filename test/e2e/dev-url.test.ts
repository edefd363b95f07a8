// suite: shared-plane, sandbox: long, slow
/**
 * `gatehouse serve --dev-url`: a developer's machine answers for a cluster, and restores the original configuration at
 * its end.
 */
import { afterAll, afterEach, beforeAll, expect, test, describe } from 'vitest';

import { devSessionOf, type LiveWebhookConfiguration } from '../../src/admission/webhooks/dev-entries.ts';
import type { Finding } from '../../src/cli/inspect/doctor/finding.ts';
import { withoutPathTokens } from '../../src/json/abort.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import {
  configMaps,
  mutatingWebhookConfigurations,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import {
  ADMISSION_POLICIES,
  SYSTEM_NAMESPACE,
  type Cluster,
  startCluster,
  established,
  createNamespace,
  applyExamples,
} from '../support/cluster.ts';
import { rotateAuthority } from '../support/end-trust.ts';
import {
  enforceExamples,
  seeInForce,
  startGatehouse,
  untilServersChecked,
} from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { forCase, handlerFolder } from '../support/handler-folder.ts';
import { sendConfigMap, startLaptop, untilHandlerSays, untilLaptopSays } from '../support/laptop.ts';
import { admissionPolicy, configMapsWith } from '../support/objects.ts';
import { eventually, freePort, tail } from '../support/processes.ts';
import { runGatehouse } from '../support/review-command.ts';

const ofCluster = handlerFolder({
  'greeter.ts': forCase('greeter', `validate(object, { deny }) { deny('the cluster says no'); },`),
  'keeper.ts': forCase('keeper', `validate(object, { deny }) { deny('the cluster keeps it'); },`),
});
const ofLaptop = handlerFolder({
  'greeter.ts': forCase('greeter', `validate(object, { deny }) { deny('the laptop refuses'); },`),
  'newcomer.ts': forCase('newcomer', `validate(object, { deny }) { deny('only the laptop knows'); },`),
});

let cluster: Cluster;
const laptops: Replica[] = [];

beforeAll(async () => {
  ({ cluster } = await startGatehouse({ settings: { handlers: ofCluster, 'ca-propagation-wait': '1s' } }));
  await enforceExamples(cluster);
});

/** A laptop that a failed test left behind would answer in the next test. */
afterEach(async () => {
  for (const laptop of laptops.splice(0)) await laptop.program.stop(15_000);
});

afterAll(() => cluster.stop());

async function start(name: string, host?: string): Promise<Replica> {
  const laptop = await startLaptop(cluster, {
    name,
    handlers: ofLaptop,
    ...(host === undefined ? {} : { host }),
  });
  laptops.push(laptop);
  return laptop;
}

const KINDS: readonly Resource[] = [mutatingWebhookConfigurations, validatingWebhookConfigurations];

const configuration = async (resource: Resource): Promise<LiveWebhookConfiguration> =>
  (await cluster.admin.get<LiveWebhookConfiguration & KubeObject>(resource, { name: 'gatehouse' })) ?? {};

/** Both webhook configurations as users and the API server see them, without server-set counters. */
async function whatIsThere(): Promise<unknown> {
  const both = await Promise.all(KINDS.map(configuration));
  return both.map(({ metadata: { name, uid, labels, annotations } = {}, webhooks }) => ({
    name,
    uid,
    labels,
    annotations,
    // A token rotates some time after the serving certificate.
    webhooks: JSON.parse(withoutPathTokens(JSON.stringify(webhooks))) as unknown,
  }));
}

async function sessions() {
  const both = await Promise.all(KINDS.map(configuration));
  return both.map((one) => devSessionOf(one, new Date()));
}

const decides = (laptop: Replica) => untilLaptopSays(laptop, cluster, 'greeter', 'the laptop refuses');
const handlerSays = (handler: string, why: string) => untilHandlerSays(cluster, handler, why);
const clusterDecides = () => handlerSays('greeter', 'the cluster says no');

/** The doctor's findings, except those with severity `ok`. */
async function doctorSays(): Promise<readonly Finding[]> {
  const { stdout } = await runGatehouse([
    ...['doctor', '-o', 'json', '--kubeconfig', cluster.plane.kubeconfig('admin')],
  ]);
  const { findings } = JSON.parse(stdout) as { readonly findings: readonly Finding[] }; // as docs/status.md promises
  // The policies of this cluster match none of its few objects.
  return findings.filter(({ check, severity }) => severity !== 'ok' && check !== 'policies');
}

/** Whether each webhook entry leads to a laptop. */
async function validatingEntries(prefix = ''): Promise<Readonly<Record<string, boolean>>> {
  const { webhooks = [] } = await configuration(validatingWebhookConfigurations);
  const entries = webhooks.map(({ name, clientConfig }): readonly [string, boolean] => [
    name.split('.')[0] ?? '',
    clientConfig.url !== undefined,
  ]);
  return Object.fromEntries(entries.filter(([entry]) => entry.startsWith(prefix)));
}

test('a laptop takes over, the leader does not interfere, and on exit the laptop restores every byte', async () => {
  await clusterDecides();
  const before = await whatIsThere();
  const laptop = await start('eva');
  await decides(laptop);

  await handlerSays('newcomer', 'only the laptop knows');
  await handlerSays('keeper', 'the cluster keeps it');
  await untilServersChecked(cluster);
  expect(await validatingEntries()).toMatchObject({
    'handler-greeter': true,
    'handler-newcomer': true,
    'handler-keeper': false,
    'own-state': true,
  });
  expect(await sessions()).toMatchObject([
    { kind: 'valid', session: { holder: 'eva', created: false } },
    { kind: 'valid', session: { holder: 'eva', created: false } },
  ]);

  expect(await doctorSays()).toEqual([
    {
      check: 'dev-session',
      severity: 'warning',
      seen: expect.stringContaining(
        `eva serves the webhook entries of this cluster at https://127.0.0.1:`,
      ) as string,
      next: expect.stringContaining('ask eva to stop') as string,
    },
  ]);

  laptop.program.kill('SIGINT');
  expect((await laptop.program.exited).code).toBe(0);
  expect(await whatIsThere()).toEqual(before);
  await clusterDecides();
  expect(await doctorSays()).toEqual([]);
});

/**
 * A policy for ConfigMaps with the label `case: noted`. It has its own entry: no other policy has a timeout of 7
 * seconds.
 */
const noted = (message: string) =>
  admissionPolicy('noted', {
    match: configMapsWith({ case: 'noted' }),
    timeoutSeconds: 7,
    validate: { rules: [{ name: 'never', expression: 'false', message }] },
  });

test('the laptop enforces a policy that is created and changed during the session, and the policy remains in force afterwards', async () => {
  const laptop = await start('eva-edits');
  await decides(laptop);

  await cluster.admin.create<KubeObject>(ADMISSION_POLICIES, noted('not today'));
  await seeInForce(cluster, 'noted');
  await handlerSays('noted', 'not today');
  expect(Object.values(await validatingEntries('fail-7s'))).toEqual([true]);
  await cluster.admin.patchMerge(ADMISSION_POLICIES, { name: 'noted' }, { spec: noted('nor tomorrow').spec });
  await handlerSays('noted', 'nor tomorrow');

  laptop.program.kill('SIGTERM');
  expect((await laptop.program.exited).code).toBe(0);
  expect(Object.values(await validatingEntries('fail-7s'))).toEqual([false]);
  await handlerSays('noted', 'nor tomorrow');
  await cluster.admin.delete(ADMISSION_POLICIES, { name: 'noted' });
  await eventually('the ConfigMap is accepted', () => sendConfigMap(cluster, 'noted'));
});

test('a rotation of the authority during the session breaks no client', async () => {
  const laptop = await start('eva-rotates');
  await decides(laptop);
  const ref = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-cabundle' };
  const bundle = async () =>
    (await cluster.admin.get<KubeObject & { data?: Record<string, string> }>(configMaps, ref))?.data?.[
      'ca.crt'
    ] ?? '';
  const old = (await bundle()).trim();
  await rotateAuthority(cluster, 'for-the-test', async () => {
    expect(await bundle()).toContain(old);
    await decides(laptop);
  });
  await eventually('the old root is gone', async () => {
    const now = await bundle();
    return now !== '' && !now.includes(old);
  });
  await decides(laptop);
  await handlerSays('keeper', 'the cluster keeps it');
  expect(await sessions()).toMatchObject([{ kind: 'valid' }, { kind: 'valid' }]);

  await laptop.program.stop(15_000);
  await clusterDecides();
  const [first] = (await configuration(mutatingWebhookConfigurations)).webhooks ?? [];
  expect(first?.clientConfig).toMatchObject({
    service: { name: 'gatehouse' },
    caBundle: Buffer.from(await bundle()).toString('base64'),
  });
});

test('a laptop that the API server cannot reach reports it immediately, and leaves nothing behind', async () => {
  const before = await whatIsThere();
  const [port, closedPort] = await Promise.all([freePort(), freePort()]);
  const laptop = await startReplica(cluster.plane, {
    name: 'unreachable',
    port,
    settings: { kubeconfig: cluster.plane.kubeconfig('admin'), 'dev-url': `https://127.0.0.1:${closedPort}` },
  });
  laptops.push(laptop);
  expect((await laptop.program.exited).code).toBe(1);
  expect(tail(laptop.program.logFile)).toContain(
    `the API server does not reach https://127.0.0.1:${closedPort}`,
  );
  expect(await whatIsThere()).toEqual(before);
});

test(
  'after a crash, the leader restores the entries when the session has expired',
  { timeout: 180_000 },
  async () => {
    const before = await whatIsThere();
    const laptop = await start('eva-crashes');
    await decides(laptop);
    laptop.program.kill('SIGKILL');
    await laptop.program.exited;
    expect(await sessions()).toMatchObject([{ kind: 'valid' }, { kind: 'valid' }]);
    await eventually(
      'the leader has restored the entries',
      async () => (await sessions()).every(({ kind }) => kind === 'none'),
      { timeoutMs: 90_000, everyMs: 500 },
    );
    expect(await whatIsThere()).toEqual(before);
    await clusterDecides();
  },
);

describe('in a cluster with only the CRDs of Gatehouse', () => {
  let bare: Cluster;
  let port: number;

  beforeAll(async () => {
    [bare, port] = await Promise.all([startCluster(), freePort()]);
    await bare.applyFolder('base/crds');
    for (const kind of ['admissionpolicies', 'restorewindows', 'restoredetectors', 'uniqueclaims'])
      await established(bare, `${kind}.gatehouse.dev`);
    await createNamespace(bare, 'shop');
    await applyExamples(bare);
  });

  afterAll(() => bare.stop());

  /** Starts a laptop, always with the same user name and URL. Resolves when it decides. */
  async function startEva(): Promise<Replica> {
    const laptop = await startLaptop(bare, { name: 'eva', port, handlers: ofLaptop });
    laptops.push(laptop);
    await untilLaptopSays(laptop, bare, 'greeter', 'the laptop refuses');
    return laptop;
  }

  const stored = () => Promise.all(KINDS.map((resource) => bare.admin.get(resource, { name: 'gatehouse' })));

  test('a laptop enforces policies and handlers without a replica, and leaves nothing behind at its end', async () => {
    const laptop = await startEva();
    await untilServersChecked(bare);
    laptop.program.kill('SIGINT');
    expect((await laptop.program.exited).code).toBe(0);
    expect(await stored()).toEqual([undefined, undefined]);
    await eventually('no webhook is called any more', () => sendConfigMap(bare, 'greeter'));
  });

  test('the next run of the command removes what a crash left behind', async () => {
    const first = await startEva();
    first.program.kill('SIGKILL');
    await first.program.exited;
    expect(await stored()).not.toContain(undefined);
    const second = await startEva();
    await second.program.stop(15_000);
    expect(await stored()).toEqual([undefined, undefined]);
  });
});

// suite: shared-plane, sandbox: long, slow
/**
 * Looks for a moment without enforcement while checks move between the webhook and the API server: a client tries without a
 * pause to create an object that every version of the policy forbids.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { versionOf, type ConfirmedPair } from '../../src/admission/native/release.ts';
import type { AdmissionPolicyStatus } from '../../src/api/admission-policy.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { messageOf } from '../../src/json/abort.ts';
import {
  configMaps,
  mutatingAdmissionPolicies,
  mutatingWebhookConfigurations,
  validatingAdmissionPolicies as POLICIES,
  validatingAdmissionPolicyBindings as BINDINGS,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { startApiProxy, type ApiProxy } from '../support/api-proxy.ts';
import { hasMutatingPolicies } from '../support/backstop.ts';
import { ADMISSION_POLICIES, createNamespace, startClusterFor, type Cluster } from '../support/cluster.ts';
import { seeInForce, untilRefused, webhooksOf } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { eventually, freePort } from '../support/processes.ts';
import { admissionPolicy, configMap, configMapsWith } from '../support/objects.ts';

interface Policy extends KubeObject {
  readonly status?: AdmissionPolicyStatus;
}

const SLOW_MS = 1_500;
const NAME = 'handovers';
const COMPILED = { name: `${NAME}.policies.gatehouse.dev` };
const NAMESPACE = 'handovers';

let cluster: Cluster;
let proxy: ApiProxy;
let port: number;
let replica: Replica;
let isServed: boolean;
let hidden: 'none' | 'mutating' | 'all' = 'none';

const served = (name: string, kind: string) => ({ name, kind, namespaced: false, verbs: ['list', 'watch'] });
const VALIDATING = [
  served('validatingadmissionpolicies', 'ValidatingAdmissionPolicy'),
  served('validatingadmissionpolicybindings', 'ValidatingAdmissionPolicyBinding'),
];

/** Webhook entries return late. On demand, the API server does not serve the policies: as after a downgrade below Kubernetes 1.36 or 1.30. */
async function older(method: string, path: string) {
  if (method === 'PUT' && path.includes('/validatingwebhookconfigurations/')) await sleep(SLOW_MS);
  if (hidden === 'none') return undefined;
  if ((hidden === 'all' ? /\/(validating|mutating)admissionpolic/ : /\/mutatingadmissionpolic/).test(path))
    return { code: 404, body: { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404 } };
  if (method !== 'GET' || !/^\/apis\/admissionregistration\.k8s\.io\/v1(\?|$)/.test(path)) return undefined;
  const resources = hidden === 'all' ? [] : VALIDATING;
  return await Promise.resolve({ code: 200, body: { kind: 'APIResourceList', resources } });
}

const start = async () => {
  const settings = { 'compile-policies': 'true', kubeconfig: proxy.kubeconfig('gatehouse') };
  replica = await startReplica(cluster.plane, { name: `one-${randomUUID().slice(0, 4)}`, port, settings });
  await replica.whenReady();
};

beforeAll(async () => {
  port = await freePort();
  cluster = await startClusterFor(port);
  isServed = hasMutatingPolicies(cluster);
  await cluster.applyFolder('components/compile-policies');
  await createNamespace(cluster, NAMESPACE);
  proxy = await startApiProxy(cluster.plane, 'older', older);
  await start();
});

afterAll(async () => {
  await replica.program.stop(15_000);
  await proxy.stop();
  await cluster.stop();
});

const RULES = [{ name: 'token', expression: '!("token" in object.?data.orValue({}))', message: 'no token' }];
const NO_PASSWORD = '!("password" in object.?data.orValue({}))';
const WITH_PASSWORD = [...RULES, { name: 'password', expression: NO_PASSWORD }];
/** The type check knows that the values of a ConfigMap are strings. */
const MISTYPED = [
  { name: 'mistyped', expression: `object.?data.number.orValue("a") != 5 && ${NO_PASSWORD}` },
  ...RULES,
];
const UNIQUE = { unique: [{ name: 'code', paths: ['data.code'] }] };

const policyOf = (validate: object, more: object = {}): KubeObject =>
  admissionPolicy(NAME, { match: configMapsWith({ suite: NAMESPACE }), validate, ...more });

/** Replaces the policy, so that its lists lose what the new version does not have. */
const write = (policy: KubeObject) =>
  eventually('the write of the policy', async () => {
    const stored = await cluster.admin.get<Policy>(ADMISSION_POLICIES, { name: NAME });
    if (stored === undefined) return await cluster.admin.create(ADMISSION_POLICIES, policy);
    return await cluster.admin.replace(ADMISSION_POLICIES, {
      ...stored,
      ...policy,
      metadata: stored.metadata ?? {},
    });
  });

const create = (data: Readonly<Record<string, string>>) => {
  const place = { namespace: NAMESPACE, labels: { suite: NAMESPACE } };
  return cluster.admin.create<KubeObject>(configMaps, configMap(`any-${randomUUID()}`, data, place));
};
const createForbidden = () => create({ token: 'x' });

/** Who refused how many attempts while `work` ran, and when the API server stored one. */
async function whileTrying(
  work: (refusedBy: Readonly<Record<'APIServer' | 'webhook', number>>) => Promise<unknown>,
  attempt: () => Promise<unknown> = createForbidden,
) {
  const refusedBy = { APIServer: 0, webhook: 0 };
  const storedAt: number[] = [];
  let isOver = false;
  const tryAll = async () => {
    while (!isOver) {
      try {
        await attempt();
        storedAt.push(performance.now());
      } catch (error) {
        const message = messageOf(error);
        if (message.includes('ValidatingAdmissionPolicy')) refusedBy.APIServer += 1;
        else if (message.includes('webhook')) refusedBy.webhook += 1;
        else throw error;
      }
    }
  };
  const trying = tryAll();
  try {
    await work(refusedBy);
  } finally {
    isOver = true;
    await trying;
  }
  return { refusedBy, storedAt };
}

const status = async (name = NAME) => (await cluster.admin.get<Policy>(ADMISSION_POLICIES, { name }))?.status;
const entries = async () =>
  (await webhooksOf(cluster, validatingWebhookConfigurations))
    .filter(({ rules }) => JSON.stringify(rules).includes('"configmaps"'))
    .map(({ name }) => (name.includes('.left.') ? 'left' : 'whole'));

const seeCompiled = (count: string, name = NAME) =>
  eventually(`${count} checks of the API server`, async () => (await status(name))?.compiled === count);
const seeEntries = (wanted: readonly string[]) =>
  eventually(`entries ${wanted.join()}`, async () => (await entries()).join() === wanted.join());

test('the policy is in force', async () => {
  // In the same scope: only the webhook can judge it.
  const match = { ...configMapsWith({ suite: NAMESPACE }), resources: ['services'] };
  const rules = [{ name: 'name', expression: 'object.metadata.name != "bad"' }];
  await cluster.apply(admissionPolicy('neighbour', { match, validate: { rules }, compile: 'Never' }));
  await seeInForce(cluster, 'neighbour');
  await write(policyOf({ rules: RULES }));
  await seeInForce(cluster, NAME);
  await untilRefused('the forbidden ConfigMap', 'no token', createForbidden);
  await seeCompiled('1/1');
  await seeEntries(['left']);
});

test('updates, a rollback, and an update before the last one is confirmed', async () => {
  const { refusedBy, storedAt } = await whileTrying(async () => {
    await write(policyOf({ rules: WITH_PASSWORD }));
    await seeCompiled('2/2');
    await seeEntries(['left']);
    await write(policyOf({ rules: RULES, ...UNIQUE }));
    await eventually('the withdrawal', async () => (await status())?.confirmed === undefined);
    await write(policyOf({ rules: WITH_PASSWORD, ...UNIQUE }));
    await seeCompiled('2/3');
    await write(policyOf({ rules: RULES }));
    await seeCompiled('1/1');
    await seeEntries(['left']);
  });
  expect(storedAt).toEqual([]);
  expect(refusedBy.APIServer).toBeGreaterThan(0);
});

test('checks go back to the webhook, and return', async () => {
  const { storedAt } = await whileTrying(async (refusedBy) => {
    await write(policyOf({ rules: RULES }, { compile: 'Never' }));
    await eventually(
      'no compiled policy',
      async () => (await cluster.admin.get(POLICIES, COMPILED).catch(() => undefined)) === undefined,
    );
    await seeEntries(['whole']);
    // The API server enforces the compiled policy for up to a second after its deletion.
    await eventually('a refusal by the webhook', () => Promise.resolve(refusedBy.webhook > 0));
    await write(policyOf({ rules: MISTYPED }));
    await seeCompiled('0/2');
    await eventually(
      'the reason',
      async () => (await status())?.enforcedBy?.[0]?.reason !== 'spec.compile is Never',
    );
    await write(policyOf({ rules: RULES }));
    await seeCompiled('1/1');
  });
  expect(storedAt).toEqual([]);
});

test('a check that fails the type check of kube-controller-manager leaves alone, also after a restart, until the spec changes', async () => {
  const installed = async () =>
    await Promise.all([POLICIES, BINDINGS].map((kind) => cluster.admin.get<KubeObject>(kind, COMPILED)));
  const versions = async () => (await installed()).map((object) => versionOf(object ?? {}));
  let attempts = 0;
  const attempt = () => create((attempts += 1) % 2 === 0 ? { token: 'x' } : { password: 'x' });
  await seeEntries(['left']); // the write that narrows the entry has arrived
  await write(policyOf({ rules: MISTYPED }));
  await untilRefused('the password', 'mistyped', () => create({ password: 'x' }));
  const { refusedBy, storedAt } = await whileTrying(async () => {
    await eventually('both checks in the API server', async () =>
      JSON.stringify(await installed()).includes('password'),
    );
    await seeCompiled('1/2');
    const reason = expect.stringMatching(/about its expression: .*no matching overload/) as string;
    expect((await status())?.enforcedBy).toEqual([
      { check: 'rule mistyped', by: 'Webhook', reason, warnedGeneration: expect.any(Number) as number },
      { check: 'rule token', by: 'APIServer' },
    ]);
    await seeEntries(['whole']);
    expect(JSON.stringify(await installed())).toMatch(/^(?!.*password).*no token/);
    const before = await versions();
    replica.program.kill('SIGKILL');
    await replica.program.exited;
    await start();
    const match = configMapsWith({ suite: 'other' });
    await cluster.apply(admissionPolicy('other', { match, validate: { rules: RULES } }));
    await seeCompiled('1/1', 'other'); // the new leader compares all policies in each pass
    expect([await versions(), (await status())?.compiled]).toEqual([before, '1/2']);
    await cluster.admin.delete(ADMISSION_POLICIES, { name: 'other' });
  }, attempt);
  expect(storedAt).toEqual([]);
  expect(refusedBy.APIServer).toBeGreaterThan(0);
  await write(policyOf({ rules: [{ name: 'mistyped', expression: NO_PASSWORD }, ...RULES] }));
  await seeCompiled('2/2');
  await seeEntries(['left']);
});

test('kill -9 in the middle of an update', async () => {
  const { storedAt } = await whileTrying(async () => {
    await write(policyOf({ rules: WITH_PASSWORD }));
    await eventually('the withdrawal', async () => (await status())?.confirmed === undefined);
    replica.program.kill('SIGKILL');
    await replica.program.exited;
    await start();
    await seeCompiled('2/2');
    await seeEntries(['left']);
    replica.program.kill('SIGKILL');
    await replica.program.exited;
    await create({ fine: 'x' }); // needs no replica
    await start();
    await seeEntries(['left']);
    await write(policyOf({ rules: RULES }));
    await seeCompiled('1/1');
  });
  expect(storedAt).toEqual([]);
});

/** The entry is back by then. */
const LAG_MS = SLOW_MS + 2_000;

test('a compiled policy that is deleted or weakened by hand is missed briefly, and repaired', async () => {
  let changedAt = 0;
  const repaired = async (isAsBefore: (text: string) => boolean) => {
    await eventually('the repair, and its confirmation', async () => {
      const policy = await cluster.admin.get<KubeObject>(POLICIES, COMPILED);
      const binding = await cluster.admin.get<KubeObject>(BINDINGS, COMPILED);
      if (policy === undefined || binding === undefined) return false;
      const isOf = (pair: ConfirmedPair) =>
        pair.policy === versionOf(policy) && pair.binding === versionOf(binding);
      return (
        isAsBefore(JSON.stringify([policy, binding])) &&
        (await status())?.confirmed?.pairs.some(isOf) === true
      );
    });
    await seeCompiled('1/1');
    await seeEntries(['left']);
  };
  for (const change of [
    () => cluster.admin.delete(POLICIES, COMPILED),
    () => cluster.admin.delete(BINDINGS, COMPILED),
    async () => {
      const binding = (await cluster.admin.get<KubeObject & { readonly spec: object }>(
        BINDINGS,
        COMPILED,
      )) ?? { spec: {} };
      await cluster.admin.replace(BINDINGS, {
        ...binding,
        spec: { ...binding.spec, validationActions: ['Warn'] },
      });
    },
  ]) {
    const { storedAt } = await whileTrying(async () => {
      changedAt = performance.now();
      await change();
      await repaired((text) => text.includes('no token') && text.includes('"Deny"'));
    });
    expect(storedAt.filter((at) => at > changedAt + LAG_MS)).toEqual([]);
  }
});

test('an API server that stops serving the kinds', async () => {
  const { storedAt } = await whileTrying(async () => {
    hidden = 'all';
    proxy.breakWatches((path) => path.includes('/validatingadmissionpolic'));
    await seeEntries(['whole']);
    await eventually(
      'the reason',
      async () => (await status())?.enforcedBy?.[0]?.reason?.includes('serves no') === true,
    );
    await sleep(LAG_MS); // until the API server calls the webhook
    await cluster.admin.delete(POLICIES, COMPILED);
    await sleep(2 * LAG_MS);
  });
  expect(storedAt).toEqual([]);
  hidden = 'none';
});

test('an API server that stops serving MutatingAdmissionPolicies: the defaults return to the webhook', async ({
  skip,
}) => {
  skip(!isServed, 'this API server serves no MutatingAdmissionPolicies');
  const isNarrow = async () =>
    (await webhooksOf(cluster, mutatingWebhookConfigurations)).some(({ name }) => name.includes('.left.'));
  await write(policyOf({ rules: RULES }, { defaults: [{ path: 'data.tier', value: 'gold' }] }));
  await seeCompiled('2/2');
  await eventually('the narrow entry', isNarrow);
  hidden = 'mutating';
  proxy.breakWatches((path) => path.includes('/mutatingadmissionpolic'));
  await seeCompiled('1/2');
  expect((await status())?.enforcedBy).toEqual([
    { check: 'rule token', by: 'APIServer' },
    {
      check: 'defaults',
      by: 'Webhook',
      reason: 'the API server serves no MutatingAdmissionPolicies: it does from Kubernetes 1.36 on',
    },
  ]);
  await eventually('the whole entry', async () => !(await isNarrow()));
  await cluster.admin.delete(mutatingAdmissionPolicies, { name: `${NAME}.changes.gatehouse.dev` });
  await sleep(2_000); // the API server takes policies over once a second
  const object = configMap('a', {}, { namespace: NAMESPACE, labels: { suite: NAMESPACE } });
  expect(await cluster.admin.create(configMaps, object, { dryRun: true })).toMatchObject({
    data: { tier: 'gold' },
  });
});

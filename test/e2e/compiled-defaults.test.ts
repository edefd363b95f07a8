// suite: shared-plane, sandbox: long
/**
 * Defaults and mutations that the leader hands to the API server, as a MutatingAdmissionPolicy. A client creates objects without a
 * pause, and looks for one without them.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { LiveWebhookConfiguration } from '../../src/admission/webhooks/dev-entries.ts';
import type { AdmissionPolicyStatus } from '../../src/api/admission-policy.ts';
import { readManifests } from '../../src/cli/deploy-manifests.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import {
  configMaps,
  mutatingAdmissionPolicies as POLICIES,
  mutatingAdmissionPolicyBindings as BINDINGS,
  mutatingWebhookConfigurations,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../../src/kube/well-known.ts';
import { hasMutatingPolicies } from '../support/backstop.ts';
import { ADMISSION_POLICIES, createNamespace, type Cluster } from '../support/cluster.ts';
import { USERS } from '../support/control-plane-users.ts';
import { seeInForce, startGatehouse } from '../support/gatehouse-cluster.ts';
import { arrangementOf, type Replica } from '../support/gatehouse.ts';
import { permissionsOf, permissionsUsed, refusedTo, rolesIn } from '../support/grants.ts';
import { eventually } from '../support/processes.ts';
import { admissionPolicy, type ConfigMap } from '../support/objects.ts';

interface Policy extends KubeObject {
  readonly status?: AdmissionPolicyStatus;
}

interface Compiled extends KubeObject {
  readonly spec: object;
}

const NAME = 'tiers';
const COMPILED = { name: `${NAME}.changes.gatehouse.dev` };
const NAMESPACE = 'tiers';
const ACCOUNTS = (
  arrangementOf('both') === 'split' ? (['controllers', 'webhook'] as const) : (['gatehouse'] as const)
).map((user) => USERS[user].name);

let cluster: Cluster;
let replica: Replica;
let isServed: boolean;
const OLDER = 'this API server serves no MutatingAdmissionPolicies';

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    arrangement: 'both',
    settings: { 'compile-policies': 'true' },
    prepare: (prepared) => prepared.applyFolder('components/compile-policies'),
  }));
  isServed = hasMutatingPolicies(cluster);
  await createNamespace(cluster, NAMESPACE);
});

afterAll(() => cluster.stop());

const specOf = (tier: string) => ({
  match: {
    ...{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'] },
    objectSelector: { matchLabels: { suite: NAMESPACE } },
  },
  defaults: [{ path: 'data.tier', value: tier }],
  mutations: [
    { name: 'shown', expression: '{"metadata": {"annotations": {"tier": string(object.data.tier)}}}' },
    {
      ...{ name: 'bare', type: 'JSONPatch', condition: 'has(object.data.draft)' },
      expression: '[{"op": "remove", "path": "/data/draft"}]',
    },
  ],
  restore: { mutations: 'Apply' },
  validate: { rules: [{ name: 'no-token', expression: '!("token" in object.?data.orValue({}))' }] },
});

/** The tier of a new object, if all changes have been made. */
async function tierOfNew(): Promise<string | undefined> {
  const created = await cluster.admin.create<ConfigMap>(
    configMaps,
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { generateName: 'box-', namespace: NAMESPACE, labels: { suite: NAMESPACE } },
      ...{ data: { draft: 'x' } },
    },
    { dryRun: true },
  );
  const { data = {}, metadata } = created;
  const isComplete = metadata?.annotations?.tier === data.tier && data.draft === undefined;
  return isComplete ? data.tier : JSON.stringify(created);
}

/** Creates objects while `work` runs. @returns the tiers that it saw, without repetitions */
async function tiersDuring(work: () => Promise<unknown>): Promise<readonly (string | undefined)[]> {
  const seen: (string | undefined)[] = [];
  let isDone = false;
  const watching = (async () => {
    while (!isDone) {
      const tier = await tierOfNew();
      if (seen.at(-1) !== tier || seen.length === 0) seen.push(tier);
      await sleep(5);
    }
  })();
  await work().finally(() => (isDone = true));
  await watching;
  return seen;
}

const status = async () => (await cluster.admin.get<Policy>(ADMISSION_POLICIES, { name: NAME }))?.status;
const enforcerOfDefaults = async () =>
  (await status())?.enforcedBy?.find(({ check }) => check === 'defaults');
const seeCompiled = (count: string) =>
  eventually(`${count} checks of the API server`, async () => (await status())?.compiled === count);
const compiled = () => cluster.admin.get(POLICIES, COMPILED);

const entries = async () => {
  const found = await cluster.admin.get<LiveWebhookConfiguration>(mutatingWebhookConfigurations, {
    name: 'gatehouse',
  });
  return (found?.webhooks ?? []).filter(({ rules }) => JSON.stringify(rules).includes('"configmaps"'));
};

test('the webhook fills before the API server does', async () => {
  await cluster.apply(admissionPolicy(NAME, specOf('gold')));
  await seeInForce(cluster, NAME);
  await eventually('the default', async () => (await tierOfNew()) === 'gold');
});

test('an older API server leaves the changes to the webhook', async ({ skip }) => {
  skip(isServed, 'this API server serves MutatingAdmissionPolicies');
  await seeCompiled('1/4');
  expect((await enforcerOfDefaults())?.reason).toContain('serves no');
});

test('the API server takes the changes over, and the webhook is asked about what is left only', async ({
  skip,
}) => {
  skip(!isServed, OLDER);
  const tiers = await tiersDuring(async () => {
    await seeCompiled('4/4');
    await eventually('the entry for what is left', async () => (await entries())[0]?.name.includes('.left.'));
    await sleep(1_000);
  });
  expect(tiers).toEqual(['gold']);
});

test('a new default follows, and no object is without one', async ({ skip }) => {
  skip(!isServed, OLDER);
  const tiers = await tiersDuring(async () => {
    await cluster.apply(admissionPolicy(NAME, specOf('silver')));
    await eventually('silver', async () => (await tierOfNew()) === 'silver');
    await seeCompiled('4/4');
  });
  expect(tiers.filter((tier) => tier !== 'gold' && tier !== 'silver')).toEqual([]);
  expect(await tierOfNew()).toBe('silver');
});

test('what others change is reverted, and a deleted policy is installed again', async ({ skip }) => {
  skip(!isServed, OLDER);
  const checks = { name: `${NAME}.policies.gatehouse.dev` };
  const selector = { matchResources: { objectSelector: { matchLabels: { other: 'x' } } } };
  for (const [kind, ref, change] of [
    [POLICIES, COMPILED, { failurePolicy: 'Ignore' }],
    [BINDINGS, COMPILED, selector],
    [validatingAdmissionPolicies, checks, { failurePolicy: 'Ignore' }],
    [validatingAdmissionPolicyBindings, checks, { validationActions: ['Warn'] }],
  ] as const) {
    const stored = await cluster.admin.get<Compiled>(kind, ref);
    await cluster.admin.replace(kind, { ...stored, spec: { ...stored?.spec, ...change } });
    const isReverted = async () =>
      isDeepStrictEqual((await cluster.admin.get<Compiled>(kind, ref))?.spec, stored?.spec);
    await eventually(`the ${kind.kind}`, isReverted);
  }
  await cluster.admin.delete(POLICIES, COMPILED);
  await eventually('the policy', async () => (await compiled()) !== undefined);
  await seeCompiled('4/4');
});

test('the webhook takes the defaults back before the order of two policies could matter', async ({
  skip,
}) => {
  skip(!isServed, OLDER);
  const { match } = specOf('');
  const mutations = [
    {
      name: 'tier',
      condition: 'object.?data.tier.orValue("") == "none"',
      expression: '{"data": {"tier": "some"}}',
    },
  ];
  const other = admissionPolicy('zz-other', { match, mutations });
  const tiers = await tiersDuring(async () => {
    await cluster.apply(other);
    await seeCompiled('1/4');
    await eventually('no compiled policy', async () => (await compiled()) === undefined);
    expect((await enforcerOfDefaults())?.reason).toContain('AdmissionPolicy zz-other');
    await cluster.admin.delete(ADMISSION_POLICIES, { name: 'zz-other' });
    await seeCompiled('4/4');
  });
  expect(tiers).toEqual(['silver']);
});

test('a policy with compile: Never is removed', async ({ skip }) => {
  skip(!isServed, OLDER);
  const tiers = await tiersDuring(async () => {
    await cluster.apply(admissionPolicy(NAME, { ...specOf('silver'), compile: 'Never' }));
    await eventually('no compiled policy', async () => (await compiled()) === undefined);
    await cluster.apply(admissionPolicy(NAME, { ...specOf('silver'), compile: 'Auto' }));
    await seeCompiled('4/4');
  });
  expect(tiers).toEqual(['silver']);
});

test('while every replica is down, the API server fills the defaults and applies the mutations', async ({
  skip,
}) => {
  skip(!isServed, OLDER);
  await cluster.apply(admissionPolicy(NAME, { ...specOf('bronze'), failurePolicy: 'Ignore' }));
  await eventually('bronze', async () => (await tierOfNew()) === 'bronze');
  await seeCompiled('4/4');
  replica.program.kill('SIGKILL');
  await replica.program.exited;
  expect(await tierOfNew()).toBe('bronze');
});

// The API server logs a watch when it ends.
test('the component grants what Gatehouse used, and no more', () => {
  const log = cluster.plane.auditLog();
  const folder = join(import.meta.dirname, '..', '..', 'deploy', 'components', 'compile-policies');
  const granted = rolesIn(readManifests(folder)).flatMap(permissionsOf);
  const used = ACCOUNTS.flatMap((account) => [...permissionsUsed(log, account)]);
  if (isServed) expect(granted.filter((one) => !used.includes(one))).toEqual([]);
  expect(ACCOUNTS.flatMap((account) => refusedTo(log, account))).toEqual([]);
});

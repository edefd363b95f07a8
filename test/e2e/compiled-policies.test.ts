// suite: shared-plane, sandbox: long
/**
 * Checks that the leader hands to the API server, with the permissions of deploy/components/compile-policies, which
 * compiled-defaults.test.ts compares with those that it uses.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { AdmissionPolicyStatus } from '../../src/api/admission-policy.ts';
import type { LiveWebhookConfiguration } from '../../src/admission/webhooks/dev-entries.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import {
  configMaps,
  validatingAdmissionPolicies as POLICIES,
  validatingAdmissionPolicyBindings as BINDINGS,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { ADMISSION_POLICIES, createNamespace, type Cluster } from '../support/cluster.ts';
import { refusal, seeInForce, startGatehouse, untilRefused } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';
import { admissionPolicy, referencesRole } from '../support/objects.ts';

interface Policy extends KubeObject {
  readonly spec: { readonly compile?: string };
  readonly status?: AdmissionPolicyStatus;
}

interface Compiled extends KubeObject {
  readonly spec: object;
}

const NAME = 'passwords';
const COMPILED = { name: `${NAME}.policies.gatehouse.dev` };
const NAMESPACE = 'compiled';

let cluster: Cluster;
let replica: Replica;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    arrangement: 'both',
    settings: { 'compile-policies': 'true' },
    prepare: async (prepared) => {
      await prepared.applyFolder('components/compile-policies');
      await prepared.apply(referencesRole('passwords', '', ['configmaps']));
    },
  }));
  await createNamespace(cluster, NAMESPACE);
});

afterAll(() => cluster.stop());

const rules = (word: string) => [
  { name: 'no-secret', expression: `!("${word}" in object.?data.orValue({}))`, message: `no ${word}` },
];
const RULES_ONLY = { rules: rules('password') };

const specOf = (word: string) => ({
  match: {
    apiGroups: [''],
    apiVersions: ['v1'],
    resources: ['configmaps'],
    objectSelector: { matchLabels: { suite: NAMESPACE } },
  },
  validate: {
    immutable: ['data.region'],
    rules: rules(word),
    unique: [{ name: 'code', paths: ['data.code'] }],
  },
});

const passwords = (word: string, more: object = {}): KubeObject =>
  admissionPolicy(NAME, { ...specOf(word), ...more });

const create = (name: string, data: Readonly<Record<string, string>>) =>
  cluster.admin.create<KubeObject>(configMaps, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace: NAMESPACE, labels: { suite: NAMESPACE } },
    ...{ data },
  });

const policy = async () => await cluster.admin.get<Policy>(ADMISSION_POLICIES, { name: NAME });
const compiled = async () => await cluster.admin.get<Compiled>(POLICIES, COMPILED);
const enforcers = async () => (await policy())?.status?.enforcedBy ?? [];

const seeCompiled = (count: string) =>
  eventually(`${count} checks of the API server`, async () => (await policy())?.status?.compiled === count);

test('who enforces each check, and why', async () => {
  await cluster.apply(passwords('password'));
  await seeInForce(cluster, NAME);
  await seeCompiled('2/3');
  expect(await enforcers()).toEqual([
    { check: 'immutable data.region', by: 'APIServer' },
    { check: 'rule no-secret', by: 'APIServer' },
    { check: 'unique code', by: 'Webhook', reason: 'it compares with all other objects' },
  ]);
  await untilRefused('a wrong ConfigMap', 'ValidatingAdmissionPolicy', () =>
    create(`wrong-${randomUUID()}`, { password: 'x' }),
  );
});

const webhooks = async () => {
  const found = await cluster.admin.get<LiveWebhookConfiguration>(validatingWebhookConfigurations, {
    name: 'gatehouse',
  });
  return (found?.webhooks ?? []).filter(({ rules }) => JSON.stringify(rules).includes('"configmaps"'));
};

test('a check that the API server enforces has one judge', async () => {
  const metric = async () => {
    const text = await replica.metrics();
    return [...text.matchAll(/^gatehouse_admission_requests_total.*$/gm)].join('\n');
  };
  expect((await webhooks()).map(({ name }) => name)).toEqual([expect.not.stringContaining('.left.')]);
  await cluster.apply({
    ...passwords('password'),
    ...{ spec: { ...specOf('password'), validate: RULES_ONLY } },
  });
  await seeCompiled('1/1');
  await eventually('the entry for what is left', async () => (await webhooks())[0]?.name.includes('.left.'));
  expect(JSON.stringify(await webhooks())).toContain('deletionTimestamp');
  const before = await metric();
  expect((await refusal(create('wrong', { password: 'x' }))).message).toContain('ValidatingAdmissionPolicy');
  await create(`right-${randomUUID()}`, { fine: 'x' });
  expect(await metric()).toBe(before);
  await cluster.apply(passwords('password'));
  await seeCompiled('2/3');
});

test('a policy on creations alone has no webhook entry', async () => {
  const match = { ...specOf('password').match, operations: ['CREATE'] };
  await cluster.apply({ ...passwords('password'), ...{ spec: { match, validate: RULES_ONLY } } });
  await seeCompiled('1/1');
  await eventually('no entry', async () => (await webhooks()).length === 0);
  await eventually(
    'Ready',
    async () => (await policy())?.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True',
  );
  expect((await refusal(create('wrong', { password: 'x' }))).message).toContain('ValidatingAdmissionPolicy');
  await cluster.apply(passwords('password'));
  await seeCompiled('2/3');
});

test('a warning of the type check keeps the checks in the webhook', async () => {
  const rules = [{ expression: 'object.?data.x.orValue("a") != 5' }];
  await cluster.apply({
    ...passwords('password'),
    ...{ spec: { ...specOf('password'), validate: { rules } } },
  });
  await seeCompiled('0/1');
  await eventually(
    'the warning',
    async () => (await enforcers())[0]?.reason?.includes('no matching overload') === true,
  );
  await cluster.apply(passwords('password'));
  await seeCompiled('2/3');
});

test('changes by others are reverted, and changes of the policy follow', async () => {
  const stored = await compiled();
  const spec = { ...stored?.spec, validations: [{ expression: 'true' }] };
  await cluster.admin.replace(POLICIES, { ...stored, ...{ spec } });
  const binding = await cluster.admin.get<Compiled>(BINDINGS, COMPILED);
  await cluster.admin.replace(BINDINGS, {
    ...binding,
    ...{ spec: { ...binding?.spec, validationActions: ['Warn'] } },
  });
  await cluster.apply(passwords('token'));
  const has = async (kind: Resource, part: string) =>
    JSON.stringify(await cluster.admin.get(kind, COMPILED)).includes(part);
  await eventually('the binding', () => has(BINDINGS, '"validationActions":["Deny"]'));
  await eventually('the new rule', () => has(POLICIES, 'no token'));
});

test('a policy with compile: Never is not installed', async () => {
  await cluster.apply(passwords('token', { compile: 'Never' }));
  await eventually('no compiled policy', async () => (await compiled()) === undefined);
  const reason = async () => (await enforcers())[0]?.reason === 'spec.compile is Never';
  await eventually('the reason', reason);
  expect(await cluster.admin.get(BINDINGS, COMPILED)).toBeUndefined();
  await cluster.apply(passwords('token'));
  await eventually('the compiled policy', async () => (await compiled()) !== undefined);
});

test('an object of the same name that Gatehouse has not installed stays', async () => {
  const name = 'foreign.policies.gatehouse.dev';
  const spec = { matchConstraints: { resourceRules: [] }, validations: [{ expression: 'true' }] };
  const foreign = { apiVersion: 'admissionregistration.k8s.io/v1', kind: 'ValidatingAdmissionPolicy' };
  await cluster.admin.create(POLICIES, {
    ...foreign,
    metadata: { name },
    ...{ spec: { ...spec, matchConstraints: { resourceRules: [RULE] } } },
  });
  const other = passwords('foreign');
  await cluster.apply({ ...other, metadata: { name: 'foreign' } });
  await eventually('the reason', async () =>
    JSON.stringify(
      (await cluster.admin.get<Policy>(ADMISSION_POLICIES, { name: 'foreign' }))?.status,
    ).includes(`there is a ValidatingAdmissionPolicy ${name} that Gatehouse has not installed`),
  );
  await cluster.admin.delete(ADMISSION_POLICIES, { name: 'foreign' });
  await cluster.admin.delete(POLICIES, { name });
});

const RULE = { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] };

test('while every replica is down, the API server refuses what it enforces, in the same words', async () => {
  await cluster.apply(passwords('token', { failurePolicy: 'Ignore' }));
  await seeInForce(cluster, NAME);
  const stored = await create('berlin', { region: 'berlin' });
  await untilRefused('a wrong ConfigMap', 'ValidatingAdmissionPolicy', () =>
    create(`wrong-${randomUUID()}`, { token: 'x' }),
  );
  replica.program.kill('SIGKILL');
  await replica.program.exited;
  expect((await refusal(create('wrong', { token: 'x' }))).message).toContain('no token (rule no-secret)');
  const change = cluster.admin.replace(configMaps, { ...stored, ...{ data: { region: 'rome' } } });
  expect((await refusal(change)).message).toContain('data.region: was set and cannot be changed');
});

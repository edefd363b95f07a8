// suite: shared-plane, sandbox: long
/** What the leader hands to the API server: checks as ValidatingAdmissionPolicies, defaults and mutations as MutatingAdmissionPolicies. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { type AdmissionPolicyStatus } from '../../src/api/admission-policy.ts';
import { readManifests } from '../../src/cli/deploy-manifests.ts';
import { type KubeObject, splitApiVersion } from '../../src/json/kube-object.ts';
import { type Resource } from '../../src/kube/object.ts';
import {
  configMaps,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
  pods,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { hasMutatingPolicies } from '../support/backstop.ts';
import {
  ADMISSION_POLICIES,
  createNamespace,
  type Cluster,
  applyExamples,
  DATACENTERS,
  established,
  SERVERS,
} from '../support/cluster.ts';
import { USERS } from '../support/control-plane-users.ts';
import {
  refusal,
  seeInForce,
  startGatehouse,
  untilRefused,
  webhooksOf,
} from '../support/gatehouse-cluster.ts';
import { arrangementOf, type Replica } from '../support/gatehouse.ts';
import { permissionsOf, refusedTo, rolesIn, permissionsUsed } from '../support/grants.ts';
import {
  admissionPolicy,
  referencesRole,
  type ConfigMap,
  datacenter,
  server,
  configMap,
  configMapsWith,
} from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { messageOf } from '../../src/json/abort.ts';
import { listIn, valueIn } from '../../src/json/json.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createDiscovery } from '../../src/kube/discovery.ts';
import {
  compileFolder,
  LIBRARY,
  libraryCases,
  SUITES,
  wordsOf,
  type LibraryCase,
} from '../support/policy-library.ts';

interface Policy extends KubeObject {
  readonly status?: AdmissionPolicyStatus;
}

interface Compiled extends KubeObject {
  readonly spec: object;
}

const NAMESPACE = 'compiled';
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
    prepare: async (prepared) => {
      await prepared.applyFolder('components/compile-policies');
      await prepared.apply(referencesRole('passwords', '', ['configmaps']));
    },
  }));
  isServed = hasMutatingPolicies(cluster);
  await createNamespace(cluster, NAMESPACE);
});

afterAll(() => cluster.stop());

const statusOf = async (name: string) =>
  (await cluster.admin.get<Policy>(ADMISSION_POLICIES, { name }))?.status;

const seeCompiled = (name: string, count: string) =>
  eventually(`${count} checks of the API server`, async () => (await statusOf(name))?.compiled === count);

/** The webhook entries for ConfigMaps. */
const entriesIn = async (kind: Resource) =>
  (await webhooksOf(cluster, kind)).filter(({ rules }) => JSON.stringify(rules).includes('"configmaps"'));

describe('checks', () => {
  const NAME = 'passwords';

  afterAll(() => cluster.admin.delete(ADMISSION_POLICIES, { name: NAME }));

  const rules = (word: string) => [
    { name: 'no-secret', expression: `!("${word}" in object.?data.orValue({}))`, message: `no ${word}` },
  ];
  const RULES_ONLY = { rules: rules('password') };

  const specOf = (word: string) => ({
    match: configMapsWith({ suite: NAME }),
    validate: {
      immutable: ['data.region'],
      rules: rules(word),
      unique: [{ name: 'code', paths: ['data.code'] }],
    },
  });

  const passwords = (word: string, more: object = {}): KubeObject =>
    admissionPolicy(NAME, { ...specOf(word), ...more });

  const create = (name: string, data: Readonly<Record<string, string>>) =>
    cluster.admin.create<KubeObject>(
      configMaps,
      configMap(name, data, { namespace: NAMESPACE, labels: { suite: NAME } }),
    );

  const enforcers = async () => (await statusOf(NAME))?.enforcedBy ?? [];

  test('who enforces each check, and why', async () => {
    await cluster.apply(passwords('password'));
    await seeInForce(cluster, NAME);
    await seeCompiled(NAME, '2/3');
    expect(await enforcers()).toEqual([
      { check: 'immutable data.region', by: 'APIServer' },
      { check: 'rule no-secret', by: 'APIServer' },
      { check: 'unique code', by: 'Webhook', reason: 'it compares with all other objects' },
    ]);
    await untilRefused('a wrong ConfigMap', 'ValidatingAdmissionPolicy', () =>
      create(`wrong-${randomUUID()}`, { password: 'x' }),
    );
  });

  const webhooks = () => entriesIn(validatingWebhookConfigurations);

  test('the webhook does not repeat a check that the API server enforces', async () => {
    const metric = async () => {
      const text = await replica.metrics();
      return [...text.matchAll(/^gatehouse_admission_requests_total.*$/gm)].join('\n');
    };
    expect((await webhooks()).map(({ name }) => name)).toEqual([expect.not.stringContaining('.left.')]);
    await cluster.apply({
      ...passwords('password'),
      ...{ spec: { ...specOf('password'), validate: RULES_ONLY } },
    });
    await seeCompiled(NAME, '1/1');
    await eventually('the entry for what is left', async () =>
      (await webhooks())[0]?.name.includes('.left.'),
    );
    expect(JSON.stringify(await webhooks())).toContain('deletionTimestamp');
    const before = await metric();
    expect((await refusal(create('wrong', { password: 'x' }))).message).toContain(
      'ValidatingAdmissionPolicy',
    );
    await create(`right-${randomUUID()}`, { fine: 'x' });
    expect(await metric()).toBe(before);
    await cluster.apply(passwords('password'));
    await seeCompiled(NAME, '2/3');
  });

  test('a policy with compile: Never is not installed', async () => {
    const compiled = () =>
      cluster.admin.get(validatingAdmissionPolicies, { name: `${NAME}.policies.gatehouse.dev` });
    await cluster.apply(passwords('password', { compile: 'Never' }));
    await eventually('no compiled policy', async () => (await compiled()) === undefined);
    await eventually('the reason', async () => (await enforcers())[0]?.reason === 'spec.compile is Never');
    await cluster.apply(passwords('password'));
    await eventually('the compiled policy', async () => (await compiled()) !== undefined);
  });

  test('an object of the same name that Gatehouse has not installed stays', async () => {
    const name = 'foreign.policies.gatehouse.dev';
    const rule = { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] };
    const spec = { matchConstraints: { resourceRules: [rule] }, validations: [{ expression: 'true' }] };
    const foreign = { apiVersion: 'admissionregistration.k8s.io/v1', kind: 'ValidatingAdmissionPolicy' };
    await cluster.admin.create(validatingAdmissionPolicies, { ...foreign, metadata: { name }, spec });
    const other = passwords('foreign');
    await cluster.apply({ ...other, metadata: { name: 'foreign' } });
    await eventually('the reason', async () =>
      JSON.stringify(await statusOf('foreign')).includes(
        `there is a ValidatingAdmissionPolicy ${name} that Gatehouse has not installed`,
      ),
    );
    await cluster.admin.delete(ADMISSION_POLICIES, { name: 'foreign' });
    await cluster.admin.delete(validatingAdmissionPolicies, { name });
  });
});

describe('defaults and mutations', () => {
  const NAME = 'tiers';
  const COMPILED = { name: `${NAME}.changes.gatehouse.dev` };

  const specOf = (tier: string) => ({
    match: configMapsWith({ suite: NAME }),
    defaults: [{ path: 'data.tier', value: tier }],
    mutations: [
      { name: 'shown', expression: '{"metadata": {"annotations": {"tier": string(object.data.tier)}}}' },
      {
        name: 'bare',
        type: 'JSONPatch',
        condition: 'has(object.data.draft)',
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
      configMap(`box-${randomUUID()}`, { draft: 'x' }, { namespace: NAMESPACE, labels: { suite: NAME } }),
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

  const enforcerOfDefaults = async () =>
    (await statusOf(NAME))?.enforcedBy?.find(({ check }) => check === 'defaults');
  const compiled = () => cluster.admin.get(mutatingAdmissionPolicies, COMPILED);

  test('the webhook fills before the API server does', async () => {
    await cluster.apply(admissionPolicy(NAME, specOf('gold')));
    await seeInForce(cluster, NAME);
    await eventually('the default', async () => (await tierOfNew()) === 'gold');
  });

  test('the API server takes the changes over, and the webhook is asked about what is left only', async ({
    skip,
  }) => {
    skip(!isServed, OLDER);
    const tiers = await tiersDuring(async () => {
      await seeCompiled(NAME, '4/4');
      await eventually('the entry for what is left', async () =>
        (await entriesIn(mutatingWebhookConfigurations))[0]?.name.includes('.left.'),
      );
      await sleep(1_000);
    });
    expect(tiers).toEqual(['gold']);
  });

  test('a new default follows, and no object is without one', async ({ skip }) => {
    skip(!isServed, OLDER);
    const tiers = await tiersDuring(async () => {
      await cluster.apply(admissionPolicy(NAME, specOf('silver')));
      await eventually('silver', async () => (await tierOfNew()) === 'silver');
      await seeCompiled(NAME, '4/4');
    });
    expect(tiers.filter((tier) => tier !== 'gold' && tier !== 'silver')).toEqual([]);
    expect(await tierOfNew()).toBe('silver');
  });

  test('what others change is reverted, and a deleted policy is installed again', async ({ skip }) => {
    skip(!isServed, OLDER);
    const checks = { name: `${NAME}.policies.gatehouse.dev` };
    const selector = { matchResources: { objectSelector: { matchLabels: { other: 'x' } } } };
    for (const [kind, ref, change, more] of [
      [mutatingAdmissionPolicies, COMPILED, { failurePolicy: 'Ignore' }],
      [mutatingAdmissionPolicyBindings, COMPILED, selector],
      [validatingAdmissionPolicies, checks, { failurePolicy: 'Ignore' }],
      [validatingAdmissionPolicyBindings, checks, { validationActions: ['Warn'] }],
      [validatingAdmissionPolicyBindings, checks, { validationActions: ['Warn'] }, { labels: {} }], // no mark
    ] as const) {
      const stored = await cluster.admin.get<Compiled>(kind, ref);
      const metadata = { ...stored?.metadata, ...more };
      await cluster.admin.replace(kind, { ...stored, metadata, spec: { ...stored?.spec, ...change } });
      const isReverted = async () =>
        isDeepStrictEqual((await cluster.admin.get<Compiled>(kind, ref))?.spec, stored?.spec);
      await eventually(`the ${kind.kind}`, isReverted);
    }
    await cluster.admin.delete(mutatingAdmissionPolicies, COMPILED);
    await eventually('the policy', async () => (await compiled()) !== undefined);
    await seeCompiled(NAME, '4/4');
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
      await seeCompiled(NAME, '1/4');
      await eventually('no compiled policy', async () => (await compiled()) === undefined);
      expect((await enforcerOfDefaults())?.reason).toContain('AdmissionPolicy zz-other');
      await cluster.admin.delete(ADMISSION_POLICIES, { name: 'zz-other' });
      await seeCompiled(NAME, '4/4');
    });
    expect(tiers).toEqual(['silver']);
  });
});

test.each([
  ['the webhook', 'Never'],
  ['the API server', 'Auto'],
])('%s leaves immutable fields of existing Pods alone', async (_who, compile) => {
  const name = `hosts-${compile.toLowerCase()}`;
  const pod = (podName: string): KubeObject & { readonly spec: object } => ({
    metadata: { namespace: NAMESPACE, name: podName, labels: { suite: name } },
    spec: { containers: [{ name: 'main', image: 'main' }] },
  });
  await cluster.admin.create(pods, pod(`${name}-old`));
  const match = {
    apiGroups: [''],
    apiVersions: ['v1'],
    resources: ['pods'],
    objectSelector: { matchLabels: { suite: name } },
  };
  const defaults = [
    { path: 'spec.hostname', value: 'host' },
    { path: 'metadata.annotations.seen', value: 'yes' },
  ];
  await cluster.apply(admissionPolicy(name, { match, compile, defaults }));
  const { status } = await seeInForce(cluster, name);
  expect(status?.conditions).toContainEqual(
    expect.objectContaining({
      type: 'AppliedToUpdates',
      message: expect.stringContaining('spec.hostname does not apply to updates of pods') as string,
    }),
  );
  if (isServed && compile === 'Auto') await seeCompiled(name, '1/1');
  await eventually('the default of a new Pod', async () => {
    const created = await cluster.admin.create<Compiled>(pods, pod(`${name}-new`), { dryRun: true });
    return valueIn(created, 'spec', 'hostname') === 'host';
  });
  const change = { metadata: { labels: { team: 'a' } } };
  const old = { namespace: NAMESPACE, name: `${name}-old` };
  const labelled = await cluster.admin.patchMerge<KubeObject>(pods, old, change);
  expect(labelled).toMatchObject({ metadata: { ...change.metadata, annotations: { seen: 'yes' } } });
  expect(labelled).not.toHaveProperty('spec.hostname');
  await cluster.admin.delete(ADMISSION_POLICIES, { name }); // the next policy changes the same fields
});

test('a merge keeps the finalizers and containers of others', async () => {
  const name = 'merging';
  const match = {
    apiGroups: [''],
    apiVersions: ['v1'],
    resources: ['pods'],
    objectSelector: { matchLabels: { suite: name } },
  };
  const main = { name: 'main', image: 'main' };
  const change = {
    metadata: { finalizers: ['example.com/ours'] },
    spec: { initContainers: [{ name: 'ours', image: 'ours' }], containers: [{ name: 'main', tty: true }] },
  };
  const mutations = [{ name: 'ours', expression: JSON.stringify(change) }];
  await cluster.apply(admissionPolicy(name, { match, mutations, restore: { mutations: 'Apply' } }));
  await seeInForce(cluster, name);
  const pod = {
    metadata: {
      namespace: NAMESPACE,
      name,
      labels: { suite: name },
      finalizers: ['example.com/theirs'],
    },
    spec: { containers: [main], initContainers: [{ name: 'theirs', image: 'theirs' }] },
  };
  const create = () => cluster.admin.create<KubeObject>(pods, pod, { dryRun: true });
  await eventually('the merge', async () => listIn(await create(), 'spec', 'initContainers').length === 2);
  expect(await create()).toMatchObject({
    metadata: { finalizers: ['example.com/theirs', 'example.com/ours'] },
    spec: {
      containers: [{ ...main, tty: true }],
      initContainers: [{ name: 'theirs' }, { name: 'ours' }],
    },
  });
});

describe('the policies of deploy/examples outlive Gatehouse', () => {
  const UNSERVED_MUTATING =
    'the API server serves no MutatingAdmissionPolicies: it does from Kubernetes 1.36 on';
  const CONFIRMED = { timeoutMs: 90_000, everyMs: 500 };
  const EXAMPLES = compileFolder(join(LIBRARY, '..'));
  const POLICIES = [...EXAMPLES, ...compileFolder(LIBRARY)];
  const CHECKS = POLICIES.flatMap(({ name, checks }) =>
    checks.map((one) => ({ ...one, words: wordsOf(name, one.check) })),
  );

  /** `failurePolicy: Ignore`: with all replicas killed, only the API server itself can refuse. */
  const ignoring = (policy: KubeObject): KubeObject => ({
    ...policy,
    ...{ spec: { ...(policy as { readonly spec?: object }).spec, failurePolicy: 'Ignore' } },
  });

  beforeAll(async () => {
    await applyExamples(cluster);
    await cluster.admin.create(DATACENTERS, datacenter('fra1'));
    await createNamespace(cluster, 'racks');
    await cluster.applyFolder('examples/library', ({ kind }) => kind !== 'AdmissionPolicy');
    await established(cluster, 'replicalimits.policies.example.com');
    await cluster.apply(...readManifests(join(SUITES, 'objects')));
    for (const folder of ['..', '.'])
      await cluster.apply(
        ...readManifests(join(LIBRARY, folder))
          .filter(({ kind }) => kind === 'AdmissionPolicy')
          .map(ignoring),
      );
  });

  const enforcersOf = async (name: string) => (await statusOf(name))?.enforcedBy ?? [];

  test('status.enforcedBy says who enforces each check of the library, and why not the API server', async () => {
    for (const { name, checks } of POLICIES) {
      const wanted = checks.map(({ check, ...one }) => {
        if (one.by === 'Webhook') return { check, by: one.by, reason: one.reason };
        return one.part === 'changes' && !isServed
          ? { check, by: 'Webhook', reason: UNSERVED_MUTATING }
          : { check, by: one.by };
      });
      const isKnown = async () => {
        const found = await enforcersOf(name);
        return (
          JSON.stringify(found.map(({ by }) => by)) === JSON.stringify(wanted.map(({ by }) => by)) &&
          found.length > 0
        );
      };
      await eventually(`the enforcers of ${name}`, isKnown, CONFIRMED).catch(() => undefined);
      expect(await enforcersOf(name), name).toEqual(wanted);
    }
  });

  /** The kinds of the suites. */
  function createKinds() {
    const discovery = createDiscovery(cluster.adminRest, systemClock);
    return async ({ apiVersion = '', kind = '' }: KubeObject): Promise<Resource> => {
      const found = await discovery.resolveKind({ ...splitApiVersion(apiVersion), kind });
      if (found === undefined) throw new Error(`${kind} is not served`);
      return found;
    };
  }

  const UNKNOWN = 'the API server does not know a field, and left it out';

  function hasFieldsOf(sent: unknown, stored: unknown): boolean {
    if (typeof sent !== 'object' || sent === null) return true;
    if (typeof stored !== 'object' || stored === null) return false;
    const found = new Map<string, unknown>(Object.entries(stored));
    return Object.entries(sent).every(([key, value]) => found.has(key) && hasFieldsOf(value, found.get(key)));
  }

  const placed = (object: KubeObject, { namespaced }: Resource): KubeObject =>
    namespaced ? { ...object, metadata: { namespace: 'shop', ...object.metadata } } : object;

  /** Creates what a case changes or deletes. @returns the write of the case, as a dry run */
  async function prepare(
    { object, old, operation }: LibraryCase,
    index: number,
    resourceOf: ReturnType<typeof createKinds>,
  ): Promise<() => Promise<unknown>> {
    const resource = await resourceOf(object);
    const { admin } = cluster;
    const given = placed(object, resource);
    if (operation === undefined && old === undefined)
      return () => admin.create(resource, given, { dryRun: true });
    const before = placed(old ?? object, resource);
    const name = `${before.metadata?.name}-${index}`;
    const stored = await admin.create(resource, { ...before, metadata: { ...before.metadata, name } });
    const { metadata } = stored;
    const ref = { name, namespace: metadata.namespace };
    if (operation === 'DELETE') return () => admin.delete(resource, ref, { dryRun: true });
    const { labels = {} } = given.metadata ?? {};
    return () => admin.replace(resource, { ...given, metadata: { ...metadata, labels } }, { dryRun: true });
  }

  test('with all replicas killed, each check that compiles refuses in the same words, and the others need a replica', async () => {
    const resourceOf = createKinds();
    const writes = await Promise.all(
      libraryCases()
        .filter(({ expect: { decision } }) => decision === 'deny')
        .map(async (one, index) => ({ ...one, write: await prepare(one, index, resourceOf) })),
    );
    const stored = await cluster.admin.create(SERVERS, server('racks', 'web', 'fra1'));
    replica.program.kill('SIGKILL');
    await replica.program.exited;

    const filled = await cluster.admin.create(SERVERS, server('racks', 'db', 'fra1'), { dryRun: true });
    expect(valueIn(filled, 'spec', 'tier')).toBe(isServed ? 'standard' : undefined);
    const moved = cluster.admin.replace(SERVERS, { ...stored, ...{ spec: { datacenter: 'muc1' } } });
    const refusals = [(await refusal(moved)).message];
    const refusalOf = (write: () => Promise<unknown>, sent: unknown) =>
      write().then(
        (stored) => (hasFieldsOf(sent, stored) ? 'it was admitted' : UNKNOWN),
        (error: unknown) => messageOf(error),
      );
    const unknown: string[] = [];
    const others: { name: string; write: () => Promise<unknown>; object: KubeObject; message: string }[] = [];
    for (const {
      name,
      object,
      write,
      expect: { message = '' },
    } of writes) {
      const isLeft = CHECKS.some(
        ({ by, words: [check = ''] }) => by === 'Webhook' && message.includes(check),
      );
      if (isLeft) {
        await write();
        continue;
      }
      const said = await refusalOf(write, object);
      if (said === UNKNOWN) {
        unknown.push(name);
        continue;
      }
      expect(said, name).toContain('ValidatingAdmissionPolicy');
      // Of several policies that refuse, the API server names any one.
      if (said.includes(message)) refusals.push(said);
      else others.push({ name, write, object, message });
    }
    // Volumes of images came with Kubernetes 1.31, and are on by default since 1.35.
    const isOlder = cluster.plane.version.minor < 35;
    expect(unknown).toEqual(isOlder ? ['a volume with an image of another registry'] : []);
    for (const { name, write, object, message } of others)
      await eventually(`${name}: ${message}`, async () => {
        const said = await refusalOf(write, object);
        const [, binding] = /with binding '([^']+)'/.exec(said) ?? [];
        if (!said.includes(message) && binding !== undefined)
          await cluster.admin.delete(validatingAdmissionPolicyBindings, { name: binding });
        return said.includes(message) && refusals.push(said) > 0;
      });
    for (const { check, by, words } of CHECKS) {
      if (check === 'defaults') continue; // they refuse nothing
      const found = refusals.filter((said) => words.every((one) => said.includes(one)));
      expect(found.length > 0, `${check} ${words.join(' ')}`).toBe(by === 'APIServer');
    }
  });
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

// suite: shared-plane, sandbox: yes
/**
 * Complete policies against an API server: schemas, rules, mutations, warnings, exceptions, audit. Also the cases of
 * Kubernetes' conformance suite for webhooks (test/e2e/apimachinery/webhook.go), with the original test names.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { AdmissionPolicy } from '../../src/api/admission-policy.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import { POLICY_EXCEPTIONS } from '../../src/runtime/resources.ts';
import { configMaps, customResourceDefinitions, pods } from '../../src/kube/well-known.ts';
import {
  ADMISSION_POLICIES,
  createNamespace,
  DATACENTERS,
  SERVERS,
  type Cluster,
} from '../support/cluster.ts';
import { testsSandbox } from '../support/control-plane.ts';
import { ANY, definitionOf, versionOf, withSpec } from '../support/definitions.ts';
import {
  enforceExamples,
  refusal,
  seeInForce,
  startGatehouse,
  untilRefused,
  warningsOf,
} from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import {
  admissionPolicy,
  condition,
  datacenter,
  grant,
  isTrue,
  server,
  type Conditioned,
  type ConfigMap,
} from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

let cluster: Cluster;
let replica: Replica;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse());
  await enforceExamples(cluster);
  await createNamespace(cluster, 'exempt');
  await cluster.admin.patchMerge(
    { group: '', version: 'v1', resource: 'namespaces', kind: 'Namespace', namespaced: false },
    { name: 'exempt' },
    { metadata: { labels: { 'skip-webhook': 'yes' } } },
  );
});

afterAll(() => cluster.stop());

const configMap = (
  name: string,
  data: Readonly<Record<string, string>> = {},
  namespace = 'shop',
): ConfigMap => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace, name },
  data,
});

/** Applies a policy. Resolves when the API server calls its webhook: it then refuses `probe` with `why`. */
async function govern(name: string, spec: object, why: string, probe: () => Promise<unknown>): Promise<void> {
  await cluster.apply(admissionPolicy(name, spec));
  await seeInForce(cluster, name);
  await untilRefused(name, why, probe);
}

/** Like `govern`, for a policy that denies nothing: `probe` reports whether it is in force. */
async function changing(name: string, spec: object, probe: () => Promise<boolean>): Promise<void> {
  await cluster.apply(admissionPolicy(name, spec));
  await seeInForce(cluster, name);
  await eventually(`${name} changes objects`, async () => ((await probe()) ? true : undefined));
}

const release = async (name: string) => {
  await cluster.admin.delete(ADMISSION_POLICIES, { name });
};

const dryRun = { dryRun: true };

test('a PolicyException, written by a user who may write nothing else, exempts objects of its namespace until it expires', async () => {
  const large = (name: string, namespace = 'shop') => {
    const object = configMap(name, { a: '1', b: '2' }, namespace);
    return { ...object, metadata: { ...object.metadata, labels: { sized: 'yes' } } };
  };
  const spec = {
    match: { apiGroups: [''], resources: ['configmaps'], objectSelector: { matchLabels: { sized: 'yes' } } },
    validate: { rules: [{ name: 'small', expression: 'object.data.size() < 2', message: 'too large' }] },
    policyExceptions: 'Accept',
  };
  await govern('sized', spec, 'too large', () => cluster.admin.create(configMaps, large('probe'), dryRun));
  const rules = [
    { apiGroups: ['gatehouse.dev'], resources: ['policyexceptions'], verbs: ['create', 'patch'] },
  ];
  await cluster.apply(...grant('excuse', ['alice'], rules, 'shop'));
  const alice = await cluster.as('alice');
  const ref = { namespace: 'shop', name: 'legacy' };
  const exception = {
    apiVersion: 'gatehouse.dev/v1alpha1',
    kind: 'PolicyException',
    metadata: ref,
    spec: {
      policy: 'sized',
      checks: ['small'],
      objects: { names: ['old-*'] },
      reason: 'shrinks with the next release',
      expiresAt: '2036-01-01T00:00:00Z',
    },
  };
  const created = await eventually('alice may write exceptions', () =>
    alice.create<Conditioned>(POLICY_EXCEPTIONS, exception).catch(() => undefined),
  );
  // The replica may not have seen it yet: it then reads live instead of denying.
  expect(created.status).toEqual({ observedGeneration: -1 });
  await cluster.admin.create(configMaps, large('old-1'));
  for (const other of [large('new-1'), large('old-1', 'exempt')])
    expect(await refusal(cluster.admin.create(configMaps, other, dryRun))).toMatchObject({ code: 403 });
  const noted = await eventually('the audit annotation', () =>
    cluster.plane
      .auditLog()
      .find(
        ({ objectRef, annotations }) =>
          objectRef?.name === 'old-1' && JSON.stringify(annotations).includes('legacy'),
      ),
  );
  expect(Object.entries(noted.annotations ?? {})).toContainEqual([
    expect.stringMatching(/\/exceptions$/),
    'sized/shop/legacy',
  ]);
  await cluster.see<Conditioned>('it is in force', POLICY_EXCEPTIONS, ref, isTrue('Ready'));

  const expiresAt = new Date(Date.now() + 3_000);
  await alice.patchMerge(POLICY_EXCEPTIONS, ref, { spec: { expiresAt: expiresAt.toISOString() } });
  await eventually(
    'one second after its expiry',
    () => Date.now() > expiresAt.getTime() + 1_000 || undefined,
  );
  expect(await refusal(cluster.admin.create(configMaps, large('old-2')))).toMatchObject({ code: 403 });
  const ended = await cluster.see<Conditioned>('it has expired', POLICY_EXCEPTIONS, ref, isTrue('Stalled'));
  expect(ended.status?.conditions?.[0]).toMatchObject({ type: 'Ready', status: 'False', reason: 'Expired' });
  await cluster.admin.delete(configMaps, { namespace: 'shop', name: 'old-1' });
  await release('sized');
}, 60_000);

describe('AdmissionWebhook, as Kubernetes tests it', () => {
  test('should be able to deny pod and configmap creation', async () => {
    await govern(
      'deny-unwanted',
      {
        match: {
          apiGroups: [''],
          resources: ['pods', 'configmaps'],
          namespaceSelector: {
            matchExpressions: [{ key: 'skip-webhook', operator: 'NotIn', values: ['yes'] }],
          },
        },
        validate: {
          rules: [
            {
              name: 'unwanted',
              expression:
                'object.kind == "Pod" ? !object.spec.containers.exists(c, c.name == "webhook-disallow") : !has(object.data) || object.data.all(k, object.data[k] != "webhook-disallow")',
              message: 'this is unwanted in this cluster',
            },
          ],
        },
      },
      'unwanted',
      () => cluster.admin.create(configMaps, configMap('probe', { a: 'webhook-disallow' }), dryRun),
    );
    const pod = (name: string, container: string) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { namespace: 'shop', name },
      spec: { containers: [{ name: container, image: 'example.com/app:1' }] },
    });
    expect(await refusal(cluster.admin.create(pods, pod('disallowed', 'webhook-disallow')))).toMatchObject({
      code: 403,
    });
    await cluster.admin.create(pods, pod('allowed', 'fine'));
    expect(
      await refusal(cluster.admin.create(configMaps, configMap('bad', { a: 'webhook-disallow' }))),
    ).toMatchObject({
      code: 403,
      message: expect.stringContaining(
        'this is unwanted in this cluster (rule unwanted) (policy deny-unwanted)',
      ) as unknown,
    });

    await cluster.admin.create(configMaps, configMap('to-be-updated', { a: 'fine' }));
    const ref = { namespace: 'shop', name: 'to-be-updated' };
    const live = await cluster.admin.get<ConfigMap>(configMaps, ref);
    if (live === undefined) throw new Error('it was created');
    const nonCompliant = { ...live, data: { a: 'webhook-disallow' } };
    expect(await refusal(cluster.admin.replace(configMaps, nonCompliant))).toMatchObject({ code: 403 });
    const patch = { data: { a: 'webhook-disallow' } };
    expect(await refusal(cluster.admin.patchMerge(configMaps, ref, patch))).toMatchObject({ code: 403 });

    await cluster.admin.create(configMaps, configMap('exempted', { a: 'webhook-disallow' }, 'exempt'));
    await release('deny-unwanted');
  });

  test('should be able to deny custom resource creation, update and deletion', async () => {
    await govern(
      'deny-servers',
      {
        match: {
          apiGroups: ['infra.example.com'],
          resources: ['servers'],
          operations: ['CREATE', 'UPDATE', 'DELETE'],
        },
        variables: [{ name: 'subject', expression: 'object == null ? oldObject : object' }],
        validate: {
          rules: [
            {
              expression:
                '!has(variables.subject.metadata.labels) || !("webhook-e2e-test" in variables.subject.metadata.labels) || variables.subject.metadata.labels["webhook-e2e-test"] != request.operation',
              message: 'the custom resource contains unwanted data',
            },
          ],
        },
      },
      'unwanted data',
      () => cluster.admin.create(SERVERS, labelled('probe', 'CREATE'), dryRun),
    );
    expect(await refusal(cluster.admin.create(SERVERS, labelled('unwanted', 'CREATE')))).toMatchObject({
      code: 403,
    });
    const ref = { namespace: 'shop', name: 'wanted' };
    await cluster.admin.create(SERVERS, labelled('wanted', 'none'));
    const label = (value: string) => ({ metadata: { labels: { 'webhook-e2e-test': value } } });
    expect(await refusal(cluster.admin.patchMerge(SERVERS, ref, label('UPDATE')))).toMatchObject({
      code: 403,
    });
    await cluster.admin.patchMerge(SERVERS, ref, label('DELETE'));
    expect(await refusal(cluster.admin.delete(SERVERS, ref))).toMatchObject({ code: 403 });
    await cluster.admin.patchMerge(SERVERS, ref, label('none'));
    await cluster.admin.delete(SERVERS, ref);
    await release('deny-servers');
  });

  test('should mutate configmap', async () => {
    const match = { apiGroups: [''], resources: ['configmaps'] };
    const stage = (before: string, after: string) => ({
      match,
      mutations: [
        {
          name: 'stage',
          condition: `has(object.data) && "${before}" in object.data && !("${after}" in object.data)`,
          expression: `{"data": {"${after}": "yes"}}`,
        },
      ],
    });
    const make = (name: string, options = {}) =>
      cluster.admin.create<ConfigMap>(configMaps, configMap(name, { 'mutation-start': 'yes' }), options);
    await changing('mutate-stage-1', stage('mutation-start', 'mutation-stage-1'), async () =>
      Object.hasOwn((await make('probe', dryRun)).data ?? {}, 'mutation-stage-1'),
    );
    await changing('mutate-stage-2', stage('mutation-stage-1', 'mutation-stage-2'), async () =>
      Object.hasOwn((await make('probe', dryRun)).data ?? {}, 'mutation-stage-2'),
    );
    expect((await make('mutated')).data).toEqual({
      'mutation-start': 'yes',
      'mutation-stage-1': 'yes',
      'mutation-stage-2': 'yes',
    });
    await release('mutate-stage-1');
    await release('mutate-stage-2');
  });

  test('should mutate pod and apply defaults after mutation', async () => {
    interface Pod extends KubeObject {
      readonly spec: {
        readonly containers: readonly object[];
        readonly initContainers?: readonly {
          readonly name: string;
          readonly terminationMessagePolicy?: string;
        }[];
      };
    }
    const make = (name: string, options = {}) =>
      cluster.admin.create<Pod>(
        pods,
        {
          metadata: { namespace: 'shop', name },
          spec: { containers: [{ name: 'app', image: 'example.com/app:1' }] },
        },
        options,
      );
    const spec = {
      match: { apiGroups: [''], resources: ['pods'], operations: ['CREATE'] },
      mutations: [
        {
          name: 'init',
          condition: '!has(object.spec.initContainers)',
          expression:
            '{"spec": {"initContainers": [{"name": "webhook-added-init", "image": "example.com/init:1"}]}}',
        },
      ],
    };
    await changing(
      'mutate-pods',
      spec,
      async () => (await make('probe', dryRun)).spec.initContainers !== undefined,
    );
    const { initContainers } = (await make('with-init')).spec;
    expect(initContainers).toMatchObject([{ name: 'webhook-added-init' }]);
    if (process.env.GATEHOUSE_TEST_API !== 'sandbox')
      expect(initContainers?.[0]?.terminationMessagePolicy).toBe('File');
    await release('mutate-pods');
  });

  test('should not be able to mutate or prevent deletion of webhook configuration objects', async () => {
    await cluster.apply(
      admissionPolicy('over-webhooks', {
        match: {
          apiGroups: ['admissionregistration.k8s.io'],
          resources: ['validatingwebhookconfigurations'],
          operations: ['DELETE'],
        },
        validate: { rules: [{ expression: 'false' }] },
      }),
    );
    const judged = await cluster.see<Conditioned>(
      'the verdict',
      ADMISSION_POLICIES,
      { name: 'over-webhooks' },
      (policy) =>
        (policy.status?.conditions ?? []).some(
          ({ type, status, reason }) => type === 'Ready' && status === 'False' && reason === 'LockoutScope',
        ),
    );
    expect(judged.status?.conditions?.[0]?.message).toContain('never asks a webhook about them');
    await release('over-webhooks');
  });

  test('should mutate custom resource with pruning', async () => {
    const make = (name: string, options = {}) =>
      cluster.admin.create<KubeObject & { readonly spec: object }>(
        SERVERS,
        server('shop', name, 'fra1'),
        options,
      );
    const spec = {
      match: { apiGroups: ['infra.example.com'], resources: ['servers'], operations: ['CREATE'] },
      mutations: [
        {
          name: 'grow',
          // Not a literal: Gatehouse would refuse to write a field that the schema lacks.
          expression: '{"metadata": {"labels": {"mutated": "yes"}}, "spec": {"unknown" + "Field": "pruned"}}',
        },
      ],
    };
    await changing(
      'mutate-servers',
      spec,
      async () => (await make('probe', dryRun)).metadata?.labels?.mutated === 'yes',
    );
    const made = await make('pruned');
    expect(made.metadata?.labels).toMatchObject({ mutated: 'yes' });
    expect(made.spec).not.toHaveProperty('unknownField');
    await release('mutate-servers');
  });

  test('should mutate custom resource with different stored version', async () => {
    const crates = (name: string): Resource => ({
      group: 'stored.example.com',
      version: name,
      resource: 'crates',
      kind: 'Crate',
      namespaced: true,
    });
    const crd = (stored: string) =>
      definitionOf(crates('v1'), {
        versions: ['v1', 'v2'].map((name) => versionOf(name, ANY, { storage: name === stored })),
      });
    interface Crate extends KubeObject {
      readonly data?: Readonly<Record<string, string>>;
    }
    const make = (name: string, options = {}) =>
      cluster.admin.create<Crate>(crates('v1'), { metadata: { namespace: 'shop', name } }, options);
    await cluster.apply(crd('v1'));
    await eventually('crates are served', () => make('first').then(() => true));
    await changing(
      'mutate-crates',
      {
        match: { apiGroups: ['stored.example.com'], resources: ['crates'] },
        mutations: [{ name: 'mark', expression: '{"data": {"mutated": "yes"}}' }],
      },
      async () => (await make('probe', dryRun)).data?.mutated === 'yes',
    );
    await cluster.apply(crd('v2'));
    const touched = await eventually('an object that was stored as v1 is written as v2', () =>
      cluster.admin.patchMerge<Crate>(
        crates('v1'),
        { namespace: 'shop', name: 'first' },
        { data: { touched: 'yes' } },
      ),
    );
    expect(touched.data).toEqual({ touched: 'yes', mutated: 'yes' });
    expect((await make('second')).data).toEqual({ mutated: 'yes' });
    await release('mutate-crates');
  });

  // The sandbox runs no pods, so there is nothing to attach to.
  test.skipIf(testsSandbox())(
    'should be able to deny attaching pod (not on the sandbox, which runs no pods)',
    async () => {
      const attach = { method: 'POST', path: '/api/v1/namespaces/shop/pods/attachable/attach' } as const;
      await cluster.admin.create(pods, {
        metadata: { namespace: 'shop', name: 'attachable' },
        spec: { containers: [{ name: 'app', image: 'example.com/app:1' }] },
      } as KubeObject);
      await govern(
        'deny-attach',
        {
          match: { apiGroups: [''], resources: ['pods/attach'], operations: ['CONNECT'] },
          validate: {
            rules: [
              { expression: 'request.name != "attachable"', message: 'attaching to this pod is not allowed' },
            ],
          },
        },
        'attaching to this pod is not allowed',
        () => cluster.adminRest.request(attach),
      );
      await release('deny-attach');
    },
  );

  test('should deny crd creation', async () => {
    const crd = (resource: string) => {
      const unwanted = { group: 'unwanted.example.com', version: 'v1', resource, kind: 'Unwanted' };
      const { metadata, ...rest } = definitionOf({ ...unwanted, namespaced: true });
      return { ...rest, metadata: { ...metadata, labels: { 'e2e-list-test': 'webhook-disallow' } } };
    };
    await govern(
      'deny-crds',
      {
        match: {
          apiGroups: ['apiextensions.k8s.io'],
          resources: ['customresourcedefinitions'],
          operations: ['CREATE'],
          objectSelector: { matchLabels: { 'e2e-list-test': 'webhook-disallow' } },
        },
        failurePolicy: 'Ignore',
        validate: { rules: [{ expression: 'false', message: 'the crd contains unwanted label' }] },
      },
      'unwanted label',
      () => cluster.admin.create(customResourceDefinitions, crd('probes'), dryRun),
    );
    expect(await refusal(cluster.admin.create(customResourceDefinitions, crd('things')))).toMatchObject({
      code: 403,
    });
    await release('deny-crds');
  });

  test('patching/updating a validating webhook should work', async () => {
    const spec = (operations: readonly string[]) => ({
      match: { apiGroups: [''], resources: ['configmaps'], operations },
      validate: {
        rules: [{ expression: '!object.metadata.name.startsWith("forbidden")', message: 'not this name' }],
      },
    });
    const make = (name: string) => cluster.admin.create(configMaps, configMap(name), dryRun);
    await govern('by-name', spec(['CREATE']), 'not this name', () => make('forbidden-probe'));
    await cluster.admin.patchMerge(
      ADMISSION_POLICIES,
      { name: 'by-name' },
      { spec: { match: { operations: ['UPDATE'] } } },
    );
    await eventually('the webhook is no longer called for creates', () =>
      make('forbidden-now').then(
        () => true,
        () => undefined,
      ),
    );
    await cluster.admin.patchMerge(
      ADMISSION_POLICIES,
      { name: 'by-name' },
      { spec: { match: { operations: ['CREATE', 'UPDATE'] } } },
    );
    await untilRefused('a create', 'not this name', () => make('forbidden-again'));
    await release('by-name');
    await eventually('a create is allowed', () =>
      make('forbidden-not').then(
        () => true,
        () => undefined,
      ),
    );
  });

  test("should mutate everything except 'skip-me' configmaps", async () => {
    const spec = {
      match: { apiGroups: [''], resources: ['configmaps'] },
      mutations: [
        {
          name: 'mark',
          condition: 'object.metadata.name != "skip-me"',
          expression: '{"data": {"mutated": "yes"}}',
        },
      ],
    };
    const make = (name: string, options = {}) =>
      cluster.admin.create<ConfigMap>(configMaps, configMap(name), options);
    await changing('skip-me', spec, async () => (await make('probe', dryRun)).data?.mutated === 'yes');
    expect((await make('mutate-me')).data).toEqual({ mutated: 'yes' });
    expect((await make('skip-me')).data ?? {}).toEqual({});
    await release('skip-me');
  });
});

describe('deletecollection and generateName', () => {
  test('a rule on the name applies to each object of a collection deletion', async () => {
    await govern(
      'keep-by-name',
      {
        match: { apiGroups: [''], resources: ['configmaps'], operations: ['DELETE'] },
        validate: { rules: [{ expression: '!request.name.startsWith("keep")', message: 'this one stays' }] },
      },
      'this one stays',
      async () => {
        await cluster.admin.create(configMaps, configMap('keep-probe')).catch(() => undefined);
        await cluster.admin.delete(configMaps, { namespace: 'shop', name: 'keep-probe' }, dryRun);
      },
    );
    await cluster.admin.create(configMaps, configMap('keep-1'));
    const all = { method: 'DELETE', path: '/api/v1/namespaces/shop/configmaps' } as const;
    await expect(cluster.adminRest.request(all)).rejects.toThrow('this one stays');
    expect(await cluster.admin.get(configMaps, { namespace: 'shop', name: 'keep-1' })).toBeDefined();
    await release('keep-by-name');
  });

  test('rules see a generated name, and mutations do not see it yet', async () => {
    const spec = {
      match: { apiGroups: [''], resources: ['configmaps'], operations: ['CREATE'] },
      mutations: [
        {
          name: 'note',
          expression: '{"data": {"name-when-mutated": request.?name.orValue("none")}}',
        },
      ],
      validate: {
        rules: [
          {
            expression: 'request.name.startsWith("gen-") || request.name == "plain"',
            messageExpression: '"name " + request.name',
          },
        ],
      },
    };
    await govern('names', spec, 'name other', () =>
      cluster.admin.create(configMaps, configMap('other'), dryRun),
    );
    const made = await cluster.admin.create<ConfigMap>(configMaps, {
      metadata: { namespace: 'shop', generateName: 'gen-' },
    });
    expect(made.metadata?.name).toMatch(/^gen-/);
    expect(made.data).toEqual({ 'name-when-mutated': 'none' });
    await release('names');
  });
});

describe('a mistake of the policy author (issue 19)', () => {
  const WIDGETS: Resource = {
    group: 'shapes.example.com',
    version: 'v1',
    resource: 'widgets',
    kind: 'Widget',
    namespaced: true,
  };
  const versions = (...fields: readonly string[]) => [
    versionOf('v1', withSpec(Object.fromEntries(fields.map((name) => [name, { type: 'string' }])))),
  ];
  const widget = (name: string, size: string): KubeObject =>
    ({
      apiVersion: 'shapes.example.com/v1',
      kind: 'Widget',
      metadata: { namespace: 'shop', name },
      spec: { size },
    }) as KubeObject;
  const policyFor = (group: string, resource: string, validate: object): KubeObject =>
    admissionPolicy('mistaken', { match: { apiGroups: [group], resources: [resource] }, validate });
  const seeReason = (reason: string) =>
    cluster.see<Conditioned>(
      `the policy is ${reason}`,
      ADMISSION_POLICIES,
      { name: 'mistaken' },
      (object) => condition(object, 'Ready')?.reason === reason,
      30_000,
    );
  const writePath = '/apis/gatehouse.dev/v1alpha1/admissionpolicies';

  test('is answered with the write of the policy, and the status says the same', async () => {
    const message = 'spec.validate.immutable[0]: spec has no field datacentre: did you mean datacenter?';
    const broken = policyFor('infra.example.com', 'servers', { immutable: ['spec.datacentre'] });
    expect(await warningsOf(cluster, writePath, broken)).toContain(`not enforced: ${message}`);
    expect(condition(await seeReason('UnknownField'), 'Ready')?.message).toContain(message);
    await release('mistaken');
  });

  test('in the name of a kind is not enforced, and the policy applies to the first object once the kind is served', async () => {
    const rules = [{ expression: "object.spec.size != 'huge'", message: 'too large' }];
    const early = policyFor('shapes.example.com', 'widgets', {
      rules,
      immutable: ['spec.size', 'spec.colour'],
    });
    expect(await warningsOf(cluster, writePath, early)).toContain(
      'not enforced: spec.match: the API server serves no widgets.shapes.example.com',
    );
    await seeReason('UnknownKind');
    await cluster.see<Conditioned>(
      'the policy has its webhooks',
      ADMISSION_POLICIES,
      { name: 'mistaken' },
      (object) => condition(object, 'WebhooksInstalled')?.status === 'True',
      30_000,
    );
    await cluster.apply(definitionOf(WIDGETS, { versions: versions('size', 'colour') }));
    await untilRefused('the first widget', 'too large', () =>
      cluster.admin.create(WIDGETS, widget('first', 'huge'), dryRun),
    );
    await seeInForce(cluster, 'mistaken');
  });

  test('does not disable a policy in force when the schema loses a field', async () => {
    await cluster.admin.create(WIDGETS, widget('one', 'small'));
    await cluster.admin.patchMerge(
      customResourceDefinitions,
      { name: 'widgets.shapes.example.com' },
      { spec: { versions: versions('size') } },
    );
    await eventually('Gatehouse compiles the policy with the new schema', async () => {
      await cluster.admin.patchMerge(
        ADMISSION_POLICIES,
        { name: 'mistaken' },
        { metadata: { annotations: { at: String(performance.now()) } } },
      );
      const policy = await cluster.admin.get<Conditioned>(ADMISSION_POLICIES, { name: 'mistaken' });
      return policy !== undefined && condition(policy, 'Ready')?.reason === 'UnknownField';
    });
    expect(condition(await seeReason('UnknownField'), 'Ready')?.message).toContain(
      'spec.validate.immutable[1]: spec has no field colour',
    );
    const refused = await refusal(
      cluster.admin.patchMerge(WIDGETS, { namespace: 'shop', name: 'one' }, { spec: { size: 'large' } }),
    );
    expect(refused.message).toContain('spec.size');
  });
});

describe('a policy that uses all features', () => {
  test('has params, refs, variables, a schema and exceptions, and lists its findings in causes', async () => {
    await cluster.admin.create(configMaps, configMap('limits', { units: '3' }));
    await govern(
      'everything',
      {
        match: { apiGroups: ['infra.example.com'], resources: ['servers'] },
        params: { apiGroup: '', resource: 'configmaps', name: 'limits' },
        variables: [{ name: 'limit', expression: 'int(params.data.units)' }],
        validate: {
          schema: { properties: { metadata: { properties: { name: { maxLength: 20 } } } } },
          references: [
            {
              name: 'dc',
              path: 'spec.datacenter',
              target: { apiGroup: 'infra.example.com', resource: 'datacenters' },
            },
          ],
          rules: [
            {
              name: 'limit',
              expression: '!has(object.spec.units) || object.spec.units <= variables.limit',
              messageExpression: '"at most " + string(variables.limit) + " units"',
              fieldPath: 'spec.units',
              reason: 'Invalid',
            },
            { name: 'place', expression: 'refs.dc.metadata.name != "fra2"', message: 'fra2 is full' },
          ],
        },
        exceptions: [
          { name: 'movers', reason: 'they move the racks', groups: ['movers'], checks: ['place'] },
        ],
      },
      'at most 3 units',
      () => cluster.admin.create(SERVERS, withUnits('probe', 4), dryRun),
    );
    expect(
      await refusal(cluster.admin.create(SERVERS, withUnits('a-name-that-is-far-too-long', 4))),
    ).toMatchObject({
      code: 403,
      causes: [
        { field: 'metadata.name', reason: 'FieldValueTooLong' },
        { field: 'spec.units', reason: 'FieldValueInvalid' },
      ],
    });
    expect(await refusal(cluster.admin.create(SERVERS, withUnits('many', 4)))).toMatchObject({ code: 422 });
    await cluster.admin.create(SERVERS, withUnits('few', 3));

    await cluster.admin.patchMerge(
      configMaps,
      { namespace: 'shop', name: 'limits' },
      { data: { units: '9' } },
    );
    await cluster.admin.create(SERVERS, withUnits('more', 9));
  });

  test('an object that is being deleted keeps old violations, gets no new ones, and can lose its finalizers', async () => {
    const held = (name: string, data: Readonly<Record<string, string>>) => {
      const { metadata, ...rest } = configMap(name, data);
      return { ...rest, metadata: { ...metadata, finalizers: ['example.com/hold'] } };
    };
    const ref = (name: string) => ({ namespace: 'shop', name });
    await cluster.admin.create(configMaps, held('old-violator', { mode: 'wild' }));
    await govern(
      'modes',
      {
        match: { apiGroups: [''], resources: ['configmaps'] },
        validate: {
          schema: { properties: { data: { properties: { mode: { enum: ['calm', 'quick'] } } } } },
          rules: [
            {
              expression: '!has(object.data) || object.data.all(k, object.data[k] != "forbidden")',
              message: 'has a forbidden value',
            },
          ],
        },
      },
      'has to be one of',
      () => cluster.admin.create(configMaps, configMap('probe', { mode: 'wild' }), dryRun),
    );
    await cluster.admin.create(configMaps, held('valid', { mode: 'calm' }));
    for (const name of ['valid', 'old-violator']) {
      await cluster.admin.delete(configMaps, ref(name));
      for (const data of [{ mode: 'worse' }, { other: 'forbidden' }])
        expect(await refusal(cluster.admin.patchMerge(configMaps, ref(name), { data }))).toMatchObject({
          code: 403,
        });
      await cluster.admin.patchMerge(configMaps, ref(name), { metadata: { labels: { touched: 'true' } } });
      await cluster.admin.patchMerge(configMaps, ref(name), { metadata: { finalizers: null } });
      expect(await cluster.admin.get(configMaps, ref(name))).toBeUndefined();
    }
    await release('modes');
  });

  test('a dangling reference that an update keeps does not disable the rules about its target', async () => {
    const orphan = { namespace: 'shop', name: 'orphan' };
    await cluster.admin.create(DATACENTERS, datacenter('doomed'));
    await cluster.admin.create(SERVERS, server('shop', 'orphan', 'doomed'));
    await cluster.admin.delete(DATACENTERS, { name: 'doomed' });
    await eventually('the deletion reaches Gatehouse, and the update is refused', async () => {
      const answer = await refusal(cluster.admin.patchMerge(SERVERS, orphan, { spec: { units: 2 } }, dryRun));
      return answer.message.includes('refs.dc is absent, because there is no') ? true : undefined;
    });
    await cluster.admin.delete(SERVERS, orphan);
  });

  test('with a misspelt name is not installed, and its status says which name it is', async () => {
    await cluster.apply(
      admissionPolicy('misspelt', {
        match: { apiGroups: ['infra.example.com'], resources: ['servers'] },
        variables: [{ name: 'units', expression: 'object.spec.units' }],
        validate: { rules: [{ expression: 'variables.unit < 3' }] },
      }),
    );
    const rejected = await cluster.see<Conditioned>(
      'the policy rejected',
      ADMISSION_POLICIES,
      { name: 'misspelt' },
      (object) => condition(object, 'Ready')?.reason === 'InvalidExpression',
    );
    expect(condition(rejected, 'Ready')?.message).toContain(
      'variables["unit"] does not exist: declare it in spec.variables, or did you mean variables.units?',
    );
    await release('misspelt');
  });

  test('the audit counts the existing objects that violate a stricter rule', async () => {
    await cluster.admin.patchMerge(
      configMaps,
      { namespace: 'shop', name: 'limits' },
      { data: { units: '5' } },
    );
    await cluster.admin.patchMerge(
      ADMISSION_POLICIES,
      { name: 'everything' },
      {
        spec: {
          validate: { schema: { properties: { metadata: { properties: { name: { maxLength: 30 } } } } } },
        },
      },
    );
    const audited = await cluster.see<AdmissionPolicy>(
      'the audit',
      ADMISSION_POLICIES,
      { name: 'everything' },
      ({ status, metadata }) => status?.violations?.generation === metadata.generation,
      30_000,
    );
    expect(audited.status?.violations).toMatchObject({ total: 1, objects: 1 });
    expect(await replica.metrics()).toContain('gatehouse_policy_violations{policy="everything"} 1');

    await cluster.admin.patchMerge(ADMISSION_POLICIES, { name: 'everything' }, { spec: { audit: false } });
    await cluster.see<AdmissionPolicy>(
      'no violations without an audit',
      ADMISSION_POLICIES,
      { name: 'everything' },
      ({ status }) => status?.violations === undefined,
    );
    expect(await replica.metrics()).not.toContain('gatehouse_policy_violations{policy="everything"}');
    await release('everything');
  });
});

// This test comes last: afterwards no replica answers.
test('should unconditionally reject operations on fail closed webhook', async () => {
  const make = () => cluster.admin.create(configMaps, configMap('closed'), dryRun);
  await govern(
    'fail-closed',
    {
      match: { apiGroups: [''], resources: ['configmaps'] },
      validate: { rules: [{ expression: 'object.metadata.name != "closed"', message: 'not this one' }] },
    },
    'not this one',
    make,
  );
  await replica.program.stop(15_000);
  const other = cluster.admin.create(configMaps, configMap('other'), dryRun);
  expect(await refusal(other)).toMatchObject({
    code: 500,
    message: expect.stringContaining('failed calling webhook') as unknown,
  });
});

const labelled = (name: string, value: string): KubeObject => {
  const object = server('shop', name, 'fra1');
  return { ...object, metadata: { ...object.metadata, labels: { 'webhook-e2e-test': value } } };
};

function withUnits(name: string, units: number): KubeObject {
  const object = server('shop', name, 'fra1');
  return { ...object, spec: { ...object.spec, units } } as KubeObject;
}

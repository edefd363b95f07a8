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
import { ADMISSION_POLICIES, createNamespace, SERVERS, type Cluster } from '../support/cluster.ts';
import { testsSandbox } from '../support/control-plane.ts';
import { definitionOf, versionOf, withSpec, resourceOf } from '../support/definitions.ts';
import {
  enforceExamples,
  refusal,
  seeInForce,
  startGatehouse,
  untilRefused,
  warningsOf,
  seeCondition,
} from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import {
  admissionPolicy,
  condition,
  isTrue,
  server,
  type Conditioned,
  type ConfigMap,
  configMap,
  grant,
  configMapsWith,
  toDatacenter,
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

/** Applies a policy. Resolves when the API server calls its webhook: it then refuses `probe` with `why`. */
async function govern(name: string, spec: object, why: string, probe: () => Promise<unknown>): Promise<void> {
  await cluster.apply(admissionPolicy(name, spec));
  await seeInForce(cluster, name);
  await untilRefused(name, why, probe);
}

const release = async (name: string) => {
  await cluster.admin.delete(ADMISSION_POLICIES, { name });
};

const dryRun = { dryRun: true };

test('a PolicyException, written by a user who may write nothing else, exempts objects of its namespace until it expires', async () => {
  const large = (name: string, namespace = 'shop') => {
    return configMap(name, { a: '1', b: '2' }, { namespace, labels: { sized: 'yes' } });
  };
  const spec = {
    match: configMapsWith({ sized: 'yes' }),
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
  // If the replica has not seen it yet, it reads live instead of denying.
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

test('existingViolations: Allow: an object that is older than its policy can change where no violated check reads', async () => {
  const [labels, ref] = [{ aged: 'yes' }, { namespace: 'shop', name: 'aged' }];
  const aged = configMap('aged', { units: '9', mode: 'wild' }, { labels });
  await cluster.admin.create(configMaps, aged);
  const spec = {
    match: configMapsWith(labels),
    existingViolations: 'Allow',
    validate: {
      schema: { properties: { data: { properties: { mode: { enum: ['calm'] } } } } },
      rules: [{ name: 'small', expression: 'int(object.data.units) < 5', message: 'has too many units' }],
    },
  };
  const probe = configMap('probe', { units: '9', mode: 'calm' }, { labels });
  await govern('aged', spec, 'too many units', () => cluster.admin.create(configMaps, probe, dryRun));

  const stored = await cluster.admin.get<ConfigMap>(configMaps, ref);
  if (stored === undefined) throw new Error('it is gone');
  const metadata = { ...stored.metadata, annotations: { note: 'x' }, finalizers: ['example.com/hold'] };
  const path = '/api/v1/namespaces/shop/configmaps/aged';
  const warnings = await warningsOf(cluster, path, { ...stored, metadata });
  expect(warnings).toContain('data.mode: has to be one of \\"calm\\" (policy aged); allowed, because');
  expect(warnings).toContain('has too many units (rule small) (policy aged); allowed, because');
  const change = (changed: object) => cluster.admin.patchMerge(configMaps, ref, changed);
  await change({ metadata: { finalizers: null }, data: { other: '1' } });
  for (const data of [{ units: '8' }, { mode: 'worse' }, { units: null }])
    expect(await refusal(change({ data }))).toMatchObject({ code: 403 });

  const noted = await eventually('the audit annotation', () =>
    cluster.plane
      .auditLog()
      .find(({ annotations }) => JSON.stringify(annotations ?? {}).includes('existing-')),
  );
  expect(Object.entries(noted.annotations ?? {})).toContainEqual([
    expect.stringMatching(/\/existing-violations$/),
    'aged/schema,aged/small',
  ]);
  expect(await replica.metrics()).toContain('gatehouse_existing_violations_allowed_total{policy="aged"} 4');
  const counted = ({ status }: AdmissionPolicy) => status?.violations?.total === 2;
  await cluster.see<AdmissionPolicy>('the audit still counts', ADMISSION_POLICIES, { name: 'aged' }, counted);

  await change({ data: { units: '1', mode: 'calm' } });
  expect(await refusal(change({ data: { mode: 'wild' } }))).toMatchObject({ code: 403 });
  await release('aged');
}, 60_000);

describe('AdmissionWebhook, as Kubernetes tests it', () => {
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
});

test('rules see a generated name, and mutations do not see it yet', async () => {
  const spec = {
    match: { apiGroups: [''], resources: ['configmaps'], operations: ['CREATE'] },
    mutations: [
      { name: 'note', expression: '{"data": {"name-when-mutated": request.?name.orValue("none")}}' },
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

describe('a mistake of the policy author (issue 19)', () => {
  const WIDGETS: Resource = resourceOf('shapes.example.com', 'widgets', 'Widget');
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
    seeCondition(cluster, ADMISSION_POLICIES, 'mistaken', 'Ready', reason);
  const writePath = '/apis/gatehouse.dev/v1alpha1/admissionpolicies';

  test('is answered with the write of the policy, and the status says the same', async () => {
    const match = { apiGroups: ['infra.example.com'], resources: ['servers'] };
    const broken = admissionPolicy('mistaken', { match, validate: { immutable: ['spec.datacentre'] } });
    const message =
      'spec.validate.immutable[0]: field datacentre not found in spec: did you mean datacenter?';
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
    await seeCondition(cluster, ADMISSION_POLICIES, 'mistaken', 'WebhooksInstalled', 'True');
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
      'spec.validate.immutable[1]: field colour not found in spec',
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
          references: [{ ...toDatacenter, name: 'dc' }],
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

  test('an object that is being deleted keeps old violations, cannot get new ones, and can lose its finalizers', async () => {
    const held = (name: string, data: Readonly<Record<string, string>>) => {
      return configMap(name, data, { finalizers: ['example.com/hold'] });
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

function withUnits(name: string, units: number): KubeObject {
  const object = server('shop', name, 'fra1');
  return { ...object, spec: { ...object.spec, units } } as KubeObject;
}

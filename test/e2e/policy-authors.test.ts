// suite: shared-plane, sandbox: long
/** A policy reads only what its author may read, and no policy reads the Secrets of Gatehouse. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../src/api/admission-policy.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { clusterRoles, events, secrets } from '../../src/kube/well-known.ts';
import { READS_REVIEWED, READS_SECRET } from '../../src/runtime/policies/read-records.ts';
import {
  ADMISSION_POLICIES,
  createNamespace,
  SERVERS,
  SYSTEM_NAMESPACE,
  type Cluster,
} from '../support/cluster.ts';
import {
  enforceExamples,
  refusal,
  seeInForce,
  startGatehouse,
  untilRefused,
  seeCondition,
} from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import {
  condition,
  isTrue,
  referencesRole,
  server,
  serversPolicy,
  type Conditioned,
  type Server,
  grant,
  toDatacenter,
} from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

let cluster: Cluster;
let replica: Replica;
/** May write policies and read Servers and Datacenters, but no Secrets. */
let author: KubeClient;
/** May read Secrets in the namespace `vault`, too. */
let reader: KubeClient;
/** May read everything, and Gatehouse's Secrets. */
let admin: KubeClient;

const label = (value: string) => ({
  mutations: [{ name: 'copy', expression: `{"metadata": {"labels": {"copied": ${value}}}}` }],
});
const params = (name: string, namespace: string) => ({ apiGroup: '', resource: 'secrets', name, namespace });
const password = label('string(params.data.password)');
const readsVault: Partial<AdmissionPolicySpec> = { params: params('db', 'vault'), ...password };

/** Policies that govern only Servers with this label do not disturb the other tests. */
const only = (value: string): AdmissionPolicySpec['match'] => ({
  apiGroups: ['infra.example.com'],
  resources: ['servers'],
  objectSelector: { matchLabels: { of: value } },
});
const labelled = (name: string, of: string): Server => {
  const made = server('shop', name, 'fra1');
  return { ...made, metadata: { ...made.metadata, labels: { of } } };
};

const write = (as: KubeClient, name: string, spec: object, metadata: object = {}) =>
  as.create<Conditioned>(
    ADMISSION_POLICIES,
    withMetadata(serversPolicy(name, { match: only(name), ...spec }), metadata),
  );
const withMetadata = (policy: KubeObject, metadata: object): KubeObject => ({
  ...policy,
  metadata: { ...policy.metadata, ...metadata },
});
const patch = (as: KubeClient, name: string, change: object) =>
  as.patchMerge<Conditioned>(ADMISSION_POLICIES, { name }, change);
const recordOf = async (name: string) =>
  (await admin.get(ADMISSION_POLICIES, { name }))?.metadata?.annotations?.[READS_REVIEWED];
const seeNotReady = (name: string, reason: string) =>
  seeCondition(cluster, ADMISSION_POLICIES, name, 'Ready', reason);

/** In a label: no padding. */
const PASSWORD = Buffer.from('hunter').toString('base64');
const ALL = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'];
const POLICIES = ['admissionpolicies', 'admissionpolicies/status'];

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    prepare: async (fresh) => {
      await fresh.applyFolder('examples', ({ kind }) => kind !== 'AdmissionPolicy');
      const { admin: owner } = fresh;
      // Written before the webhook exists, as before an upgrade.
      await createNamespace(fresh, 'vault');
      const references = { validate: { references: [toDatacenter] } };
      await owner.create(
        ADMISSION_POLICIES,
        serversPolicy('earlier', { match: only('earlier'), ...references }),
      );
      await owner.create(
        ADMISSION_POLICIES,
        serversPolicy('earlier-secret', { match: only('earlier'), ...readsVault }),
      );
      await fresh.apply(
        ...grant(
          'authors',
          ['author', 'reader'],
          [
            { apiGroups: ['gatehouse.dev'], resources: POLICIES, verbs: ALL },
            { apiGroups: ['infra.example.com'], resources: ['servers', 'datacenters'], verbs: ALL },
            { apiGroups: [''], resources: ['configmaps'], verbs: ALL },
          ],
        ),
        ...grant(
          'vault-readers',
          ['reader'],
          [{ apiGroups: [''], resources: ['secrets'], resourceNames: ['db'], verbs: ['get'] }],
        ),
      );
    },
  }));
  admin = cluster.admin;
  author = cluster.impersonate({ user: 'author', groups: ['system:authenticated'] });
  reader = cluster.impersonate({ user: 'reader', groups: ['system:authenticated'] });
  await enforceExamples(cluster);
  await admin.create(secrets, {
    metadata: { name: 'db', namespace: 'vault' },
    data: { password: PASSWORD },
  } as KubeObject);
  await cluster.apply(referencesRole('vault', '', ['secrets']));
  await cluster.see<KubeObject & { readonly rules?: readonly { readonly resources?: readonly string[] }[] }>(
    'Secrets in the aggregated role',
    clusterRoles,
    { name: 'gatehouse-references' },
    ({ rules }) => rules?.some(({ resources }) => resources?.includes('secrets')) === true,
  );
  await cluster.see<KubeObject & { readonly data?: object }>(
    'the list of earlier policies',
    secrets,
    { namespace: SYSTEM_NAMESPACE, name: READS_SECRET },
    ({ data }) => data !== undefined && 'earlier' in data,
  );
});

afterAll(() => cluster.stop());

const toSecret = { name: 'secret', path: 'spec.datacenter', target: { apiGroup: '', resource: 'secrets' } };

describe('an author who lacks permission to read Secrets', () => {
  test('cannot write a policy with a Secret as params: the refusal names kind, namespace, verb and role', async () => {
    const refused = await refusal(write(author, 'copies', readsVault));
    expect(refused).toMatchObject({ code: 403, reason: 'Forbidden' });
    expect(refused.message).toContain(
      'spec.params: you lack permission to get secrets "db" in namespace "vault"',
    );
    expect(refused.message).toContain(
      'ask for a Role in vault with the rule {apiGroups: [""], resources: [secrets], verbs: [get]}',
    );
    expect(await admin.get(ADMISSION_POLICIES, { name: 'copies' })).toBeUndefined();
  });

  test.each<[string, Partial<AdmissionPolicySpec>, string]>([
    ['a reference to Secrets', { validate: { references: [toSecret] } }, 'get secrets in all namespaces'],
    [
      'params in the namespace of each object',
      { params: { apiGroup: '', resource: 'secrets', name: 'db' } },
      'get secrets "db" in all namespaces',
    ],
    [
      'the audit of all Secrets',
      {
        match: { apiGroups: [''], resources: ['secrets'], objectSelector: { matchLabels: { of: 'x' } } },
        validate: { rules: [{ expression: 'false', messageExpression: 'string(object.data)' }] },
      },
      'list secrets in all namespaces',
    ],
  ])('cannot write a policy with %s', async (_what, spec, read) => {
    for (const attempt of [
      () => write(author, 'copies', spec),
      () =>
        author.create(ADMISSION_POLICIES, serversPolicy('copies', { match: only('copies'), ...spec }), {
          dryRun: true,
        }),
      () =>
        author.apply(ADMISSION_POLICIES, serversPolicy('copies', { match: only('copies'), ...spec }), {
          fieldManager: 'test',
        }),
    ])
      expect((await refusal(attempt())).message).toContain(`you lack permission to ${read}`);
  });

  test('can write a policy that reads what the author may read, and the policy carries the record', async () => {
    await write(author, 'fine', { validate: { references: [toDatacenter] } });
    const policy = await seeInForce(cluster, 'fine');
    expect(condition(policy, 'ReadsReviewed')).toBeUndefined();
    expect(await recordOf('fine')).toMatch(/^[\w-]{43}$/);
  });

  test('cannot add a Secret in an update, by any kind of write', async () => {
    await write(author, 'grows', { validate: { references: [toDatacenter] } });
    const live = await admin.get<Conditioned>(ADMISSION_POLICIES, { name: 'grows' });
    const grown = serversPolicy('grows', { match: only('grows'), ...readsVault });
    for (const attempt of [
      () => patch(author, 'grows', { spec: readsVault }),
      () => author.replace(ADMISSION_POLICIES, { ...grown, metadata: live?.metadata ?? {} }),
      () =>
        author.patchJson(ADMISSION_POLICIES, { name: 'grows' }, [
          { op: 'add', path: '/spec/params', value: readsVault.params },
        ]),
      () => author.apply(ADMISSION_POLICIES, grown, { fieldManager: 'test', force: true }),
    ])
      expect((await refusal(attempt())).message).toContain(
        'you lack permission to get secrets "db" in namespace "vault"',
      );
  });

  test('cannot take over a policy that reads a Secret, but can label it and disable its effect', async () => {
    await write(reader, 'taken', readsVault);
    const record = await recordOf('taken');
    await patch(author, 'taken', { metadata: { labels: { seen: 'yes' } }, spec: { enforcement: 'Audit' } });
    await patch(author, 'taken', { metadata: { annotations: { [READS_REVIEWED]: 'forged' } } });
    expect(await recordOf('taken')).toBe(record);
    await patch(author, 'taken', { metadata: { annotations: { [READS_REVIEWED]: null } } });
    expect(await recordOf('taken')).toBe(record);
    for (const spec of [
      label('params.data.password.substring(0, 3)'),
      { match: { ...only('other') } },
      { validate: { rules: [{ expression: 'params.data.password == "x"' }] } },
    ])
      expect((await refusal(patch(author, 'taken', { spec }))).message).toContain(
        'you lack permission to get secrets "db"',
      );
    await admin.delete(ADMISSION_POLICIES, { name: 'taken' });
    expect(
      (await refusal(write(author, 'taken', readsVault, { annotations: { [READS_REVIEWED]: record } }))).code,
    ).toBe(403);
  });
});

describe('an author who may read the Secret', () => {
  test('can write the policy, and it copies the value', async () => {
    await write(reader, 'copies', readsVault);
    await seeInForce(cluster, 'copies');
    await eventually('the mutation', async () => {
      const made = await admin.create<Server>(SERVERS, labelled('copied', 'copies'), { dryRun: true });
      return made.metadata?.labels?.copied === PASSWORD;
    });
  });

  test('needs the Secrets to be named in the aggregated role: a wildcard is not enough', async () => {
    await admin.delete(clusterRoles, { name: 'gatehouse-references-vault' });
    await cluster.apply(referencesRole('everything', '*', ['*']));
    await eventually('the wildcard in the aggregated role', async () => {
      const role = await admin.get(clusterRoles, { name: 'gatehouse-references' });
      const text = JSON.stringify(role);
      return text.includes('"*"') && !text.includes('secrets');
    });
    await write(reader, 'unnamed', readsVault);
    let timeoutSeconds = 5;
    // A replica caches the permission for ten seconds, and checks it again when the spec changes.
    await eventually(
      'unnamed is forbidden',
      async () => {
        timeoutSeconds = 11 - timeoutSeconds;
        await patch(reader, 'unnamed', { spec: { timeoutSeconds } });
        const policy = await admin.get<Conditioned>(ADMISSION_POLICIES, { name: 'unnamed' });
        return policy !== undefined && condition(policy, 'Ready')?.reason === 'Forbidden';
      },
      { timeoutMs: 60_000, everyMs: 500 },
    );
    await cluster.apply(referencesRole('vault', '', ['secrets']));
    await admin.delete(clusterRoles, { name: 'gatehouse-references-everything' });
    await seeInForce(cluster, 'unnamed');
  });
});

describe("Gatehouse's own Secrets", () => {
  test('are no params, also not of an administrator', async () => {
    const spec = { params: params('gatehouse-authority', SYSTEM_NAMESPACE), ...label('string(params.data)') };
    const { code, message } = await refusal(write(admin, 'steals', spec));
    expect(code).toBe(403);
    expect(message).toContain(`spec.params: policies cannot read Secrets in ${SYSTEM_NAMESPACE}`);
  });

  test('are not found by references', async () => {
    await write(admin, 'finds', {
      validate: {
        references: [
          { ...toSecret, path: 'metadata.annotations.secret', namespacePath: 'metadata.annotations.in' },
        ],
        rules: [{ expression: 'false', messageExpression: 'refs.secret.data.password' }],
      },
    });
    await seeInForce(cluster, 'finds');
    const named = (namespace: string, secret: string): Server => {
      const made = labelled('finder', 'finds');
      return { ...made, metadata: { ...made.metadata, annotations: { in: namespace, secret } } };
    };
    await untilRefused('a Server that names a Secret', PASSWORD, () =>
      admin.create(SERVERS, named('vault', 'db'), { dryRun: true }),
    );
    const { message } = await refusal(
      admin.create(SERVERS, named(SYSTEM_NAMESPACE, 'gatehouse-authority'), { dryRun: true }),
    );
    expect(message).toContain(`Secret "gatehouse-authority" in namespace "${SYSTEM_NAMESPACE}" not found`);
    expect(message).not.toContain('tls');
  });

  test('are not audited', async () => {
    await admin.create(ADMISSION_POLICIES, {
      ...serversPolicy('audits', {}),
      spec: {
        match: { apiGroups: [''], resources: ['secrets'] },
        enforcement: 'Audit',
        validate: {
          rules: [{ expression: 'false', messageExpression: '"leak " + string(object.metadata.name)' }],
        },
      },
    } as KubeObject);
    const leaks = async (namespace: string) => {
      const { items } = await admin.list<KubeObject & { readonly message?: string }>(events, { namespace });
      return items.filter(({ message }) => message?.includes('leak'));
    };
    await eventually('the audit of the other Secrets', async () => (await leaks('vault')).length > 0);
    expect(await leaks(SYSTEM_NAMESPACE)).toEqual([]);
    await admin.delete(ADMISSION_POLICIES, { name: 'audits' });
  });
});

describe('a policy older than the review', () => {
  test('remains in force, reports that, and is reviewed at its next write', async () => {
    const policy = await seeInForce(cluster, 'earlier');
    expect(condition(policy, 'ReadsReviewed')).toMatchObject({ status: 'False', reason: 'WrittenEarlier' });
    await patch(author, 'earlier', { metadata: { labels: { seen: 'yes' } } });
    await cluster.see<Conditioned>(
      'the reviewed policy',
      ADMISSION_POLICIES,
      { name: 'earlier' },
      (object) => isTrue('Ready')(object) && condition(object, 'ReadsReviewed') === undefined,
    );
  });

  test('is not in force if it reads Secrets', async () => {
    const policy = await seeNotReady('earlier-secret', 'ReadsNotReviewed');
    expect(condition(policy, 'Ready')?.message).toContain('get secrets "db" in namespace "vault"');
    // A controller without the permission can still label it; that is no review.
    await patch(author, 'earlier-secret', { metadata: { labels: { seen: 'yes' } } });
    expect(await recordOf('earlier-secret')).toBeUndefined();
    await patch(reader, 'earlier-secret', { metadata: { annotations: { [READS_REVIEWED]: 'again' } } });
    await seeInForce(cluster, 'earlier-secret');
  });
});

test('a policy that was written while Gatehouse was down is not in force, even with a record', async () => {
  await write(reader, 'copied-from', readsVault);
  await write(author, 'reverted', { validate: { references: [toDatacenter] } });
  await seeInForce(cluster, 'reverted');
  const record = await recordOf('copied-from');
  await replica.program.stop();

  const metadata = { annotations: { [READS_REVIEWED]: record } };
  await write(author, 'while-down', readsVault, metadata);
  await write(author, 'no-reads', { defaults: [], mutations: [] });
  await patch(author, 'reverted', { metadata, spec: { ...readsVault, validate: null } });
  await author.patchStatus(
    ADMISSION_POLICIES,
    { name: 'while-down' },
    { status: { inForce: { generation: 1, spec: { match: only('while-down'), ...readsVault }, record } } },
  );

  replica = await startReplica(cluster.plane, { name: 'two', port: replica.port });
  await replica.whenReady();
  for (const name of ['while-down', 'reverted']) {
    const policy = await seeNotReady(name, 'ReadsNotReviewed');
    expect(condition(policy, 'Ready')?.message).toContain(
      `kubectl annotate admissionpolicies ${name} ${READS_REVIEWED}=again --overwrite`,
    );
  }
  expect(condition(await seeNotReady('while-down', 'ReadsNotReviewed'), 'Ready')?.message).toContain(
    'requests in its scope are refused',
  );
  expect(condition(await seeNotReady('reverted', 'ReadsNotReviewed'), 'Ready')?.message).toContain(
    'generation 1 remains in force',
  );
  await seeInForce(cluster, 'copied-from');
  await seeInForce(cluster, 'no-reads');

  await eventually('the webhook answers', async () => {
    await patch(reader, 'while-down', { metadata: { annotations: { [READS_REVIEWED]: 'again' } } });
    return (await recordOf('while-down')) !== 'again';
  });
  await seeInForce(cluster, 'while-down');
});

// suite: shared-plane, sandbox: long
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { parseJson, type JsonObject } from '../../src/json/json.ts';
import { loadConnection } from '../../src/kube/connection.ts';
import { createRest } from '../../src/kube/rest.ts';
import { customResourceDefinitions } from '../../src/kube/well-known.ts';
import { CONVERSION_POLICIES } from '../../src/runtime/resources.ts';
import {
  createNamespace,
  established,
  SYSTEM_NAMESPACE,
  type Cluster,
  untilGone,
} from '../support/cluster.ts';
import {
  convertExamples,
  databases,
  failureOf,
  seeConverting,
  storeIn,
  type CustomObject,
} from '../support/conversion-objects.ts';
import { definitionOf, versionOf, resourceOf } from '../support/definitions.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { startGatehouse, seeCondition } from '../support/gatehouse-cluster.ts';
import { handlerFolder } from '../support/handler-folder.ts';
import { condition, isTrue, type Conditioned } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

const CRD = 'databases.infra.example.com';

/** The ways in which the converters of the upstream tests change metadata that they must leave unchanged. */
const HANDLERS = {
  'widgets.ts': `
    const mark = (version: string) => (object) => {
      const { metadata } = object;
      metadata.annotations = { ...metadata.annotations, from: object.apiVersion, to: version };
      metadata.labels = { ...metadata.labels, to: version };
      metadata.finalizers = ['example.com/foo'];
      metadata.generation = 42;
      metadata.garbage = 'garbage';
    };
    export default defineHandler({
      match: { apiGroups: ['conv.example.com'], resources: ['widgets'] },
      convert: { hub: 'v2', versions: { v1: { toHub: mark('v2'), fromHub: mark('v1') } } },
    });`,
};

let cluster: Cluster;
let replica: Replica;
const handlers = handlerFolder(HANDLERS);

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({ settings: { handlers } }));
  await convertExamples(cluster, replica.port);
  await createNamespace(cluster, 'shop');
  await eventually('the API server asks', async () => {
    await cluster.admin.create(databases('v1'), database('probe', 'v1', { endpoint: 'a:1' }), {
      dryRun: true,
    });
    return true;
  });
});

afterAll(() => cluster.stop());

function database(name: string, version: string, spec: object, more: object = {}): CustomObject {
  return {
    apiVersion: `infra.example.com/${version}`,
    kind: 'Database',
    metadata: { name, namespace: 'shop' },
    spec: { ...spec },
    ...more,
  };
}

const ref = (name: string) => ({ namespace: 'shop', name });
const read = async (version: string, name: string): Promise<CustomObject> => {
  const found = await cluster.admin.get<CustomObject>(databases(version), ref(name));
  if (found === undefined) throw new Error(`there is no ${name}`);
  return found;
};
const specOf = async (version: string, name: string) => (await read(version, name)).spec;
const list = async (version: string): Promise<ReadonlyMap<string, CustomObject>> => {
  const { items } = await cluster.admin.listAll<CustomObject>(databases(version), { namespace: 'shop' });
  return new Map(items.map((item) => [item.metadata?.name ?? '', item]));
};
const policyIs = (accept: (policy: Conditioned) => boolean) =>
  cluster.see<Conditioned>('the ConversionPolicy', CONVERSION_POLICIES, { name: 'databases' }, accept);

const V1 = { endpoint: 'localhost:8080', version: '17', storage: '500Mi', rack: 'r1' };
const V2 = { address: { host: 'localhost', port: 8080 }, engine: { version: '17' }, replicas: 1 };

test('should be able to convert from CR v1 to CR v2', async () => {
  await cluster.admin.create(databases('v1'), database('first', 'v1', V1));
  const v2 = await read('v2', 'first');
  expect(v2).toMatchObject({
    apiVersion: 'infra.example.com/v2',
    metadata: { annotations: { 'example.com/rack': 'r1' } },
  });
  expect(v2.spec).toEqual(V2);
  expect(await specOf('v1', 'first')).toEqual(V1);
});

test('should be able to convert a non homogeneous list of CRs', async () => {
  await cluster.admin.create(databases('v1'), database('stored-v2', 'v1', V1));
  await storeIn(cluster, CRD, 'v1');
  await eventually('an object is stored in v1', async () => {
    // The API server switches to the new storage version after a moment. Both versions must be served all the time.
    await cluster.admin.create(databases('v1'), database(`stored-v1-${Date.now()}`, 'v1', V1));
    return true;
  });
  const [inV1, inV2] = [await list('v1'), await list('v2')];
  expect([...inV1.keys()].sort()).toEqual([...inV2.keys()].sort());
  expect(inV1.size).toBeGreaterThanOrEqual(3);
  for (const { apiVersion, spec } of inV1.values())
    expect({ apiVersion, spec }).toEqual({ apiVersion: 'infra.example.com/v1', spec: V1 });
  for (const { apiVersion, spec } of inV2.values())
    expect({ apiVersion, spec }).toEqual({ apiVersion: 'infra.example.com/v2', spec: V2 });
  await storeIn(cluster, CRD, 'v2');
});

describe('a value that v1 cannot hold', () => {
  const RICH = {
    address: { host: 'db', port: 5432, tls: true },
    engine: { name: 'postgres', version: '17' },
    storageGigabytes: 100,
    replicas: 3,
  };

  test('survives patch, apply and replace by a client that only knows v1', async () => {
    await cluster.admin.create(databases('v2'), database('rich', 'v2', RICH));
    expect(await specOf('v1', 'rich')).toEqual({ endpoint: 'db:5432', version: '17', storage: '100Gi' });

    await cluster.admin.patchMerge(databases('v1'), ref('rich'), { spec: { version: '18' } });
    expect(await specOf('v2', 'rich')).toEqual({ ...RICH, engine: { name: 'postgres', version: '18' } });

    const live = await read('v1', 'rich');
    await cluster.admin.replace(databases('v1'), { ...live, spec: { ...live.spec, endpoint: 'other:1' } });
    expect(await specOf('v2', 'rich')).toMatchObject({
      address: { host: 'other', port: 1, tls: true },
      replicas: 3,
    });

    await cluster.admin.apply(databases('v1'), database('rich', 'v1', { endpoint: 'applied:2' }), {
      fieldManager: 'test',
      force: true,
    });
    expect(await specOf('v2', 'rich')).toMatchObject({
      address: { host: 'applied', port: 2, tls: true },
      replicas: 3,
    });
  });

  test('is dropped when a client changes the field that it came from', async () => {
    await cluster.admin.create(
      databases('v1'),
      database('resized', 'v1', { endpoint: 'a:1', storage: '500Mi' }),
    );
    expect(await specOf('v2', 'resized')).not.toHaveProperty('storageGigabytes');
    await cluster.admin.patchMerge(databases('v2'), ref('resized'), { spec: { storageGigabytes: 7 } });
    expect(await specOf('v1', 'resized')).toEqual({ endpoint: 'a:1', storage: '7Gi' });
  });

  test('stays exact, even for integers beyond 2^53', async () => {
    const connection = await loadConnection({ kubeconfig: cluster.plane.kubeconfig('admin') });
    const exact = createRest({ connection, userAgent: 'gatehouse-test', parse: parseJson });
    const path = (version: string) => `/apis/infra.example.com/${version}/namespaces/shop/databases`;
    const body = database('exact', 'v2', { ...RICH, replicas: JSON.rawJSON('9007199254740993') });
    await exact.request({ method: 'POST', path: path('v2'), body });
    await cluster.admin.patchMerge(databases('v1'), ref('exact'), { spec: { rack: 'r9' } });
    const v2 = await exact.request<{ spec: JsonObject }>({ method: 'GET', path: `${path('v2')}/exact` });
    expect(v2.spec.replicas).toBe(9007199254740993n);
    await connection.close();
  });
});

test('status is converted like everything else', async () => {
  await cluster.admin.create(databases('v1'), database('busy', 'v1', V1));
  const live = await read('v1', 'busy');
  await cluster.admin.replaceStatus(databases('v1'), { ...live, status: { phase: 'Running' } });
  expect((await read('v2', 'busy')).status).toEqual({ state: 'Running' });
  await cluster.admin.patchStatus(databases('v2'), ref('busy'), { status: { state: 'Done' } });
  expect((await read('v1', 'busy')).status).toEqual({ phase: 'Done' });
  expect(await specOf('v1', 'busy')).toEqual(V1);
});

describe('a policy', () => {
  const change = (spec: object) =>
    cluster.admin.patchMerge(CONVERSION_POLICIES, { name: 'databases' }, { spec });
  const good = async () =>
    (
      await cluster.admin.get<Conditioned & { spec: { versions: readonly object[] } }>(CONVERSION_POLICIES, {
        name: 'databases',
      })
    )?.spec;

  test('that does not compile reports where and why, and its previous version remains in force, even after a restart', async () => {
    const before = await good();
    await change({
      versions: [{ name: 'v1', toHub: [{ remove: { path: 'metadata.finalizers' } }], fromHub: [] }],
    });
    const broken = await policyIs((policy) => condition(policy, 'Ready')?.status === 'False');
    expect(condition(broken, 'Ready')).toMatchObject({ reason: 'InvalidPath' });
    expect(condition(broken, 'Ready')?.message).toContain(
      'spec.versions[0].toHub[0].remove.path: a conversion can change only the labels and annotations of metadata',
    );
    expect(condition(broken, 'Ready')?.message).toContain('remains in force');
    expect(await specOf('v1', 'first')).toEqual(V1);

    await replica.program.stop(15_000);
    replica = await startReplica(cluster.plane, {
      name: 'again',
      port: replica.port,
      settings: { handlers },
    });
    await replica.whenReady(40_000);
    expect(await specOf('v1', 'first')).toEqual(V1);

    await change({ ...before });
    await policyIs(isTrue('Ready'));
  });

  test('whose definition does not call Gatehouse reports what to add there', async () => {
    const [group, plural] = ['conv.example.com', 'gizmos'];
    const name = `${plural}.${group}`;
    const any = { type: 'object' };
    await cluster.apply(
      definitionOf(
        { group, version: 'v2', resource: plural, kind: 'Gizmo', namespaced: false },
        { versions: [versionOf('v1', any, { storage: false, served: false }), versionOf('v2', any)] },
      ),
      {
        apiVersion: 'gatehouse.dev/v1alpha1',
        kind: 'ConversionPolicy',
        metadata: { name: plural },
        spec: { target: { apiGroup: group, resource: plural }, hub: 'v2', versions: [{ name: 'v1' }] },
      } as object,
    );
    const seen = await seeCondition(cluster, CONVERSION_POLICIES, plural, 'Ready', 'True');
    expect(condition(seen, 'Installed')).toMatchObject({ status: 'False', reason: 'NotInstalled' });
    const [, stanza = ''] = condition(seen, 'Installed')?.message.split(`${name}:\n`) ?? [];
    await cluster.admin.patchMerge(customResourceDefinitions, { name }, parse(stanza) as object);
    await seeConverting(cluster, plural);
  });
});

describe('validateObjectMetaMutation, validateUIDMutation', () => {
  const widgets = (version: string) => resourceOf('conv.example.com', 'widgets', 'Widget', false, version);
  const create = (name: string) => cluster.admin.create<CustomObject>(widgets('v1'), { metadata: { name } });

  beforeAll(async () => {
    const any = { type: 'object' };
    const service = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse', port: replica.port, path: '/convert' };
    const { metadata, ...rest } = definitionOf(widgets('v2'), {
      // The path that all kinds share.
      conversion: {
        strategy: 'Webhook',
        webhook: { conversionReviewVersions: ['v1'], clientConfig: { service } },
      },
      versions: [versionOf('v1', any, { storage: false }), versionOf('v2', any)],
    });
    const annotations = { 'gatehouse.dev/inject-cabundle': 'true' };
    await cluster.apply({ ...rest, metadata: { ...metadata, annotations } });
    const name = metadata?.name ?? '';
    await established(cluster, name);
    await eventually('the API server reaches the handler', async () => {
      await cluster.admin.create(widgets('v1'), { metadata: { name: 'probe' } }, { dryRun: true });
      return true;
    });
  });

  test('a conversion changes labels and annotations, and no other metadata', async () => {
    const created = await create('plain');
    for (const object of [created, await cluster.admin.get<CustomObject>(widgets('v1'), { name: 'plain' })]) {
      expect(object?.metadata).toMatchObject({
        labels: { to: 'v1' },
        annotations: { from: 'conv.example.com/v2', to: 'v1' },
        generation: 1,
      });
      expect(object?.metadata).not.toHaveProperty('finalizers');
      expect(object?.metadata).not.toHaveProperty('garbage');
    }
  });
});

describe('expectConversionFailureMessage', () => {
  const BROKEN = 'index out of bounds: 9';
  let restore: object | undefined;

  beforeAll(async () => {
    await cluster.admin.create(databases('v2'), database('unreadable', 'v2', V2));
    const policy = await cluster.admin.get<
      Conditioned & { spec: { versions: readonly { fromHub: readonly object[] }[] } }
    >(CONVERSION_POLICIES, { name: 'databases' });
    restore = policy?.spec;
    const [v1] = policy?.spec.versions ?? [];
    const fromHub = [
      { set: { path: 'spec.storage', expression: 'object.spec.address.host.split(".")[9]' } },
      ...(v1?.fromHub ?? []),
    ];
    await cluster.admin.patchMerge(
      CONVERSION_POLICIES,
      { name: 'databases' },
      { spec: { versions: [{ ...v1, fromHub }] } },
    );
    await eventually('the step is in force', async () =>
      (await failureOf(() => read('v1', 'unreadable'))).includes(BROKEN),
    );
  });
  afterAll(async () => {
    await cluster.admin.patchMerge(CONVERSION_POLICIES, { name: 'databases' }, { spec: restore ?? {} });
    await eventually('the step is gone', async () => (await specOf('v1', 'unreadable')) !== undefined);
  });

  test('the user learns which policy and step failed, also in a creation', async () => {
    const fresh = database('new', 'v1', { endpoint: 'a:1' });
    for (const attempt of [
      () => read('v1', 'unreadable'),
      () => cluster.admin.create(databases('v1'), fresh),
    ]) {
      const message = await failureOf(attempt);
      expect(message).toContain('cannot be converted from');
      expect(message).toContain('ConversionPolicy databases');
      expect(message).toContain(`fromHub[0]: ${BROKEN}`);
    }
  });

  test('requests in the storage version still succeed', async () => {
    expect(await specOf('v2', 'unreadable')).toEqual(V2);
    await cluster.admin.patchMerge(databases('v2'), ref('unreadable'), {
      metadata: { annotations: { patch: 'true' } },
    });
  });
});

test('a definition whose objects are stored in two versions can be deleted', async () => {
  await storeIn(cluster, CRD, 'v1');
  await cluster.admin.create(databases('v2'), database('last', 'v2', V2));
  await cluster.admin.delete(customResourceDefinitions, { name: CRD });
  await untilGone(cluster, customResourceDefinitions, { name: CRD });
  const orphaned = await policyIs((policy) => condition(policy, 'Ready')?.reason === 'UnknownTarget');
  expect(condition(orphaned, 'Installed')).toMatchObject({ status: 'False', reason: 'NoDefinition' });
});

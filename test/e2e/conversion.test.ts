import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ApiError } from '../../src/kube/api-error.ts';
import { createNamespace, type Cluster } from '../support/cluster.ts';
import {
  convertExamples,
  databases,
  storeIn,
  type CustomObject,
} from '../support/conversion-objects.ts';
import type { Replica } from '../support/gatehouse.ts';
import { startGatehouse } from '../support/gatehouse-cluster.ts';
import { eventually } from '../support/processes.ts';

let cluster: Cluster;
let replica: Replica;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse());
  await convertExamples(cluster, replica.port);
  await createNamespace(cluster, 'shop');
  await eventually('the API server asks', async () => {
    await cluster.admin.create(databases('v1'), database('probe', 'v1', { endpoint: 'a:1' }), { dryRun: true });
    return true;
  });
});

afterAll(async () => {
  await replica.program.stop(15_000);
  await cluster.stop();
});

function database(name: string, version: string, spec: object, more: object = {}): CustomObject {
  return {
    apiVersion: `infra.example.com/${version}`,
    kind: 'Database',
    metadata: { name, namespace: 'shop' },
    spec: { ...spec },
    ...more,
  };
}

const read = async (version: string, name: string): Promise<CustomObject> => {
  const found = await cluster.admin.get<CustomObject>(databases(version), { namespace: 'shop', name });
  if (found === undefined) throw new Error(`there is no ${name}`);
  return found;
};

test('should be able to convert from CR v1 to CR v2', async () => {
  const spec = { endpoint: 'localhost:8080', version: '17', storage: '100Gi', rack: 'r1' };
  await cluster.admin.create(databases('v1'), database('first', 'v1', spec));
  const v2 = await read('v2', 'first');
  expect(v2).toMatchObject({
    apiVersion: 'infra.example.com/v2',
    metadata: { annotations: { 'example.com/rack': 'r1' } },
  });
  expect(v2.spec).toEqual({
    address: { host: 'localhost', port: 8080 },
    engine: { version: '17' },
    storageGigabytes: 100,
    replicas: 1,
  });
  expect((await read('v1', 'first')).spec).toEqual(spec);
});

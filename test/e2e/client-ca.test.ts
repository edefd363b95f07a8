// suite: own-plane, sandbox: long
/**
 * `--client-ca` with a real kube-apiserver: it presents a certificate if it is configured to, and only for admission.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { createClientCa } from '../support/client-certificates.ts';
import { SERVERS, startClusterFor, type Cluster } from '../support/cluster.ts';
import { testsSandbox } from '../support/control-plane.ts';
import { convertExamples, databases, type CustomObject } from '../support/conversion-objects.ts';
import { endpointOf, enforceExamples } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { server } from '../support/objects.ts';
import { eventually, freePort } from '../support/processes.ts';
import { post } from '../support/webhook-client.ts';
import { fileFolder } from '../support/folder.ts';

const HOST = 'gatehouse.gatehouse-system.svc';
const API_SERVER = 'kube-apiserver';

const folder = fileFolder('client-ca');
const file = (name: string) => join(folder, name);
const ours = createClientCa('webhook clients');
const apiServer = ours.issue({ commonName: API_SERVER });

let cluster: Cluster;
let replica: Replica;

/**
 * Writes the configuration that an operator passes to kube-apiserver (JSON is YAML). The port may be omitted from the
 * name if it is 443.
 */
function writeAdmissionConfig(port: number): void {
  const data = (pem: string) => Buffer.from(pem).toString('base64');
  const user = { 'client-certificate-data': data(apiServer.cert), 'client-key-data': data(apiServer.key) };
  const kubeconfig = { apiVersion: 'v1', kind: 'Config', users: [{ name: `${HOST}:${port}`, user }] };
  writeFileSync(file('kubeconfig'), JSON.stringify(kubeconfig));
  const plugins = ['ValidatingAdmissionWebhook', 'MutatingAdmissionWebhook'].map((name) => ({
    name,
    configuration: {
      apiVersion: 'apiserver.config.k8s.io/v1',
      kind: 'WebhookAdmissionConfiguration',
      kubeConfigFile: file('kubeconfig'),
    },
  }));
  writeFileSync(
    file('admission'),
    JSON.stringify({ apiVersion: 'apiserver.config.k8s.io/v1', kind: 'AdmissionConfiguration', plugins }),
  );
}

const create = (name: string, datacenter: string) =>
  cluster.admin.create(SERVERS, server('shop', name, datacenter));

describe.skipIf(testsSandbox())('--client-ca (not on the sandbox, which presents no certificates)', () => {
  beforeAll(async () => {
    const port = await freePort();
    writeAdmissionConfig(port);
    writeFileSync(file('ca.crt'), ours.cert);
    cluster = await startClusterFor(port, {
      apiServerFlags: [`--admission-control-config-file=${file('admission')}`],
    });
    const settings = { 'client-ca': file('ca.crt'), 'client-names': API_SERVER };
    replica = await startReplica(cluster.plane, { name: 'one', port, settings });
    await replica.whenReady();
    await enforceExamples(cluster);
  });

  afterAll(() => cluster.stop());

  test('the API server is accepted with the certificate from its kubeconfig for webhooks, and a client without one is not', async () => {
    await create('good', 'fra1');
    await expect(create('bad', 'atlantis')).rejects.toThrow(/atlantis/);
    expect((await post(await endpointOf(cluster, replica), '/validate/x', '{}')).status).toBe(401);
  });

  test('the API server presents no certificate for conversions, and Gatehouse converts nevertheless', async () => {
    await convertExamples(cluster, replica.port);
    const object: CustomObject = {
      apiVersion: 'infra.example.com/v1',
      kind: 'Database',
      metadata: { name: 'orders', namespace: 'shop' },
      spec: { endpoint: 'localhost:8080', version: '17' },
    };
    await eventually('the API server asks', () => cluster.admin.create(databases('v1'), object));
    const read = await cluster.admin.get<CustomObject>(databases('v2'), {
      namespace: 'shop',
      name: 'orders',
    });
    expect(read?.spec).toMatchObject({ address: { host: 'localhost', port: 8080 } });
  });
});

// suite: shared-plane, sandbox: yes
/** The folders in deploy/examples do what their comments say, and need no permissions other than their own. */
import { X509Certificate } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { DATACENTERS, SERVERS } from '../../src/cli/sandbox/tour-objects.ts';
import { readManifests } from '../../src/cli/deploy-manifests.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import { namespaces, secrets, validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import { established, type Cluster } from '../support/cluster.ts';
import { enforceExamples, seeInForce, startGatehouse, untilRefused } from '../support/gatehouse-cluster.ts';
import { datacenter, text, type SecretObject, type WebhookConfigurationObject } from '../support/objects.ts';
import { recordOf } from '../support/owner-scene.ts';
import { eventually } from '../support/processes.ts';

const EXAMPLES = join(import.meta.dirname, '..', '..', 'deploy', 'examples');
const USERS: Resource = {
  group: 'people.example.com',
  version: 'v1',
  resource: 'users',
  kind: 'User',
  namespaced: false,
};

let cluster: Cluster;

beforeAll(async () => {
  ({ cluster } = await startGatehouse());
  await enforceExamples(cluster);
});
afterAll(() => cluster.stop());

/** The objects of `examples/<folder>/objects`, by name. */
function objectsOf(folder: string): (name: string) => KubeObject {
  const objects = readManifests(join(EXAMPLES, folder, 'objects'));
  return (name) => {
    const found = objects.find(({ metadata }) => metadata?.name === name);
    if (found === undefined) throw new Error(`examples/${folder}/objects has no ${name}`);
    return found;
  };
}

test('unique: the second of two Servers with the same serial number is refused', async () => {
  await cluster.applyFolder('examples/unique');
  await seeInForce(cluster, 'serials');
  await cluster.admin.create(DATACENTERS, datacenter('muc1'));
  const object = objectsOf('unique');
  await cluster.admin.create(SERVERS, object('first'));
  await untilRefused('the second', 'spec.serial: "X-17" is held by', () =>
    cluster.admin.create(SERVERS, object('second'), { dryRun: true }),
  );
});

test('users: a Namespace needs the User that it names, and records the User that owns it', async () => {
  await cluster.applyFolder('examples/users', ({ kind }) => kind === 'CustomResourceDefinition');
  await established(cluster, 'users.people.example.com');
  await cluster.applyFolder('examples/users', ({ kind }) => kind !== 'CustomResourceDefinition');
  await seeInForce(cluster, 'namespaces-of-users');
  const object = objectsOf('users');
  await untilRefused('a Namespace without an existing owner', 'people.example.com/owner', () =>
    cluster.admin.create(namespaces, object('eve-lab'), { dryRun: true }),
  );

  const ada = await cluster.admin.create(USERS, object('ada'));
  const lab = await cluster.admin.create(namespaces, object('ada-lab'));
  expect(lab.metadata?.labels).toMatchObject({ 'people.example.com/owner': 'ada' });
  const owner = { apiVersion: 'people.example.com/v1', kind: 'User', name: 'ada', uid: ada.metadata?.uid };
  const owned = await cluster.admin.patchMerge(
    namespaces,
    { name: 'ada-lab' },
    { metadata: { ownerReferences: [owner] } },
  );
  expect(JSON.parse(recordOf(owned) ?? '{}')).toMatchObject({ self: 'ada-lab', refs: [owner] });
});

test('webhook: a third-party webhook gets a certificate for its Service, and the CA bundle that verifies it', async () => {
  await cluster.applyFolder('examples/webhook');
  const secret = await cluster.see<SecretObject>('the Secret', secrets, {
    namespace: 'config-guard',
    name: 'config-guard-tls',
  });
  const leaf = new X509Certificate(text(secret, 'tls.crt'));
  expect(leaf.checkHost('config-guard.config-guard.svc')).toBe('config-guard.config-guard.svc');

  const bundle = await eventually('the bundle', async () => {
    const found = await cluster.admin.get<WebhookConfigurationObject>(validatingWebhookConfigurations, {
      name: 'config-guard',
    });
    return found?.webhooks?.[0]?.clientConfig.caBundle;
  });
  const authority = new X509Certificate(Buffer.from(bundle, 'base64'));
  expect(leaf.verify(authority.publicKey)).toBe(true);
});

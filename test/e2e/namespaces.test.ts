// suite: shared-plane, sandbox: long
/** With --namespaces, RoleBindings in these namespaces are enough for everything namespaced. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, namespaces, secrets } from '../../src/kube/well-known.ts';
import {
  createNamespace,
  DATACENTERS,
  established,
  SERVERS,
  startCluster,
  SYSTEM_NAMESPACE,
  type Cluster,
  untilGone,
  askForCertificate,
} from '../support/cluster.ts';
import { isGatehouse, USERS } from '../support/control-plane-users.ts';
import { createDeployed } from '../support/deployed.ts';
import {
  refusal,
  seeInForce,
  untilRefused,
  untilServersChecked,
  seeViolations,
} from '../support/gatehouse-cluster.ts';
import { startReplica } from '../support/gatehouse.ts';
import { refusedTo, rolesIn } from '../support/grants.ts';
import { ASKS, KINDS, type Carrier } from '../support/injection-objects.ts';
import { createKubectl, HAS_KUBECTL, type Kubectl } from '../support/kubectl.ts';
import { datacenter, grant, referencesRole, server, serversPolicy } from '../support/objects.ts';
import { freePort } from '../support/processes.ts';

const COVERED = [SYSTEM_NAMESPACE, 'shop'];
const NAMESPACED = ['configmaps', 'endpointslices', 'events', 'secrets', 'servers', 'services'];

let cluster: Cluster;
let kubectl: Kubectl;

const PROCESSES = ['gatehouse', 'webhook', 'controllers'] as const;

/** Permits what policies read of cluster-scoped kinds, which RoleBindings cannot permit. */
function referencesOfCluster(manifests: readonly KubeObject[]): readonly KubeObject[] {
  const users = PROCESSES.map((user) => USERS[user].name);
  const rules = rolesIn(manifests)
    .filter(({ kind }) => kind === 'ClusterRole')
    .flatMap((role) => role.rules ?? [])
    .flatMap((rule) => {
      const resources = (rule.resources ?? []).filter((name) => !NAMESPACED.includes(name));
      return resources.length === 0 ? [] : [{ ...rule, resources }];
    });
  return grant('cluster-scoped-references', users, rules);
}

describe.skipIf(!HAS_KUBECTL)('with --namespaces', () => {
  beforeAll(async () => {
    const port = await freePort();
    cluster = await startCluster();
    kubectl = createKubectl(cluster.plane);
    const deployed = createDeployed(cluster, kubectl, port);
    await deployed.apply('overlays/default', { components: ['namespaces'] });
    await established(cluster, 'admissionpolicies.gatehouse.dev');
    for (const name of ['shop', 'other']) await createNamespace(cluster, name);
    for (const namespace of COVERED) await deployed.apply('components/namespaces/bindings', { namespace });
    const examples: KubeObject[] = [];
    await cluster.applyFolder('examples', (one) => {
      examples.push(one);
      return one.kind === 'ClusterRole';
    });
    await cluster.apply(...referencesOfCluster(examples), referencesRole('configmaps', '', ['configmaps']));
    const replica = await startReplica(cluster.plane, {
      name: 'one',
      port,
      arrangement: 'both' as const,
      settings: { namespaces: 'shop' },
    });
    await replica.whenReady();
  });

  afterAll(async () => {
    kubectl.stop();
    await cluster.stop();
  });

  test('Services and ConfigMaps in the namespaces get what they ask for; elsewhere, nothing happens', async () => {
    const { resource, make } = KINDS.configmap;
    for (const namespace of ['other', 'shop']) {
      await askForCertificate(cluster, namespace, 'front');
      const { metadata, ...trust } = make('trust', ASKS);
      await cluster.admin.create(resource, { ...trust, metadata: { ...metadata, namespace } });
    }
    await cluster.see('the cert', secrets, { namespace: 'shop', name: 'front-tls' });
    const isFilled = ({ data }: Carrier) => data?.['ca.crt'] !== undefined;
    await cluster.see<Carrier>('the bundle', resource, { namespace: 'shop', name: 'trust' }, isFilled);
    const elsewhere = await cluster.admin.get<Carrier>(resource, { namespace: 'other', name: 'trust' });
    expect(elsewhere?.data).not.toHaveProperty(['ca.crt']);
    expect(await cluster.admin.get(secrets, { namespace: 'other', name: 'front-tls' })).toBeUndefined();
  });

  test('a policy that needs only the request is enforced everywhere; its audit covers the namespaces', async () => {
    await cluster.applyFolder('examples', ({ kind }) => kind === 'CustomResourceDefinition');
    await established(cluster, 'servers.infra.example.com');
    for (const namespace of ['other', 'shop'])
      await cluster.admin.create(SERVERS, server(namespace, 'old', 'fra1'));
    const rule = {
      name: 'old',
      message: 'no old names',
      expression: "!object.metadata.name.startsWith('old')",
    };
    await cluster.apply(serversPolicy('names', { validate: { rules: [rule] } }));
    await seeInForce(cluster, 'names');
    for (const namespace of ['other', 'shop'])
      await untilRefused(`an old name in ${namespace}`, 'no old names', () =>
        cluster.admin.create(SERVERS, server(namespace, 'old-2', 'fra1'), { dryRun: true }),
      );
    await seeViolations(cluster, 'names', (total) => total === 1);
  });

  test('a policy that reads other objects is enforced in the namespaces, and refuses requests elsewhere', async () => {
    await cluster.applyFolder('examples', ({ kind }) => kind === 'AdmissionPolicy');
    await seeInForce(cluster, 'servers');
    await untilServersChecked(cluster);
    const denied = await refusal(cluster.admin.create(SERVERS, server('other', 'probe', 'nowhere')));
    expect(denied.message).toContain('Gatehouse does not read namespace other');
  });

  test('a policy that restricts deletions lets targets elsewhere be deleted, because no known object names them', async () => {
    const target = { apiGroup: '', resource: 'configmaps' };
    const held = { name: 'settings', path: 'metadata.labels.settings', target, optional: true };
    await cluster.apply(
      serversPolicy('stays', { validate: { references: [{ ...held, onTargetDelete: 'Restrict' }] } }),
    );
    await seeInForce(cluster, 'stays');
    for (const namespace of ['other', 'shop'])
      await cluster.admin.create(configMaps, { metadata: { namespace, name: 'settings' } });
    await cluster.admin.create(DATACENTERS, datacenter('fra1'));
    await cluster.admin.create(
      SERVERS,
      server('shop', 'front', 'fra1', { labels: { settings: 'settings' } }),
    );
    await untilRefused('deleting a target in shop', 'still referenced by', () =>
      cluster.admin.delete(configMaps, { namespace: 'shop', name: 'settings' }, { dryRun: true }),
    );
    await cluster.admin.delete(configMaps, { namespace: 'other', name: 'settings' });
    await cluster.admin.create(configMaps, { metadata: { namespace: 'other', name: 'remains' } });
    await cluster.admin.delete(namespaces, { name: 'other' });
    await untilGone(cluster, namespaces, { name: 'other' });
  });

  test('the API server refuses nothing, and receives requests about these namespaces only', () => {
    const log = cluster.plane.auditLog();
    for (const user of PROCESSES) expect(refusedTo(log, USERS[user].name)).toEqual([]);
    const outside = log.flatMap(({ user, verb, requestURI, objectRef: { resource = '', namespace } = {} }) =>
      isGatehouse(user.username) &&
      (namespace === 'other' || (NAMESPACED.includes(resource) && namespace === undefined))
        ? [`${verb} ${requestURI}`]
        : [],
    );
    expect(outside).toEqual([]);
  });
});

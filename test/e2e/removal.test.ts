// suite: own-plane, sandbox: long, slow
/**
 * However Gatehouse is removed, nothing that the leader wrote for admission stays. Here, its processes still run, with all
 * permissions: the worst case. The API server checks the permission to set owners, as on OpenShift.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { INSTALLED_SELECTOR } from '../../src/admission/native/installed-policy.ts';
import { INSTALLATION_ROLE } from '../../src/admission/webhooks/installation-owner.ts';
import { OWN_KINDS_POLICY_NAME } from '../../src/admission/webhooks/protect-own-kinds.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import {
  clusterRoles,
  configMaps,
  mutatingWebhookConfigurations,
  namespaces,
  services,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { RESTORE_DETECTORS } from '../../src/runtime/resources.ts';
import {
  ADMISSION_POLICIES,
  createNamespace,
  localService,
  SYSTEM_NAMESPACE,
  untilAuthorized,
  type Cluster,
} from '../support/cluster.ts';
import { testsSandbox } from '../support/control-plane.ts';
import { seeInForce, startGatehouse, untilRefused } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import {
  admissionPolicy,
  type Conditioned,
  type WebhookConfigurationObject,
  configMap,
} from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

const ROLE = { name: INSTALLATION_ROLE };
const CONFIGURATION = { name: 'gatehouse' };
const CONFIGURATIONS = [mutatingWebhookConfigurations, validatingWebhookConfigurations];
const FOR_RESTORERS = [validatingAdmissionPolicies, validatingAdmissionPolicyBindings];
/** Longer than the leader waits after the role is deleted. */
const GONE_MS = 12_000;

interface RoleObject extends KubeObject {
  readonly rules?: readonly { readonly resources: readonly string[]; readonly verbs: readonly string[] }[];
}

let cluster: Cluster;
let replica: Replica;

const POLICY = admissionPolicy('colours', {
  match: { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] },
  validate: { rules: [{ expression: 'object.?data.?color.orValue("") != "red"', message: 'red is out' }] },
});

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    arrangement: 'both',
    own: true,
    admissionPlugins: ['OwnerReferencesPermissionEnforcement'],
    settings: { 'compile-policies': 'true' },
    prepare: (prepared) => prepared.applyFolder('components/compile-policies'),
  }));
  await createNamespace(cluster, 'shop');
  await cluster.applyFolder('detectors/velero');
  const trusting = { spec: { namespaces: ['velero'] } };
  await cluster.admin.patchMerge(RESTORE_DETECTORS, { name: 'velero' }, trusting);
  await cluster.apply(POLICY);
  await seeInForce(cluster, 'colours');
});

afterAll(() => cluster.stop());

const paint = () => cluster.admin.create(configMaps, configMap('a', { color: 'red' }), { dryRun: true });
const untilEnforced = () => untilRefused('red', 'red is out', paint);

const applyRole = () => cluster.applyFolder('base', ({ metadata }) => metadata?.name === INSTALLATION_ROLE);
const roleUid = async () => (await cluster.admin.get(clusterRoles, ROLE))?.metadata?.uid;

const bindings = async () =>
  (await cluster.admin.list(validatingAdmissionPolicyBindings, { labelSelector: INSTALLED_SELECTOR })).items;

/** What the installation owns. */
async function written(): Promise<readonly (KubeObject | undefined)[]> {
  const [configurations, forRestorers, compiled] = await Promise.all([
    Promise.all(CONFIGURATIONS.map((kind) => cluster.admin.get<KubeObject>(kind, CONFIGURATION))),
    Promise.all(
      FOR_RESTORERS.map((kind) => cluster.admin.get<KubeObject>(kind, { name: OWN_KINDS_POLICY_NAME })),
    ),
    bindings(),
  ]);
  return [...configurations, ...forRestorers, compiled[0]];
}

/** The uid of the ClusterRole that owns an object, if it is the only owner. */
const ownerOf = (object: KubeObject | undefined): string | undefined => {
  const [owner, ...others] = object?.metadata?.ownerReferences ?? [];
  return owner?.name === INSTALLATION_ROLE && others.length === 0 ? owner.uid : undefined;
};

/** The whole chain: what the leader wrote, its role, its namespace. */
const seeOwned = () =>
  eventually('everything is owned', async () => {
    const uid = await roleUid();
    expect(uid).toBeDefined();
    expect((await written()).map(ownerOf)).toEqual([uid, uid, uid, uid, uid]);
    const namespace = await cluster.admin.get(namespaces, { name: SYSTEM_NAMESPACE });
    const role = await cluster.admin.get(clusterRoles, ROLE);
    expect(role?.metadata?.ownerReferences).toMatchObject([
      { kind: 'Namespace', uid: namespace?.metadata?.uid },
    ]);
    return true;
  });

const seeNothing = () =>
  eventually('nothing is left', async () => {
    expect((await written()).filter((object) => object !== undefined)).toEqual([]);
    return true;
  });

test('the role owns what the leader writes, and the namespace owns the role', async () => {
  await untilEnforced();
  await seeOwned();
});

test('without the permission to set the owner, the rest is written', async (context) => {
  context.skip(testsSandbox(), 'the sandbox does not run admission plugins');
  const account = 'gatehouse-controllers';
  const role = await cluster.admin.get<RoleObject>(clusterRoles, { name: account });
  const rules = (role?.rules ?? []).map((rule) =>
    rule.resources.includes('validatingwebhookconfigurations')
      ? { ...rule, verbs: rule.verbs.filter((verb) => verb !== 'delete') }
      : rule,
  );
  const spoil = () =>
    cluster.admin.patchMerge(validatingWebhookConfigurations, CONFIGURATION, {
      metadata: { ownerReferences: null },
      webhooks: [],
    });
  await cluster.admin.patchMerge(clusterRoles, { name: account }, { rules });
  await untilAuthorized(cluster);
  await spoil();
  const repaired = await cluster.see<WebhookConfigurationObject>(
    'the webhooks',
    validatingWebhookConfigurations,
    CONFIGURATION,
    ({ webhooks = [] }) => webhooks.length > 0,
  );
  expect(repaired.metadata?.ownerReferences).toBeUndefined();
  await eventually('the log says which permission is missing', () =>
    readFileSync(replica.program.logFile, 'utf8').includes('permit delete'),
  );

  await cluster.applyFolder('base', ({ metadata }) => metadata?.name === account);
  await spoil();
  await seeOwned();
  await untilEnforced();
});

test('a role that is deleted and created again owns everything again, and the policy is enforced', async () => {
  const before = await roleUid();
  await cluster.admin.delete(clusterRoles, ROLE);
  await applyRole();
  expect(await roleUid()).not.toBe(before);
  await seeOwned();
  await untilEnforced();
  await sleep(3_000); // the garbage collector has looked again
  await seeOwned();
  await untilEnforced();
});

test('without Service and role, everything goes and stays away, and no write is refused; it returns with them', async () => {
  const service = await cluster.admin.get<KubeObject & { spec?: { ports?: { port: number }[] } }>(services, {
    namespace: SYSTEM_NAMESPACE,
    name: 'gatehouse',
  });
  await cluster.admin.delete(services, { namespace: SYSTEM_NAMESPACE, name: 'gatehouse' });
  await cluster.admin.delete(clusterRoles, ROLE);
  await seeNothing();
  await sleep(GONE_MS);
  expect((await written()).filter((object) => object !== undefined)).toEqual([]);
  await paint();
  await cluster.see<Conditioned>('the policy says why', ADMISSION_POLICIES, { name: 'colours' }, (policy) =>
    JSON.stringify(policy.status).includes('Service gatehouse-system/gatehouse does not exist'),
  );

  await cluster.apply(localService(SYSTEM_NAMESPACE, 'gatehouse', service?.spec?.ports?.[0]?.port ?? 0));
  await applyRole();
  await untilEnforced();
  await seeOwned();
});

// Last: the namespace of Gatehouse is gone afterwards.
test('with the namespace, everything goes and stays away, and no write is refused', async () => {
  await cluster.admin.delete(namespaces, { name: SYSTEM_NAMESPACE });
  await seeNothing();
  expect(await cluster.admin.get(clusterRoles, ROLE)).toBeUndefined();
  await sleep(GONE_MS);
  expect((await written()).filter((object) => object !== undefined)).toEqual([]);
  await paint();
});

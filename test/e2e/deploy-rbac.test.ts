// suite: shared-plane, sandbox: long
/**
 * Both processes with exactly the permissions that deploy/ gives to their accounts: they are sufficient for all functions,
 * and none is unused.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';

import { readManifests } from '../../src/cli/deploy-manifests.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import {
  certificates,
  clusterRoles,
  configMaps,
  leases,
  namespaces,
  secrets,
  services,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { RESTORE_DETECTORS, RESTORE_REPORTS, UNIQUE_CLAIMS } from '../../src/runtime/resources.ts';
import { createClientCa } from '../support/client-certificates.ts';
import {
  ADMISSION_POLICIES,
  askForCertificate,
  AUTHORITY,
  BUNDLE,
  createNamespace,
  DATACENTERS,
  established,
  LEASE,
  localService,
  ROLE_BINDINGS,
  SERVERS,
  SERVING,
  startCluster,
  SYSTEM_NAMESPACE,
  untilGone,
  type Cluster,
} from '../support/cluster.ts';
import { USERS } from '../support/control-plane-users.ts';
import { convertExamples, databases, type CustomObject } from '../support/conversion-objects.ts';
import { createDeployed, type Deployed } from '../support/deployed.ts';
import { outcomeOf, seeInForce, untilRefused, seeViolations } from '../support/gatehouse-cluster.ts';
import { arrangementOf, startReplica, type Replica } from '../support/gatehouse.ts';
import {
  aggregated,
  permissionsOf,
  permissionsUsed,
  purposesIn,
  refusedTo,
  rolesBoundTo,
  wasMade,
  type GrantingRole,
  type Permission,
} from '../support/grants.ts';
import {
  certificateKind,
  edit,
  KINDS,
  seeBundle,
  seeEvent,
  type Carrier,
} from '../support/injection-objects.ts';
import { createKubectl, HAS_KUBECTL, type Kubectl } from '../support/kubectl.ts';
import {
  admissionPolicy,
  grant,
  referencesRole,
  server,
  text,
  type Claim,
  type SecretObject,
  type LeaseObject,
  inShop,
  toDatacenter,
} from '../support/objects.ts';
import { createOwnerScene, ownersOf, type OwnerScene } from '../support/owner-scene.ts';
import { base64 } from '../support/pki/fixtures.ts';
import { eventually, freePort } from '../support/processes.ts';
import { application, zone, ZONES } from '../support/restore-kinds.ts';
import {
  asReturned,
  enforceApplications,
  installKinds,
  isVerified,
  seeReportOf,
  seeWindowOf,
  untilDetectorCounts,
} from '../support/restore-scene.ts';
import { createVelero, installVelero, type Velero } from '../support/velero.ts';
import { VELERO } from '../support/velero-client.ts';

const LABELS = { purpose: 'selling' };
const SELLING = { namespaceSelector: { matchLabels: LABELS } };

/** Newer API servers reject a caBundle that is not PEM. */
const THEIRS = createClientCa('another CA').cert;

/** More violations than the status of a window can list. */
const ORPHANS = 60;

/** Permissions granted to each account that this test does not use, each with the reason to keep it. */
const NOT_USED_BY: Readonly<Record<'webhook' | 'controllers', Readonly<Record<Permission, string>>>> = {
  webhook: {
    'get gatehouse.dev/admissionpolicies':
      'the search for unsettled claims reads the policy of one that it does not know',
  },
  controllers: {
    'get gatehouse.dev/admissionpolicies':
      'the hourly look at claims reads the policy of one that it does not know',
    'list core/services in gatehouse-system':
      'without certificates: otherwise, the list of all Services is enough',
    'watch core/services in gatehouse-system':
      'without certificates: otherwise, the list of all Services is enough',
    'update core/configmaps named gatehouse-served-certs in gatehouse-system':
      'the report changes only when servers present other certificates',
    'update core/configmaps named gatehouse-user-controllers in gatehouse-system':
      'no controllers of users run in this test',
    'list discovery.k8s.io/endpointslices in gatehouse-system':
      'before the first installation, if the Service has a selector: here, it has none',
    'delete infra.example.com/servers': 'OwnerReferencesPermissionEnforcement asks for it',
    'delete admissionregistration.k8s.io/mutatingwebhookconfigurations named gatehouse':
      'OwnerReferencesPermissionEnforcement asks for it',
    'delete admissionregistration.k8s.io/validatingwebhookconfigurations named gatehouse':
      'OwnerReferencesPermissionEnforcement asks for it',
    'delete rbac.authorization.k8s.io/clusterroles named gatehouse-installation':
      'OwnerReferencesPermissionEnforcement asks for it',
    'update infra.example.com/datacenters/finalizers': 'OwnerReferencesPermissionEnforcement asks for it',
  },
};

type Process = 'webhook' | 'controllers' | 'gatehouse';
const IS_SPLIT = arrangementOf('both') === 'split';
const PROCESSES: readonly Process[] = IS_SPLIT ? ['webhook', 'controllers'] : ['gatehouse'];
/** The user that decides reviews. */
const ADMITTING = USERS[IS_SPLIT ? 'webhook' : 'gatehouse'].name;

/** `gatehouse serve` has the permissions of both accounts. */
const accountsOf = (process: Process): readonly string[] =>
  (process === 'gatehouse' ? ['webhook', 'controllers'] : [process]).map((one) => `gatehouse-${one}`);
/** Watching its own Service, `gatehouse serve` uses what the controllers need only without certificates. */
const OWN_SERVICE = /^(list|watch) core\/services in /;
function notUsedHere(process: Process): Readonly<Record<Permission, string>> {
  if (process !== 'gatehouse') return NOT_USED_BY[process];
  const all = Object.entries({ ...NOT_USED_BY.webhook, ...NOT_USED_BY.controllers });
  return Object.fromEntries(all.filter(([permission]) => !OWN_SERVICE.test(permission)));
}

const ROOT = join(import.meta.dirname, '..', '..');
const HARDENING = join(ROOT, 'docs', 'reference', 'permissions.md');
const DEPLOY = join(ROOT, 'deploy');
/** An administrator can grant less by leaving out folders. */
const FOLDERS = [
  'base',
  'components/delete-secrets',
  'components/openshift-compat',
  'components/cert-manager-compat',
  'components/distribute-bundles',
  'components/status-page',
  'components/policy-reports',
  'detectors/velero',
];

/** Kinds that API servers serve by default since Kubernetes 1.37: `group/resource`. */
const LATER = /^\w+ certificates\.k8s\.io\/\w+( named \S+)?$/;

const own = (name: string) => ({ namespace: SYSTEM_NAMESPACE, name });

describe.skipIf(!HAS_KUBECTL)('with the permissions of deploy/', () => {
  let cluster: Cluster;
  let kubectl: Kubectl;
  let deployed: Deployed;
  let replicas: readonly Replica[] = [];
  let port: number;
  let velero: Velero;
  let scene: OwnerScene;

  const start = async (name: string, settings: Parameters<typeof startReplica>[1]['settings'] = {}) => {
    const replica = await startReplica(cluster.plane, {
      name,
      port,
      arrangement: 'both',
      settings: { 'unique-settle': '2s', ...settings },
    });
    replicas = [...replicas, replica];
    await replica.whenReady();
    return replica;
  };

  beforeAll(async () => {
    port = await freePort();
    cluster = await startCluster();
    kubectl = createKubectl(cluster.plane);
    deployed = createDeployed(cluster, kubectl, port);
    await installVelero(cluster);
    await installKinds(cluster);
    await deployed.apply('overlays/default');
    await established(cluster, 'restoredetectors.gatehouse.dev');
    await start('one');
  });

  afterAll(async () => {
    await velero.stop();
    kubectl.stop();
    await cluster.stop();
  });

  afterEach(() => {
    for (const process of PROCESSES) {
      const refused = refusedTo(cluster.plane.auditLog(), USERS[process].name);
      expect(refused, `what the ${process} process lacks permission to do`).toEqual([]);
    }
    const complaints = replicas.flatMap(({ program }) =>
      readFileSync(program.logFile, 'utf8')
        .split('\n')
        // A denial by Gatehouse itself is not a missing permission.
        .filter((line) => /forbidden/i.test(line) && !line.includes('"msg":"admission"')),
    );
    expect(complaints, 'what its log says it lacks permission to do').toEqual([]);
  });

  test.each(Object.keys(NOT_USED_BY))(
    'no permission is granted twice to %s, and docs/reference/permissions.md names each of them',
    (process) => {
      const account = `gatehouse-${process}`;
      const manifests = FOLDERS.flatMap((folder) => readManifests(join(DEPLOY, folder)));
      const bound = rolesBoundTo(account, manifests, SYSTEM_NAMESPACE).filter(
        ({ rules }) => rules !== undefined,
      );
      // Both accounts have what gatehouse-references aggregates; the page names it once, for the controllers.
      const roles = process === 'controllers' ? [...bound, ...aggregated(manifests)] : bound;
      const granted = roles.flatMap((role) =>
        permissionsOf(role).map((permission) => ({
          permission,
          part: role.metadata?.labels?.['gatehouse.dev/part'],
        })),
      );
      // Two parts may need the same permission, because each of them can be left out.
      const inPart = granted.map(({ permission, part }) => `${permission} of ${part ?? 'all'}`);
      expect(inPart.filter((one, index) => inPart.indexOf(one) !== index)).toEqual([]);
      const named = purposesIn(readFileSync(HARDENING, 'utf8'), account).map(({ permission }) => permission);
      expect(named.toSorted()).toEqual([...new Set(granted.map(({ permission }) => permission))].toSorted());
    },
  );

  test('a replica leads, creates and publishes its authority, and installs its webhooks', async () => {
    const lease = await cluster.see<LeaseObject>('the lease', leases, LEASE);
    expect(lease.spec?.holderIdentity).toBe('one');
    await cluster.see('the authority', secrets, AUTHORITY);
    await cluster.see('the webhooks', validatingWebhookConfigurations, { name: 'gatehouse' });
    const { data } = await cluster.see<Carrier>('the bundle', configMaps, BUNDLE);
    expect(data?.['ca.crt']).toContain('BEGIN CERTIFICATE');
  });

  test('Gatehouse repairs its own objects after changes by others', async () => {
    await cluster.admin.patchMerge(secrets, SERVING, { data: { 'tls.crt': 'AAAA' } });
    await cluster.see<SecretObject>('the serving cert', secrets, SERVING, (secret) =>
      text(secret, 'tls.crt').includes('BEGIN CERTIFICATE'),
    );
    await cluster.admin.patchMerge(configMaps, BUNDLE, { data: { 'ca.crt': 'none' } });
    await cluster.see<Carrier>(
      'the published bundle',
      configMaps,
      BUNDLE,
      ({ data }) => data?.['ca.crt'] !== 'none',
      90_000,
    );
  });

  test('Gatehouse enforces references and unique values, audits existing objects, and reports the results', async () => {
    await deployed.apply('examples/owners');
    scene = await createOwnerScene(cluster);
    await cluster.admin.patchMerge(namespaces, { name: 'shop' }, { metadata: { labels: LABELS } });
    for (const name of ['twin-a', 'twin-b']) await cluster.admin.create(SERVERS, withSerial(name, 'OLD'));
    await cluster.apply(policy('serials', { unique: [{ name: 'serial', paths: ['spec.serial'] }] }, SELLING));
    await seeInForce(cluster, 'serials');
    await cluster.apply({
      apiVersion: 'gatehouse.dev/v1alpha1',
      kind: 'PolicyException',
      metadata: { namespace: 'shop', name: 'none' },
      spec: {
        policy: 'serials',
        objects: { names: ['none'] },
        reason: 'refused by the policy',
        expiresAt: '2036-01-01T00:00:00Z',
      },
    } as KubeObject);
    await cluster.admin.create(SERVERS, withSerial('first', 'S1'));
    await untilRefused('a second S1', 'spec.serial', () =>
      cluster.admin.create(SERVERS, withSerial('second', 'S1'), { dryRun: true }),
    );
    const holderOf = async (value: string) => {
      const { items } = await cluster.admin.listAll<Claim>(UNIQUE_CLAIMS);
      return items.find(({ spec }) => spec.values[0] === JSON.stringify(value))?.spec.holder.name;
    };
    // The replica finds its own claim, and renews it, unless the leader has released the claim already.
    const hasUsed = (permission: Permission) =>
      permissionsUsed(cluster.plane.auditLog(), ADMITTING).has(permission);
    const swap = async () => {
      for (const serial of ['S2', 'S1'])
        await cluster.admin.patchMerge(SERVERS, inShop('first'), { spec: { serial } });
      return hasUsed('update gatehouse.dev/uniqueclaims');
    };
    await eventually('a claim is renewed', swap);
    // The API server refuses the name after the replica has claimed S3, so the replica releases the claim, unless the
    // leader is faster.
    const claimInVain = async () => {
      await expect(cluster.admin.create(SERVERS, withSerial('first', 'S3'))).rejects.toThrow(
        /already exists/,
      );
      await eventually('S3 is free', async () => (await holderOf('S3')) === undefined);
      return hasUsed('delete gatehouse.dev/uniqueclaims');
    };
    await eventually('a replica releases a claim', claimInVain);
    const reference = { ...toDatacenter, onTargetDelete: 'Restrict', guarantee: 'Serializable' };
    await cluster.apply(policy('keys', { references: [reference] }, SELLING));
    await seeInForce(cluster, 'keys');
    const deleteTarget = async () => {
      await cluster.admin.create(DATACENTERS, { metadata: { name: 'unused' } });
      await cluster.admin.delete(DATACENTERS, { name: 'unused' });
      return hasUsed('list gatehouse.dev/uniqueclaims');
    };
    await eventually('a replica lists the intents of a target', deleteTarget);
    await cluster.admin.delete(ADMISSION_POLICIES, { name: 'keys' });
    await cluster.admin.delete(SERVERS, inShop('first'));
    await eventually('S1 is free', async () => (await holderOf('S1')) === undefined);
    const holder = await eventually('the audit counts the older Servers', () => holderOf('OLD'));
    await cluster.admin.delete(SERVERS, inShop(holder));
    const other = holder === 'twin-a' ? 'twin-b' : 'twin-a';
    await eventually('the other Server holds the value', async () => (await holderOf('OLD')) === other);

    const rule = {
      name: 'old',
      message: 'not OLD',
      expression: "!has(object.spec.serial) || object.spec.serial != 'OLD'",
    };
    await cluster.apply(policy('old', { rules: [rule] }));
    await seeViolations(cluster, 'old', (total) => total === 1);
    await cluster.admin.delete(ADMISSION_POLICIES, { name: 'old' });
    await cluster.admin.delete(SERVERS, inShop(other));

    await cluster.apply(referencesRole('secrets', '', ['secrets']));
    await cluster.see<GrantingRole>(
      'Secrets in the aggregated role',
      clusterRoles,
      { name: 'gatehouse-references' },
      ({ rules }) => rules?.some(({ resources }) => resources?.includes('secrets')) === true,
    );
    const params = { apiGroup: '', resource: 'secrets', name: 'db', namespace: 'shop' };
    await cluster.apply(policy('secret', {}, SELLING, { params }));
    await seeInForce(cluster, 'secret');
    await cluster.admin.delete(ADMISSION_POLICIES, { name: 'secret' });
  });

  test('Services get their certificates, and objects of all kinds get the bundle', async () => {
    await askForCertificate(cluster, 'shop', 'front');
    await cluster.see<SecretObject>('the certificate', secrets, inShop('front-tls'));
    await askForCertificate(cluster, 'shop', 'odd', {
      'gatehouse.dev/serving-cert-secret-name': 'not_a_name',
    });
    await seeEvent(cluster, 'shop', 'odd', 'InvalidRequest');
    const { data } = await cluster.see<Carrier>('the bundle', configMaps, BUNDLE);
    for (const [name, kind] of Object.entries(KINDS)) {
      await cluster.admin.create(kind.resource, kind.make(`carrier${name}`));
      await seeBundle(cluster, kind, `carrier${name}`, data?.['ca.crt'] ?? '');
      await edit(cluster, kind, `carrier${name}`, (live) => kind.withBundle(live, THEIRS));
      await seeBundle(cluster, kind, `carrier${name}`, data?.['ca.crt'] ?? '');
    }
  });

  test('Gatehouse converts objects', async () => {
    await convertExamples(cluster, port);
    await eventually('the API server asks', async () => {
      const made = { metadata: inShop('orders'), spec: { endpoint: 'db:5432' } };
      await cluster.admin.create<CustomObject>(databases('v1'), made);
      return true;
    });
    expect((await cluster.admin.get(databases('v2'), inShop('orders')))?.apiVersion).toContain('v2');
  });

  test('Gatehouse restores owner references', async () => {
    const early = await scene.backUp('early', 'later');
    await scene.open('owners');
    await scene.restorer.create(SERVERS, early);
    await scene.restorer.create(DATACENTERS, { metadata: { name: 'later' } });
    await scene.close('owners');
    expect(ownersOf(await scene.find('early'))).toHaveLength(1);
  });

  test('Gatehouse detects, sweeps and reports a restore by Velero, with long reports in parts', async () => {
    await deployed.apply('overlays/restore-velero');
    velero = createVelero(cluster.plane);
    await enforceApplications(cluster);
    await untilDetectorCounts(cluster);
    await createNamespace(cluster, 'lost');
    const zones = Array.from({ length: ORPHANS }, (_, index) => `of-${index}`);
    const backup = zones.map((name) => asReturned(application('lost', `app-${name}`, { zone: name })));
    expect((await velero.restore({ name: 'much', backup })).errors).toEqual([]);
    const report = await seeReportOf(cluster, 'much');
    expect(report.status?.violations?.total).toBe(ORPHANS);
    const reports = async () => (await cluster.admin.listAll(RESTORE_REPORTS)).items.length;
    await eventually('the reports', async () => (await reports()) > 0);
    const [first = '', ...others] = zones;
    await cluster.admin.create(ZONES, zone(first));
    await seeWindowOf(
      cluster,
      'much',
      'one violation fewer',
      ({ status }) => status?.violations?.total === ORPHANS - 1,
    );
    for (const name of others) await cluster.admin.create(ZONES, zone(name));
    await seeWindowOf(cluster, 'much', 'nothing is left', isVerified);
    await eventually('no reports', async () => (await reports()) === 0);
  });

  test('Gatehouse reads the roles that a restore binds', async () => {
    const guard = { refuse: ['Permissions'], rightsOf: { user: 'bob' } };
    await cluster.admin.patchMerge(RESTORE_DETECTORS, { name: 'velero' }, { spec: { guard } });
    const restorer = cluster.impersonate(VELERO);
    const bind = async (kind: string) => {
      const [, binding = {}] = grant('absent', ['bob'], [], 'shop');
      const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind, name: 'absent' };
      return await outcomeOf(
        restorer.create(ROLE_BINDINGS, Object.assign(binding, { roleRef }), { dryRun: true }),
      );
    };
    for (const kind of ['Role', 'ClusterRole'])
      await eventually('the guard looks', async () => (await bind(kind)).includes('which does not exist'));
  });

  test('the policy that keeps restorers from kinds of Gatehouse is repaired, and goes with the last detector', async () => {
    const ref = { name: 'gatehouse-restorers' };
    interface Guard extends KubeObject {
      readonly spec?: { readonly failurePolicy?: string; readonly validationActions?: readonly string[] };
    }
    const both = [validatingAdmissionPolicies, validatingAdmissionPolicyBindings] as const;
    const [policies, bindings] = both;
    await cluster.admin.patchMerge(policies, ref, { spec: { failurePolicy: 'Ignore' } });
    const repairMs = 100_000; // the leader looks once a minute
    const isRepaired = ({ spec }: Guard) => spec?.failurePolicy === 'Fail';
    await cluster.see<Guard>('the policy', policies, ref, isRepaired, repairMs);
    await cluster.admin.patchMerge(bindings, ref, { spec: { validationActions: ['Audit'] } });
    await cluster.see<Guard>(
      'its binding',
      bindings,
      ref,
      ({ spec }) => spec?.validationActions?.[0] === 'Deny',
      repairMs,
    );
    const { items } = await cluster.admin.listAll<KubeObject & { metadata: { name: string } }>(
      RESTORE_DETECTORS,
    );
    for (const { metadata } of items) await cluster.admin.delete(RESTORE_DETECTORS, { name: metadata.name });
    await eventually('no policy and no binding', async () => {
      const left = await Promise.all(both.map((resource) => cluster.admin.get(resource, ref)));
      return left.every((one) => one === undefined);
    });
  }, 300_000);

  test('another replica takes over, and the components work', async () => {
    const components = ['delete-secrets', 'cert-manager-compat', 'distribute-bundles'];
    await deployed.apply('overlays/compat-openshift', { components });
    const distributed = { 'gatehouse.dev/distribute-to': 'kubernetes.io/metadata.name=shop' };
    await cluster.admin.create(configMaps, { metadata: { ...own('trust'), annotations: distributed } });
    const { validatingwebhook } = KINDS;
    await cluster.admin.create(KINDS.crd.resource, certificateKind());
    await cluster.admin.create(
      validatingwebhook.resource,
      validatingwebhook.make('certified', { 'cert-manager.io/inject-ca-from': 'shop/none' }),
    );
    const [one] = replicas;
    one?.program.kill('SIGKILL');
    await one?.program.exited;
    await start('two', { compat: 'openshift,cert-manager', 'serving-cert-on-removal': 'delete' });
    await cluster.see<LeaseObject>(
      'the other leads',
      leases,
      LEASE,
      ({ spec }) => spec?.holderIdentity === 'two',
    );
    const { message } = await seeEvent(cluster, 'default', 'certified', 'InvalidInjection');
    expect(message).toContain('Certificate shop/none or its Secret does not exist yet');
    // Only a watch sees that the Certificate is created.
    await cluster.admin.create(certificates, { metadata: inShop('none'), spec: { secretName: 'issued' } });
    const issued = { 'tls.crt': base64(THEIRS), 'tls.key': base64(THEIRS), 'ca.crt': base64(THEIRS) };
    await cluster.admin.create<SecretObject>(secrets, {
      metadata: { ...inShop('issued'), annotations: { 'cert-manager.io/certificate-name': 'none' } },
      data: issued,
    });
    await seeBundle(cluster, validatingwebhook, 'certified', THEIRS, 40_000);
    // Gatehouse ends its watch of the Certificate, and the audit log contains only finished requests.
    await cluster.admin.delete(validatingwebhook.resource, { name: 'certified' });
    const { data } = await cluster.see<Carrier>('the copy', configMaps, inShop('trust'));
    await cluster.admin.patchMerge(configMaps, inShop('trust'), { data: { 'ca.crt': 'other' } });
    const isRestored = (copy: Carrier) => copy.data?.['ca.crt'] === data?.['ca.crt'];
    await cluster.see<Carrier>('the restored copy', configMaps, inShop('trust'), isRestored);
    await cluster.admin.delete(configMaps, own('trust'));
    await eventually('no copy', async () => !(await cluster.admin.get(configMaps, inShop('trust'))));
    const wish = 'service.beta.openshift.io/serving-cert-secret-name';
    await cluster.admin.create(services, localService('shop', 'shift', 443, { [wish]: 'shift-tls' }));
    await cluster.see('the certificate', secrets, inShop('shift-tls'));
    await cluster.see<KubeObject>(
      'the answer annotation of the Service',
      services,
      inShop('shift'),
      ({ metadata }) => Object.keys(metadata?.annotations ?? {}).some((key) => key.includes('signed-by')),
    );
    await cluster.admin.patchMerge(services, inShop('shift'), {
      metadata: { annotations: { [wish]: null } },
    });
    await untilGone(cluster, secrets, inShop('shift-tls'));
  });

  /** Also the roles that gatehouse-references aggregates, which the page lists for the controllers. */
  const permissionsOfAccount = (process: Process): ReadonlySet<Permission> => {
    const manifests = deployed.manifests();
    const roles = accountsOf(process).flatMap((name) => rolesBoundTo(name, manifests, SYSTEM_NAMESPACE));
    const references = process === 'webhook' ? [] : aggregated(manifests);
    return new Set([...roles, ...references].flatMap(permissionsOf));
  };

  test.each(PROCESSES)(
    'the %s process uses every permission that it has, except those with a documented reason',
    async (process) => {
      const unused = () => {
        const used = permissionsUsed(cluster.plane.auditLog(), USERS[process].name);
        return [...permissionsOfAccount(process)].filter((one) => !used.has(one) && !LATER.test(one));
      };
      // The last component has just begun to watch its kinds.
      await expect
        .poll(() => unused().toSorted(), { timeout: 40_000, interval: 1_000 })
        .toEqual(Object.keys(notUsedHere(process)).toSorted());
    },
  );

  test.each(PROCESSES)(
    'docs/reference/permissions.md names a request for each permission, and the %s process has made each of them',
    (process) => {
      const log = cluster.plane.auditLog();
      const granted = permissionsOfAccount(process);
      const page = readFileSync(HARDENING, 'utf8');
      const purposes = accountsOf(process)
        .flatMap((account) => purposesIn(page, account))
        .filter(
          ({ permission }) =>
            granted.has(permission) &&
            !LATER.test(permission) &&
            notUsedHere(process)[permission] === undefined,
        );
      expect(purposes.length).toBeGreaterThan(process === 'webhook' ? 25 : 60);
      const invented = purposes.filter(
        ({ permission, request }) =>
          !wasMade(request, permission.split(' ')[0] ?? '', log, USERS[process].name),
      );
      expect(invented).toEqual([]);
    },
  );
});

const withSerial = (name: string, serial: string): KubeObject => {
  const object = server('shop', name, 'fra1');
  return { ...object, ...{ spec: { ...object.spec, serial } } };
};

/** A policy on Servers. */
const policy = (name: string, validate: object, match: object = {}, others: object = {}): KubeObject =>
  admissionPolicy(name, {
    match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: ['servers'], ...match },
    validate,
    ...others,
  });

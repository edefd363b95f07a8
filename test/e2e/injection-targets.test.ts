// suite: shared-plane, sandbox: long
/** Every kind that can carry a CA bundle, and every source of a bundle. */
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { loadConnection } from '../../src/kube/connection.ts';
import {
  certificates,
  configMaps,
  secrets,
  validatingWebhookConfigurations,
  customResourceDefinitions,
} from '../../src/kube/well-known.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { caBundle } from '../../src/pki/authority/authority.ts';
import { applyBackstop } from '../support/backstop.ts';
import { firstAuthority } from '../support/pki/fixtures.ts';
import type { CertificatePem } from '../../src/pki/x509/pem.ts';
import { createNamespace, established, SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import { type Replica } from '../support/gatehouse.ts';
import {
  annotate,
  certificateKind,
  edit,
  KINDS,
  managedBy,
  seeBundle,
  seeEvent,
  SHOP,
  startInjecting,
  type Carrier,
  ASKS,
  conversion,
  crdOf,
  entry,
} from '../support/injection-objects.ts';
import { createKubectl, HAS_KUBECTL, type Kubectl } from '../support/kubectl.ts';
import { askForRotation } from '../support/rotation-scene.ts';

let cluster: Cluster;
let replica: Replica;
let bundle: string;

beforeAll(async () => {
  ({ cluster, replica, bundle } = await startInjecting({ compat: 'openshift,cert-manager' }));
  await createNamespace(cluster, 'vault');
  await cluster.applyFolder('components/cert-manager-compat');
  await applyBackstop(cluster, ['openshift', 'certManager']);
});

afterAll(() => cluster.stop());

async function otherCa(): Promise<CertificatePem> {
  return caBundle(await firstAuthority(new Date()), new Date());
}

const base64 = (text: string) => Buffer.from(text).toString('base64');

const secret = (name: string, data: Readonly<Record<string, string>>, annotations = {}): Carrier => ({
  metadata: { namespace: 'vault', name, annotations },
  data: Object.fromEntries(Object.entries(data).map(([key, value]) => [key, base64(value)])),
});
const CONSENTS = { 'gatehouse.dev/allow-direct-injection': 'true' };
const { validatingwebhook, configmap, crd } = KINDS;

const SERVICE_CA: Readonly<Record<string, string>> = { configmap: 'ca-bundle-injection-configmap' };

describe.each(
  Object.entries(KINDS).map(
    ([what, kind]) => [SERVICE_CA[what] ?? `${what}-ca-bundle-injection`, what, kind] as const,
  ),
)('service-ca e2e %s', (_case, what, kind) => {
  const name = `carrier${what}`;

  test('cert-manager cainjector: inject into all CA fields: an annotated object gets the bundle, and nothing else in it changes', async () => {
    const made = await cluster.admin.create<Carrier>(kind.resource, kind.make(name), {
      fieldManager: 'their-installer',
    });
    const filled = await seeBundle(cluster, kind, name, bundle);
    expect(withoutBookkeeping(filled)).toEqual(withoutBookkeeping(kind.withBundle(made, bundle)));
  });

  test('appended garbage is removed', async () => {
    await edit(cluster, kind, name, (live) => kind.withBundle(live, `${bundle}garbage\n`));
    await seeBundle(cluster, kind, name, bundle);
  });

  test('cert-manager cainjector: not into non-annotated: an object without the annotation does not change', async () => {
    const foreign = `foreign${what}`;
    await cluster.admin.create(kind.resource, kind.make(foreign, {}));
    await cluster.admin.create(kind.resource, kind.make(`${foreign}b`));
    await seeBundle(cluster, kind, `${foreign}b`, bundle);
    const object = await cluster.admin.get<Carrier>(kind.resource, kind.ref(foreign));
    expect(kind.bundles(object ?? {}).every((one) => one === undefined)).toBe(true);
  });

  test('after the removal of the annotation, Gatehouse owns no field and the value stays', async () => {
    await annotate(cluster, kind, name, { 'gatehouse.dev/inject-cabundle': null });
    await seeEvent(cluster, kind.ref(name).namespace ?? 'default', kind.ref(name).name, 'Released');
    const released = await seeBundle(cluster, kind, name, bundle);
    expect(managedBy(released, 'gatehouse-cabundle')).toEqual([]);
  });
});

test('service-ca ca-bundle-injection-configmap-update: the bundle is restored, and keys of others stay', async () => {
  await cluster.admin.create(configMaps, configmap.make('updated'));
  await seeBundle(cluster, configmap, 'updated', bundle);
  const data = { theirs: 'changed', 'ca.crt': 'blah' };
  await edit(cluster, configmap, 'updated', (live) => ({ ...live, data }));
  const healed = await seeBundle(cluster, configmap, 'updated', bundle);
  expect(healed.data).toEqual({ theirs: 'changed', 'ca.crt': bundle });
});

test('a Secret is a source only if its owner consents, and injection follows its changes with an overlap', async () => {
  const [first, second] = [await otherCa(), await otherCa()];
  await cluster.admin.create(secrets, secret('ca', { 'ca.crt': first, 'tls.key': 'private' }));
  const asking = { 'gatehouse.dev/inject-cabundle-from': 'vault/ca' };
  await cluster.admin.create(validatingwebhook.resource, validatingwebhook.make('from-secret', asking));
  const { message } = await seeEvent(cluster, 'default', 'from-secret', 'InvalidInjection');
  expect(message).toContain('gatehouse.dev/allow-direct-injection');
  const refused = await cluster.admin.get<Carrier>(validatingwebhook.resource, { name: 'from-secret' });
  expect(validatingwebhook.bundles(refused ?? {})).toEqual([undefined, undefined]);

  await cluster.admin.patchMerge(
    secrets,
    { namespace: 'vault', name: 'ca' },
    { metadata: { annotations: CONSENTS } },
  );
  await seeBundle(cluster, validatingwebhook, 'from-secret', first);
  await cluster.admin.patchMerge(
    secrets,
    { namespace: 'vault', name: 'ca' },
    { data: { 'ca.crt': base64(second) } },
  );
  await seeBundle(cluster, validatingwebhook, 'from-secret', second + first);
  // What the source never held does not stay, and what a placeholder overwrites returns.
  for (const text of [second + first + (await otherCa()), ''])
    await edit(cluster, validatingwebhook, 'from-secret', (live) => validatingwebhook.withBundle(live, text));
  await seeBundle(cluster, validatingwebhook, 'from-secret', second + first);
});

test('service-ca TestBundlesWatcher_Integration_ReloadsOnFileChange: garbage in a source changes nothing, and injection follows a repaired source again', async () => {
  const [first, second] = [await otherCa(), await otherCa()];
  const ref = { namespace: 'vault', name: 'repaired' };
  const source = { metadata: { ...ref, annotations: CONSENTS }, data: { 'ca.crt': first } } as Carrier;
  await cluster.admin.create(configMaps, source);
  await cluster.admin.create(
    crd.resource,
    crd.make('repaired', { 'gatehouse.dev/inject-cabundle-from': 'configmap/vault/repaired' }),
  );
  await seeBundle(cluster, crd, 'repaired', first);
  await cluster.admin.patchMerge(configMaps, ref, { data: { 'ca.crt': 'garbage' } });
  await seeEvent(cluster, 'default', 'repaired.example.com', 'InvalidInjection');
  expect(await replica.metrics()).toMatch(
    /cabundle_targets\{kind="CustomResourceDefinition",state="invalid"\} 1/,
  );
  await seeBundle(cluster, crd, 'repaired', first);
  await cluster.admin.patchMerge(configMaps, ref, { data: { 'ca.crt': second } });
  await seeBundle(cluster, crd, 'repaired', second + first);
  expect(await replica.metrics()).toMatch(
    /cabundle_targets\{kind="CustomResourceDefinition",state="invalid"\} 0/,
  );
});

test('only the named webhooks get the bundle, and an Event reports a name that no webhook has', async () => {
  const asking = { 'gatehouse.dev/inject-cabundle': 'one.example.com, three.example.com' };
  await cluster.admin.create(validatingWebhookConfigurations, validatingwebhook.make('named', asking));
  await cluster.see<Carrier>(
    'the bundle in one of them',
    validatingWebhookConfigurations,
    { name: 'named' },
    (object) => {
      const [one, two] = validatingwebhook.bundles(object);
      return one === bundle && two === undefined;
    },
  );
  const { message } = await seeEvent(cluster, 'default', 'named', 'InvalidInjection');
  expect(message).toBe('there is no webhook named three.example.com');
});

test("OpenShift's annotation fills service-ca.crt of a ConfigMap, in both spellings", async () => {
  for (const spelling of ['beta', 'alpha']) {
    const asking = { [`service.${spelling}.openshift.io/inject-cabundle`]: 'TRUE' };
    await cluster.admin.create(configMaps, configmap.make(`openshift-${spelling}`, asking));
    await cluster.see<Carrier>(
      'service-ca.crt',
      configMaps,
      configmap.ref(`openshift-${spelling}`),
      ({ data = {} }) => isDeepStrictEqual(data, { theirs: 'untouched', 'service-ca.crt': bundle }),
    );
  }
});

test.each(Object.entries(KINDS).filter(([what]) => what !== 'configmap'))(
  'cert-manager cainjector, %s: from secret',
  async (what, kind) => {
    const ca = await otherCa();
    const consents = { 'cert-manager.io/allow-direct-injection': 'true' };
    await cluster.admin.create(secrets, secret(`cm-${what}`, { 'ca.crt': ca }, consents));
    const from = { 'cert-manager.io/inject-ca-from-secret': `vault/cm-${what}` };
    await cluster.admin.create(kind.resource, kind.make(`cm${what}`, from));
    await seeBundle(cluster, kind, `cm${what}`, ca);
  },
);

describe("cert-manager's Certificates as sources", () => {
  const certificate = (name: string, secretName: string): KubeObject =>
    ({ metadata: { namespace: 'vault', name }, spec: { secretName } }) as KubeObject;
  const from = (name: string) =>
    validatingwebhook.make(`from-${name}`, { 'cert-manager.io/inject-ca-from': `vault/${name}` });
  const issued = (name: string, ca: string, owner: string) =>
    secret(name, { 'ca.crt': ca }, { 'cert-manager.io/certificate-name': owner });

  test('without their kind, an Event on the target reports that, and nothing else fails', async () => {
    await cluster.admin.create(validatingwebhook.resource, from('tls'));
    const { message } = await seeEvent(cluster, 'default', 'from-tls', 'InvalidInjection');
    expect(message).toBe(
      'Certificate vault/tls is not read: the API server does not serve certificates.cert-manager.io',
    );
  });

  test('cert-manager cainjector: from certificate: when they exist, the bundle follows the Secret that they name', async () => {
    const [first, second, third] = [await otherCa(), await otherCa(), await otherCa()];
    await cluster.admin.create(crd.resource, certificateKind());
    await established(cluster, 'certificates.cert-manager.io');
    await cluster.admin.create(certificates, certificate('tls', 'tls-one'));
    await cluster.admin.create(secrets, issued('tls-one', first, 'tls'));
    // The backoff of the watch is 30 s at most.
    await seeBundle(cluster, validatingwebhook, 'from-tls', first, 40_000);
    const ref = { namespace: 'vault', name: 'tls-one' };
    await cluster.admin.patchMerge(secrets, ref, { data: { 'ca.crt': base64(second) } });
    await seeBundle(cluster, validatingwebhook, 'from-tls', second + first);
    await cluster.admin.create(secrets, issued('tls-two', third, 'tls'));
    const named = { spec: { secretName: 'tls-two' } };
    await cluster.admin.patchMerge(certificates, { namespace: 'vault', name: 'tls' }, named);
    // A Certificate starts at most one watch every ten seconds.
    await seeBundle(cluster, validatingwebhook, 'from-tls', third + second + first, 60_000);
  });

  test('a Secret that belongs to another Certificate is no source', async () => {
    await cluster.admin.create(secrets, issued('stolen', await otherCa(), 'victim'));
    await cluster.admin.create(certificates, certificate('thief', 'stolen'));
    await cluster.admin.create(validatingwebhook.resource, from('thief'));
    const { message } = await seeEvent(cluster, 'default', 'from-thief', 'InvalidInjection');
    expect(message).toContain('cert-manager.io/certificate-name: "thief"');
    const refused = await cluster.admin.get<Carrier>(validatingwebhook.resource, { name: 'from-thief' });
    expect(validatingwebhook.bundles(refused ?? {})).toEqual([undefined, undefined]);
  });
});

test('cert-manager cainjector: inject-apiserver-ca: the CA that verifies the API server', async () => {
  const asking = { 'cert-manager.io/inject-apiserver-ca': 'true' };
  await cluster.admin.create(validatingwebhook.resource, validatingwebhook.make('apiserver', asking));
  const connection = await loadConnection({ kubeconfig: cluster.plane.kubeconfig('admin') });
  const ca = (await connection.ca())?.trim();
  await connection.close();
  expect(ca).toMatch(/^-----BEGIN CERTIFICATE-----/);
  await seeBundle(cluster, validatingwebhook, 'apiserver', `${ca ?? ''}\n`);
});

test('an Event on the object reports a write that the API server refuses, and the write succeeds after a repair', async () => {
  const mebibyte = { metadata: configmap.make('full').metadata ?? {}, data: { theirs: 'x'.repeat(2 ** 20) } };
  await cluster.admin.create(configMaps, mebibyte);
  const { message } = await seeEvent(cluster, SHOP, 'full', 'InjectionRefused');
  expect(message).toMatch(/^the CA bundle is not written: .*Correct the object.* 422 Invalid.*Too long/);
  await cluster.admin.patchMerge(configMaps, configmap.ref('full'), { data: { theirs: 'less' } });
  await seeBundle(cluster, configmap, 'full', bundle);
});

function withoutBookkeeping(object: Carrier): unknown {
  const { metadata, ...rest } = object;
  const { annotations, labels, name } = metadata ?? {};
  return JSON.parse(JSON.stringify({ ...rest, status: undefined, metadata: { annotations, labels, name } }));
}

describe('objects that other field managers apply, replace and compete for', () => {
  let kubectl: Kubectl;

  beforeAll(() => {
    kubectl = createKubectl(cluster.plane);
  });

  afterAll(() => {
    kubectl.stop();
  });

  const configuration = (name: string, ...entries: readonly string[]): Carrier => ({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name, annotations: ASKS },
    webhooks: entries.map((one) => entry(one)),
  });
  /** Applies like Helm 4 and Argo CD. */
  const apply = (object: Carrier) =>
    cluster.admin.apply<Carrier>(validatingWebhookConfigurations, object, {
      fieldManager: 'helm',
      force: true,
    });
  const names = ({ webhooks = [] }: Carrier) => webhooks.map(({ name }) => name);

  /** Waits until Gatehouse has given up the fields that its write made it own. */
  const seeTidy = (name: string) =>
    cluster.see<Carrier>(
      'Gatehouse owns no field',
      validatingWebhookConfigurations,
      { name },
      (object) => managedBy(object, 'gatehouse-cabundle').length === 0,
    );

  describe('when another manager applies on the server side', () => {
    test('an apply without the bundle keeps the bundle', async () => {
      await apply(configuration('applied', 'one.example.com', 'two.example.com'));
      await seeBundle(cluster, validatingwebhook, 'applied', bundle);
      const after = await apply(configuration('applied', 'one.example.com', 'two.example.com'));
      expect(validatingwebhook.bundles(after)).toEqual([bundle, bundle]);
    });

    test('an apply can remove an entry that has the bundle, and no part of the entry remains', async () => {
      await seeTidy('applied');
      const after = await apply(configuration('applied', 'one.example.com'));
      expect(names(after)).toEqual(['one.example.com']);
    });

    test('a forced apply of a foreign bundle is reverted', async () => {
      const theirs = {
        ...configuration('applied', 'one.example.com'),
        webhooks: [
          entry('one.example.com', {
            service: { namespace: SHOP, name: 'hook', path: '/hook', port: 443 },
            caBundle: 'Cg==',
          }),
        ],
      };
      await seeTidy('applied');
      await apply(theirs);
      await seeBundle(cluster, validatingwebhook, 'applied', bundle);
    });

    test('B2: a CRD can change from Webhook to None, cert-manager #4838', async () => {
      const definition = (how: Parameters<typeof crdOf>[1]) => crdOf('converted', how);
      const asHelm = { fieldManager: 'helm', force: true };
      await cluster.admin.apply(customResourceDefinitions, definition(conversion()), asHelm);
      await seeBundle(cluster, crd, 'converted', bundle);
      await cluster.see(
        'Gatehouse owns no field',
        customResourceDefinitions,
        crd.ref('converted'),
        (object) => managedBy(object, 'gatehouse-cabundle').length === 0,
      );

      await cluster.admin.apply(customResourceDefinitions, definition({ strategy: 'None' }), asHelm);
      const after = await cluster.admin.get<Carrier>(customResourceDefinitions, crd.ref('converted'));
      expect(after?.spec?.conversion).toEqual({ strategy: 'None' });
    });
  });

  describe('when another manager replaces the object', () => {
    test('a non-PEM placeholder in a CRD is replaced, kubernetes #123835', async () => {
      const { service } = conversion().webhook.clientConfig;
      await cluster.admin
        .create(
          customResourceDefinitions,
          crdOf(
            'placeholder',
            conversion({ ...(service === undefined ? {} : { service }), caBundle: 'Cg==' }),
          ),
        )
        .catch(async () => {
          // Newer API servers reject it in a new object; there, the field must be absent.
          await cluster.admin.create(customResourceDefinitions, crdOf('placeholder', conversion()));
        });
      await seeBundle(cluster, crd, 'placeholder', bundle);
    });

    test('B3: an Event reports a manager that keeps removing the bundle, and Gatehouse restores it with increasing delays', async () => {
      await cluster.admin.create(configMaps, configmap.make('fought-over'));
      for (let round = 0; round < 11; round++) {
        await seeBundle(cluster, configmap, 'fought-over', bundle);
        await edit(
          cluster,
          configmap,
          'fought-over',
          (live) => ({ ...live, data: { round: String(round) } }),
          'argocd-controller',
        );
      }
      const { type } = await seeEvent(cluster, SHOP, 'fought-over', 'CABundleContended');
      expect(type).toBe('Warning');
      expect(await replica.metrics()).toMatch(/cabundle_targets\{kind="ConfigMap",state="contended"\} 1/);
      await seeBundle(cluster, configmap, 'fought-over', bundle);
    });
  });

  describe.skipIf(!HAS_KUBECTL)('kubectl', () => {
    test('apply --server-side works without force, before and after the injection', async () => {
      const stdin = configuration('by-kubectl', 'one.example.com', 'two.example.com');
      await kubectl.says('apply --server-side -f -', { stdin });
      await seeBundle(cluster, validatingwebhook, 'by-kubectl', bundle);
      await seeTidy('by-kubectl');
      await kubectl.says('apply --server-side -f -', {
        stdin: configuration('by-kubectl', 'two.example.com'),
      });
      const after = await seeBundle(cluster, validatingwebhook, 'by-kubectl', bundle);
      expect(names(after)).toEqual(['two.example.com']);
    });
  });
});

test('cert-manager cainjector: update when certificate changes: a rotation brings the old and the new root to every kind', async () => {
  const kinds = Object.values(KINDS);
  for (const kind of kinds) await cluster.admin.create(kind.resource, kind.make('rotating'));
  await askForRotation(cluster, 'test');
  const both = await cluster.see<Carrier>(
    'the new root',
    configMaps,
    { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-cabundle' },
    ({ data = {} }) => data['ca.crt'] !== bundle,
  );
  const union = both.data?.['ca.crt'] ?? '';
  expect(union).toContain(bundle.trim());
  for (const kind of kinds) await seeBundle(cluster, kind, 'rotating', union);
});

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
} from '../../src/kube/well-known.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { caBundle } from '../../src/pki/authority/bundle.ts';
import { applyBackstop } from '../support/backstop.ts';
import { firstAuthority } from '../support/pki/fixtures.ts';
import type { CertificatePem } from '../../src/pki/x509/pem.ts';
import { createNamespace, established, SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import {
  annotate,
  certificateKind,
  edit,
  entry,
  KINDS,
  managedBy,
  seeBundle,
  seeEvent,
  SHOP,
  startInjecting,
  type Carrier,
} from '../support/injection-objects.ts';

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

test('a Secret is a source only if its owner consents, and injection follows its changes', async () => {
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
  await seeBundle(cluster, validatingwebhook, 'from-secret', second);
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
  await seeBundle(cluster, crd, 'repaired', second);
  expect(await replica.metrics()).toMatch(
    /cabundle_targets\{kind="CustomResourceDefinition",state="invalid"\} 0/,
  );
});

test('a source that does not exist yet is used when it is created', async () => {
  const ca = await otherCa();
  await cluster.admin.create(
    validatingwebhook.resource,
    validatingwebhook.make('early', { 'gatehouse.dev/inject-cabundle-from': 'vault/late' }),
  );
  const { message } = await seeEvent(cluster, 'default', 'early', 'InvalidInjection');
  expect(message).toMatch(/^Secret vault\/late does not exist or/);
  await cluster.admin.create(secrets, secret('late', { 'tls.crt': ca }, CONSENTS));
  await seeBundle(cluster, validatingwebhook, 'early', ca);
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

test('a webhook with a URL gets the bundle only if it is named', async () => {
  const webhooks = [
    entry('url.example.com', { url: 'https://hook.example.com/' }),
    entry('service.example.com'),
  ];
  for (const [name, asked] of [
    ['by-url', 'true'],
    ['url-named', 'url.example.com'],
  ] as const) {
    const object: Carrier = {
      metadata: { name, annotations: { 'gatehouse.dev/inject-cabundle': asked } },
      webhooks,
    };
    await cluster.admin.create(validatingWebhookConfigurations, object);
  }
  const seen = (name: string, expected: readonly unknown[]) =>
    cluster.see<Carrier>(name, validatingWebhookConfigurations, { name }, (object) =>
      isDeepStrictEqual(validatingwebhook.bundles(object), expected),
    );
  await seen('by-url', [undefined, bundle]);
  await seen('url-named', [bundle, undefined]);
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

describe.each(Object.entries(KINDS).filter(([what]) => what !== 'configmap'))(
  'cert-manager cainjector, %s:',
  (what, kind) => {
    const from = (source: string) => ({ 'cert-manager.io/inject-ca-from-secret': source });
    const told = async (name: string) => {
      const { message } = await seeEvent(cluster, 'default', kind.ref(name).name, 'InvalidInjection');
      const object = await cluster.admin.get<Carrier>(kind.resource, kind.ref(name));
      expect(kind.bundles(object ?? {}).every((one) => one === undefined)).toBe(true);
      return message;
    };

    test('from secret', async () => {
      const ca = await otherCa();
      const consents = { 'cert-manager.io/allow-direct-injection': 'true' };
      await cluster.admin.create(secrets, secret(`cm-${what}`, { 'ca.crt': ca }, consents));
      await cluster.admin.create(kind.resource, kind.make(`cm${what}`, from(`vault/cm-${what}`)));
      await seeBundle(cluster, kind, `cm${what}`, ca);
    });

    test('refuse when not allowed', async () => {
      await cluster.admin.create(secrets, secret(`closed-${what}`, { 'ca.crt': await otherCa() }, CONSENTS));
      await cluster.admin.create(kind.resource, kind.make(`closed${what}`, from(`vault/closed-${what}`)));
      expect(await told(`closed${what}`)).toContain('cert-manager.io/allow-direct-injection');
    });

    test('ignore invalid annotations', async () => {
      await cluster.admin.create(kind.resource, kind.make(`invalid${what}`, from('no-namespace')));
      expect(await told(`invalid${what}`)).toContain('no-namespace');
    });
  },
);

describe("cert-manager's Certificates as sources", () => {
  const certificate = (name: string, secretName: string): KubeObject =>
    ({ metadata: { namespace: 'vault', name }, spec: { secretName } }) as KubeObject;
  const from = (name: string) =>
    validatingwebhook.make(`from-${name}`, { 'cert-manager.io/inject-ca-from': `vault/${name}` });
  const issued = (name: string, ca: string, owner: string) =>
    secret(name, { 'ca.crt': ca }, { 'cert-manager.io/certificate-name': owner });

  test('without their kind, the target says so and nothing else fails', async () => {
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
    await seeBundle(cluster, validatingwebhook, 'from-tls', second);
    await cluster.admin.create(secrets, issued('tls-two', third, 'tls'));
    const named = { spec: { secretName: 'tls-two' } };
    await cluster.admin.patchMerge(certificates, { namespace: 'vault', name: 'tls' }, named);
    // A Certificate starts at most one watch every ten seconds.
    await seeBundle(cluster, validatingwebhook, 'from-tls', third, 60_000);
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

test('B1: fifty entries get the bundle, and a configuration without entries is accepted', async () => {
  const many = {
    ...validatingwebhook.make('fifty'),
    webhooks: Array.from({ length: 50 }, (_, n) => entry(`n${String(n)}.example.com`)),
  };
  const made = await cluster.admin.create<Carrier>(validatingwebhook.resource, many);
  await cluster.admin.create(validatingwebhook.resource, {
    ...validatingwebhook.make('empty'),
    webhooks: [],
  });
  const filled = await seeBundle(cluster, validatingwebhook, 'fifty', bundle);
  expect(withoutBookkeeping(filled)).toEqual(withoutBookkeeping(validatingwebhook.withBundle(made, bundle)));
});

test('an Event on the object reports a write that the API server refuses, and the write succeeds after a repair', async () => {
  const mebibyte = { metadata: configmap.make('full').metadata ?? {}, data: { theirs: 'x'.repeat(2 ** 20) } };
  await cluster.admin.create(configMaps, mebibyte);
  const { message } = await seeEvent(cluster, SHOP, 'full', 'InjectionRefused');
  expect(message).toMatch(/^the CA bundle is not written: .*Correct the object.* 422 Invalid.*Too long/);
  await cluster.admin.patchMerge(configMaps, configmap.ref('full'), { data: { theirs: 'less' } });
  await seeBundle(cluster, configmap, 'full', bundle);
});

test('cert-manager cainjector: update when certificate changes: a rotation brings the old and the new root to every kind', async () => {
  const kinds = Object.values(KINDS);
  for (const kind of kinds) await cluster.admin.create(kind.resource, kind.make('rotating'));
  await cluster.admin.patchMerge(
    secrets,
    { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-authority' },
    { metadata: { annotations: { 'gatehouse.dev/rotate': 'test' } } },
  );
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

function withoutBookkeeping(object: Carrier): unknown {
  const { metadata, ...rest } = object;
  const { annotations, labels, name } = metadata ?? {};
  return JSON.parse(JSON.stringify({ ...rest, status: undefined, metadata: { annotations, labels, name } }));
}

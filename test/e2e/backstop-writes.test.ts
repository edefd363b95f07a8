// suite: shared-plane, sandbox: no (its audit log lacks the refusals of policies)
/**
 * Writer and backstop agree: after others wrote into an object, no policy of deploy/components/backstop refuses what
 * Gatehouse writes to it. `cluster.stop()` fails on any refusal, here and in each other test with a cluster.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import type { NamedRef, Resource } from '../../src/kube/object.ts';
import { configMaps, namespaces, secrets, services } from '../../src/kube/well-known.ts';
import { caBundle } from '../../src/pki/authority/authority.ts';
import { applyBackstop } from '../support/backstop.ts';
import {
  askForCertificate,
  createNamespace,
  localService,
  SYSTEM_NAMESPACE,
  type Cluster,
} from '../support/cluster.ts';
import { startGatehouse } from '../support/gatehouse-cluster.ts';
import { KINDS, seeBundle, seeEvent, SHOP, type Carrier } from '../support/injection-objects.ts';
import { text, type SecretObject } from '../support/objects.ts';
import { BUNDLE } from '../support/cluster.ts';
import { firstAuthority } from '../support/pki/fixtures.ts';
import { createSeeded, faultSeed } from '../support/seeded.ts';

type Change = Readonly<Record<string, unknown>>;

const seed = faultSeed();
const random = createSeeded(seed);
const base64 = (value: string) => Buffer.from(value).toString('base64');

/** What users, installers and other controllers leave in the metadata of any object. */
const METADATA: readonly Change[] = [
  { labels: { team: 'shop', 'app.kubernetes.io/managed-by': 'Helm' } },
  { annotations: { 'example.com/note': 'kept', 'kubectl.kubernetes.io/last-applied-configuration': '{}' } },
  { finalizers: ['example.com/hold'] },
  { ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'keeper', uid: 'KEEPER' }] },
];
/** What they leave in a ConfigMap that Gatehouse fills. */
const CONFIG_MAP: readonly Change[] = [
  { data: { other: 'x' } },
  { binaryData: { 'other.bin': base64('x') } },
  { data: { 'ca.crt': 'edited' } },
  { data: null },
];
/** What they leave in a Secret with a certificate. */
const SECRET: readonly Change[] = [
  { data: { 'other.pem': base64('x') } },
  { data: { 'tls.crt': base64('edited') } },
  { data: { 'ca.crt': null } },
  { data: { 'tls.key': base64('edited') } },
];

let cluster: Cluster;
let bundle: string;
let keeper: string;

beforeAll(async () => {
  ({ cluster } = await startGatehouse({
    settings: { compat: 'openshift,cert-manager', 'serving-cert-on-removal': 'delete' },
    prepare: async (started) => {
      for (const one of ['openshift-compat', 'cert-manager-compat', 'distribute-bundles', 'delete-secrets'])
        await started.applyFolder(`components/${one}`);
      await applyBackstop(started, ['openshift', 'certManager']);
      await createNamespace(started, SHOP);
    },
  }));
  const { data = {} } = await cluster.see<Carrier>('the published bundle', configMaps, BUNDLE);
  bundle = data['ca.crt'] ?? '';
  keeper = await createKeeper(SHOP);
});
afterAll(async () => {
  await cluster.stop();
});

/** An owner outside Gatehouse that exists, so that the garbage collector leaves its objects alone. */
async function createKeeper(namespace: string): Promise<string> {
  const { metadata } = await cluster.admin.create<KubeObject>(configMaps, {
    metadata: { namespace, name: 'keeper' },
  });
  return metadata?.uid ?? '';
}

/** Up to three random changes, as one merge patch. */
function mess(contents: readonly Change[], owner: string | undefined): object {
  const count = 1 + random.below(3);
  const kinds = METADATA.filter((one) => owner !== undefined || !('ownerReferences' in one));
  const chosen = random
    .shuffle([...kinds.map((metadata) => ({ metadata })), ...contents])
    .slice(0, count)
    .toSorted((a, b) => Object.keys(a).join().localeCompare(Object.keys(b).join()));
  const merged = chosen.reduce<Change>(
    (all, one) =>
      Object.fromEntries(
        [...new Set([...Object.keys(all), ...Object.keys(one)])].map((key) => [
          key,
          { ...(all[key] as object | undefined), ...((one as Change)[key] as object | undefined) },
        ]),
      ),
    {},
  );
  return JSON.parse(JSON.stringify(merged).replaceAll('KEEPER', owner ?? '')) as object;
}

const upset = (resource: Resource, ref: NamedRef, change: object) =>
  cluster.admin.patchMerge(resource, ref, change, { fieldManager: 'another-client' });

describe(`GATEHOUSE_FAULT_SEED=${seed}`, () => {
  test('copies of a distributed bundle follow their source after others wrote into them', async () => {
    const name = 'company-trust';
    const places = Array.from({ length: 12 }, (_, index) => `web-${index}`);
    const owners = new Map<string, string>();
    for (const namespace of places) {
      await createNamespace(cluster, namespace);
      await cluster.admin.patchMerge(
        namespaces,
        { name: namespace },
        { metadata: { labels: { team: 'web' } } },
      );
      owners.set(namespace, await createKeeper(namespace));
    }
    await cluster.admin.create<Carrier>(configMaps, {
      metadata: {
        namespace: SYSTEM_NAMESPACE,
        name,
        annotations: { 'gatehouse.dev/distribute-to': 'team=web' },
      },
    });
    const seeCopies = async (pem: string) => {
      for (const namespace of places) {
        const copy = await cluster.see<Carrier>(
          `the copy in ${namespace}`,
          configMaps,
          { namespace, name },
          ({ data = {} }) => data['ca.crt'] === pem,
        );
        expect(Object.keys(copy.data ?? {})).toEqual(['ca.crt']);
        expect(copy).not.toHaveProperty('binaryData');
      }
    };
    await seeCopies(bundle);
    for (const namespace of places)
      await upset(configMaps, { namespace, name }, mess(CONFIG_MAP, owners.get(namespace)));
    const company = caBundle(await firstAuthority(new Date()), new Date());
    const source = { namespace: SYSTEM_NAMESPACE, name };
    await cluster.admin.patchMerge(configMaps, source, { data: { 'company.pem': company } });
    await seeCopies(bundle + company);
  });

  test('Secrets with certificates are repaired after others wrote into them', async () => {
    const names = Array.from({ length: 16 }, (_, index) => `db-${index}`);
    const see = (name: string) =>
      cluster.see<SecretObject>(
        `the Secret of ${name}`,
        secrets,
        { namespace: SHOP, name: `${name}-tls` },
        (secret) =>
          text(secret, 'ca.crt') === bundle &&
          text(secret, 'tls.crt').startsWith('-----BEGIN CERTIFICATE') &&
          text(secret, 'tls.key').startsWith('-----BEGIN PRIVATE KEY'),
      );
    for (const name of names) await askForCertificate(cluster, SHOP, name);
    for (const name of names) await see(name);
    for (const name of names)
      await upset(secrets, { namespace: SHOP, name: `${name}-tls` }, mess(SECRET, keeper));
    for (const name of names) await see(name);
    // The end of a certificate is a write too: the key goes, or the whole Secret.
    for (const name of names) await cluster.admin.delete(services, { namespace: SHOP, name });
  });

  test('a Secret of another issuer is adopted with all that is in it', async () => {
    for (const [name, marks] of Object.entries({
      adopted: { 'gatehouse.dev/serving-cert-adopt': 'adopted' },
      openshift: { 'service.beta.openshift.io/originating-service-name': 'openshift' },
    })) {
      const place = { namespace: SHOP, name: `${name}-tls` };
      const { metadata } = await cluster.admin.create(services, localService(SHOP, name, 443));
      const uid = metadata?.uid ?? '';
      const foreign =
        name === 'openshift' ? { 'service.beta.openshift.io/originating-service-uid': uid } : {};
      await cluster.admin.create<SecretObject>(secrets, {
        metadata: { ...place, annotations: { ...marks, ...foreign }, finalizers: ['example.com/hold'] },
        type: 'kubernetes.io/tls',
        data: { 'tls.crt': base64('theirs'), 'tls.key': base64('theirs'), 'extra.pem': base64('x') },
      });
      await upset(
        services,
        { namespace: SHOP, name },
        { metadata: { annotations: { 'gatehouse.dev/serving-cert-secret-name': place.name } } },
      );
      const adopted = await cluster.see<SecretObject>('the adopted Secret', secrets, place, (secret) =>
        text(secret, 'tls.crt').startsWith('-----BEGIN CERTIFICATE'),
      );
      expect(adopted.metadata?.finalizers).toEqual(['example.com/hold']);
    }
  });

  test.each(Object.entries(KINDS))('%s: bundles are injected and handed back', async (what, kind) => {
    const asks = [
      { 'gatehouse.dev/inject-cabundle': ' true ' },
      { 'service.beta.openshift.io/inject-cabundle': 'True' },
      { 'gatehouse.dev/inject-cabundle': 'true', 'service.beta.openshift.io/inject-cabundle': 'true' },
    ];
    for (const [index, annotations] of asks.entries()) {
      const name = `upset${what}${index}`;
      const ref = kind.ref(name);
      await cluster.admin.create(kind.resource, kind.make(name, annotations));
      const owner = ref.namespace === undefined ? undefined : keeper;
      await upset(kind.resource, ref, mess(what === 'configmap' ? CONFIG_MAP : [], owner));
      if (what === 'configmap') {
        const key = index === 1 ? 'service-ca.crt' : 'ca.crt';
        await cluster.see<Carrier>('the bundle', configMaps, ref, ({ data = {} }) => data[key] === bundle);
      } else await seeBundle(cluster, kind, name, bundle, 60_000);
      const gone = Object.fromEntries(Object.keys(annotations).map((key) => [key, null]));
      await upset(kind.resource, ref, { metadata: { annotations: gone } });
      await seeEvent(cluster, ref.namespace ?? 'default', ref.name, 'Released');
    }
  });

  test("Gatehouse's own objects are restored after others wrote into them", async () => {
    const moved = { data: { 'ca.crt': null }, binaryData: { 'ca.crt': base64('edited') } };
    for (const change of [...METADATA.slice(0, 3).map((metadata) => ({ metadata })), ...CONFIG_MAP, moved]) {
      await upset(configMaps, BUNDLE, change);
      await cluster.see<Carrier>(
        'the published bundle',
        configMaps,
        BUNDLE,
        ({ data = {} }) => data['ca.crt'] === bundle,
      );
    }
    await upset(configMaps, BUNDLE, { metadata: { finalizers: null } });
  });
});

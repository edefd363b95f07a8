// suite: shared-plane, sandbox: long
/** CA bundles in objects that other field managers apply, replace and compete for. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import {
  configMaps,
  customResourceDefinitions,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import type { Cluster } from '../support/cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import {
  annotate,
  ASKS,
  conversion,
  crdOf,
  edit,
  entry,
  KINDS,
  managedBy,
  seeBundle,
  seeEvent,
  SHOP,
  startInjecting,
  type Carrier,
  type Kind,
} from '../support/injection-objects.ts';
import { createKubectl, HAS_KUBECTL, type Kubectl } from '../support/kubectl.ts';

let cluster: Cluster;
let replica: Replica;
let kubectl: Kubectl;
let bundle: string;

beforeAll(async () => {
  ({ cluster, replica, bundle } = await startInjecting());
  kubectl = createKubectl(cluster.plane);
});

afterAll(async () => {
  kubectl.stop();
  await cluster.stop();
});

const { validatingwebhook, configmap, crd } = KINDS;
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

/** Waits until Gatehouse has given up the other fields that its write made it own. */
const seeTidy = (name: string) =>
  cluster.see<Carrier>(
    'Gatehouse owns only the bundles',
    validatingWebhookConfigurations,
    { name },
    (object) => {
      const [ours] = managedBy(object, 'gatehouse-cabundle');
      return ours !== undefined && !JSON.stringify(ours).includes('f:name');
    },
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

  test('an added entry gets the bundle, too', async () => {
    await apply(configuration('applied', 'one.example.com', 'three.example.com'));
    const after = await seeBundle(cluster, validatingwebhook, 'applied', bundle);
    expect(names(after)).toEqual(['one.example.com', 'three.example.com']);
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
  test('a bundle that a Helm upgrade removed is restored', async () => {
    await cluster.admin.create(validatingWebhookConfigurations, validatingwebhook.make('replaced'));
    await seeBundle(cluster, validatingwebhook, 'replaced', bundle);
    const { webhooks = [] } = validatingwebhook.make('replaced');
    await edit(cluster, validatingwebhook, 'replaced', (live) => ({ ...live, webhooks }), 'helm');
    await seeBundle(cluster, validatingwebhook, 'replaced', bundle);
  });

  test('a non-PEM placeholder in a CRD is replaced, kubernetes #123835', async () => {
    const { service } = conversion().webhook.clientConfig;
    await cluster.admin
      .create(
        customResourceDefinitions,
        crdOf('placeholder', conversion({ ...(service === undefined ? {} : { service }), caBundle: 'Cg==' })),
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

test('B3: a hundred removed bundles are restored, and the test prints the time that this takes', async () => {
  const names = Array.from({ length: 20 }, (_, n) => `wiped-${String(n)}`);
  const times: number[] = [];
  for (const name of names) await cluster.admin.create(configMaps, configmap.make(name));
  for (const name of names.flatMap((one) => Array.from({ length: 5 }, () => one))) {
    await seeBundle(cluster, configmap, name, bundle);
    await edit(cluster, configmap, name, (live) => ({ ...live, data: {} }));
    const started = performance.now();
    await seeBundle(cluster, configmap, name, bundle);
    times.push(performance.now() - started);
  }
  times.sort((a, b) => a - b);
  console.log(
    `restored: p50 ${String(Math.round(times[49] ?? 0))} ms, p99 ${String(Math.round(times[98] ?? 0))} ms`,
  );
  expect(times).toHaveLength(100);
});

test('a correct object is never written again, however often it is reconciled', async () => {
  await cluster.admin.create(validatingwebhook.resource, validatingwebhook.make('quiet'));
  await cluster.admin.create(configMaps, configmap.make('quiet'));
  await seeBundle(cluster, validatingwebhook, 'quiet', bundle);
  await seeBundle(cluster, configmap, 'quiet', bundle);
  await sleep(500); // wait for the writes that follow the injection
  const version = async (kind: Kind) =>
    (await cluster.admin.get(kind.resource, kind.ref('quiet')))?.metadata?.resourceVersion;
  for (const kind of [validatingwebhook, configmap]) {
    await annotate(cluster, kind, 'quiet', { touched: 'yes' });
    const touched = await version(kind);
    await sleep(500);
    expect(await version(kind)).toBe(touched);
  }
});

describe.skipIf(!HAS_KUBECTL)('kubectl', () => {
  test('apply --server-side needs no force, neither before nor after the injection', async () => {
    const stdin = configuration('by-kubectl', 'one.example.com', 'two.example.com');
    await kubectl.says('apply --server-side -f -', { stdin });
    await seeBundle(cluster, validatingwebhook, 'by-kubectl', bundle);
    await seeTidy('by-kubectl');
    await kubectl.says('apply --server-side -f -', { stdin: configuration('by-kubectl', 'two.example.com') });
    const after = await seeBundle(cluster, validatingwebhook, 'by-kubectl', bundle);
    expect(names(after)).toEqual(['two.example.com']);
  });

  test('apply on the client side keeps the bundle', async () => {
    const stdin = configuration('by-client', 'one.example.com');
    await kubectl.says('apply -f -', { stdin });
    await seeBundle(cluster, validatingwebhook, 'by-client', bundle);
    await kubectl.says('apply -f -', { stdin: configuration('by-client', 'one.example.com') });
    await seeBundle(cluster, validatingwebhook, 'by-client', bundle);
  });

  test('a bundle that kubectl replace removed is restored', async () => {
    await kubectl.says('replace -f -', { stdin: configuration('by-client', 'one.example.com') });
    await seeBundle(cluster, validatingwebhook, 'by-client', bundle);
  });
});

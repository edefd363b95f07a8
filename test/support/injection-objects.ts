/** Objects of every kind that can carry a CA bundle, and functions that read and change them. */
import { isConflict } from '../../src/kube/api-error.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { NamedRef, Resource } from '../../src/kube/object.ts';
import {
  apiServices,
  configMaps,
  customResourceDefinitions,
  events,
  mutatingWebhookConfigurations,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { BUNDLE, createNamespace, type Cluster } from './cluster.ts';
import { versionOf } from './definitions.ts';
import { startGatehouse } from './gatehouse-cluster.ts';
import type { ReplicaOptions } from './gatehouse.ts';
import type { EventObject } from './objects.ts';
import { eventually } from './processes.ts';

/** An untyped JSON tree: tests read fields of five different kinds. */
export interface Carrier extends KubeObject {
  readonly webhooks?: readonly WebhookEntry[];
  readonly spec?: {
    readonly caBundle?: string;
    readonly service?: object;
    readonly conversion?: {
      readonly strategy: string;
      readonly webhook?: { readonly clientConfig: ClientConfig };
    };
  };
  readonly data?: Readonly<Record<string, string>>;
  readonly type?: string;
}

interface ClientConfig {
  readonly service?: object;
  readonly url?: string;
  readonly caBundle?: string;
}

export interface WebhookEntry {
  readonly name: string;
  readonly clientConfig: ClientConfig;
}

export const SHOP = 'shop';
export const ASKS = { 'gatehouse.dev/inject-cabundle': 'true' };
const service = { namespace: SHOP, name: 'hook', path: '/hook', port: 443 };

export const entry = (name: string, clientConfig: ClientConfig = { service }): WebhookEntry => {
  const rule = { apiGroups: ['none.example.com'], apiVersions: ['v1'], operations: ['CREATE'] };
  const whole = {
    name,
    clientConfig,
    rules: [{ ...rule, resources: ['things'], scope: '*' }],
    failurePolicy: 'Ignore',
    sideEffects: 'None',
    admissionReviewVersions: ['v1'],
  };
  return whole;
};

/** A kind, with the smallest object that the API server accepts and that has a slot for each bundle. */
export interface Kind {
  readonly resource: Resource;
  readonly make: (name: string, annotations?: Readonly<Record<string, string>>) => Carrier;
  readonly ref: (name: string) => NamedRef;
  readonly bundles: (object: Carrier) => readonly (string | undefined)[];
  readonly withBundle: (object: Carrier, pem: string) => Carrier;
}

const decode = (caBundle: string | undefined) =>
  caBundle === undefined ? undefined : Buffer.from(caBundle, 'base64').toString();
const encode = (pem: string) => Buffer.from(pem).toString('base64');

const webhookKind = (resource: Resource): Kind => ({
  resource,
  ref: (name) => ({ name }),
  make: (name, annotations = ASKS) => ({
    metadata: { name, annotations },
    webhooks: [entry('one.example.com'), entry('two.example.com')],
  }),
  bundles: ({ webhooks = [] }) => webhooks.map(({ clientConfig }) => decode(clientConfig.caBundle)),
  withBundle: (object, pem) => ({
    ...object,
    webhooks: (object.webhooks ?? []).map((one) => ({
      ...one,
      clientConfig: { ...one.clientConfig, caBundle: encode(pem) },
    })),
  }),
});

export const conversion = (clientConfig: ClientConfig = { service }) => ({
  strategy: 'Webhook',
  webhook: { clientConfig, conversionReviewVersions: ['v1'] },
});

export const crdOf = (
  name: string,
  how: { readonly strategy: string; readonly webhook?: { readonly clientConfig: ClientConfig } },
  annotations: Readonly<Record<string, string>> = ASKS,
  group = 'example.com',
): Carrier => {
  const names = { plural: name, singular: name, kind: name, listKind: `${name}list` };
  const spec = { group, scope: 'Namespaced', names, conversion: how, versions: [versionOf('v1')] };
  return { metadata: { name: `${name}.${group}`, annotations }, spec };
};

export function certificateKind(): Carrier {
  const definition = crdOf('certificates', { strategy: 'None' }, {}, 'cert-manager.io');
  const names = { plural: 'certificates', singular: 'certificate', kind: 'Certificate' };
  const spec = { ...definition.spec, names };
  return { ...definition, spec };
}

type KindName = 'mutatingwebhook' | 'validatingwebhook' | 'crd' | 'apiservice' | 'configmap';

export const KINDS: Readonly<Record<KindName, Kind>> = {
  mutatingwebhook: webhookKind(mutatingWebhookConfigurations),
  validatingwebhook: webhookKind(validatingWebhookConfigurations),
  crd: {
    resource: customResourceDefinitions,
    ref: (name) => ({ name: `${name}.example.com` }),
    make: (name, annotations = ASKS) => crdOf(name, conversion(), annotations),
    bundles: ({ spec }) => [decode(spec?.conversion?.webhook?.clientConfig.caBundle)],
    withBundle: (object, pem) => ({
      ...object,
      spec: { ...object.spec, conversion: conversion({ service, caBundle: encode(pem) }) },
    }),
  },
  apiservice: {
    resource: apiServices,
    ref: (name) => ({ name: `v1.${name}.example.com` }),
    make: (name, annotations = ASKS) => {
      const spec = {
        group: `${name}.example.com`,
        version: 'v1',
        groupPriorityMinimum: 100,
        versionPriority: 10,
        service: { namespace: SHOP, name: 'hook', port: 443 },
      };
      return { metadata: { name: `v1.${name}.example.com`, annotations }, spec };
    },
    bundles: ({ spec }) => [decode(spec?.caBundle)],
    withBundle: (object, pem) => ({ ...object, spec: { ...object.spec, caBundle: encode(pem) } }),
  },
  configmap: {
    resource: configMaps,
    ref: (name) => ({ namespace: SHOP, name }),
    make: (name, annotations = ASKS) => ({
      metadata: { namespace: SHOP, name, annotations },
      data: { theirs: 'untouched' },
    }),
    bundles: ({ data = {} }) => [data['ca.crt']],
    withBundle: (object, pem) => ({ ...object, data: { ...object.data, 'ca.crt': pem } }),
  },
};

/** A cluster with a replica and the namespace of the objects. `bundle` is the PEM that all targets must hold. */
export async function startInjecting(settings: ReplicaOptions['settings'] = {}) {
  const started = await startGatehouse({ settings, prepare: (cluster) => createNamespace(cluster, SHOP) });
  const { data = {} } = await started.cluster.see<Carrier>('the published bundle', configMaps, BUNDLE);
  return { ...started, bundle: data['ca.crt'] ?? '' };
}

export const seeBundle = (
  cluster: Cluster,
  kind: Kind,
  name: string,
  pem: string,
  timeoutMs = 5_000,
): Promise<Carrier> =>
  cluster.see<Carrier>(
    'the bundle',
    kind.resource,
    kind.ref(name),
    (object) => kind.bundles(object).every((one) => one === pem),
    timeoutMs,
  );

export async function edit(
  cluster: Cluster,
  kind: Kind,
  name: string,
  change: (live: Carrier) => Carrier,
  fieldManager = 'their-installer',
): Promise<Carrier> {
  for (;;) {
    const live = await cluster.admin.get<Carrier>(kind.resource, kind.ref(name));
    if (live === undefined) throw new Error(`there is no ${name} to edit`);
    try {
      return await cluster.admin.replace(kind.resource, change(live), { fieldManager });
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  }
}

export const annotate = (
  cluster: Cluster,
  kind: Kind,
  name: string,
  annotations: Readonly<Record<string, string | null>>,
) => cluster.admin.patchMerge(kind.resource, kind.ref(name), { metadata: { annotations } });

export async function seeEvent(
  cluster: Cluster,
  namespace: string,
  name: string,
  reason: string,
): Promise<EventObject> {
  return await eventually(
    `event ${reason} on ${name}`,
    async () => {
      const { items } = await cluster.admin.list<EventObject>(events, { namespace });
      return items.find((event) => event.involvedObject.name === name && event.reason === reason);
    },
    { timeoutMs: 60_000 }, // the controller reports a refused write only after some seconds
  );
}

export function managedBy(object: KubeObject, manager: string): readonly unknown[] {
  const { managedFields = [] } = (object.metadata ?? {}) as {
    readonly managedFields?: readonly { readonly manager: string; readonly fieldsV1: unknown }[];
  };
  return managedFields.flatMap((one) => (one.manager === manager ? [one.fieldsV1] : []));
}

/** The fixtures of all cases: two custom resources and the Service of the webhooks. */
import type { Api, Loose } from './api.ts';
import { HOOKS_NAMESPACE, HOOKS_SERVICE } from './hook-server.ts';

const GROUP = 'conformance.example.com';

/** Namespaced, with two versions, a status subresource and a schema with every feature. */
export const widgets = ({ id }: Api, rest = '', version = 'v1'): string =>
  `/apis/${GROUP}/${version}/namespaces/${id}/widgets${rest}`;

export const CRDS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

export const widget = (name: string, spec: object = {}, metadata: object = {}) => ({
  apiVersion: `${GROUP}/v1`,
  kind: 'Widget',
  metadata: { name, ...metadata },
  spec,
});

export const configMap = (name: string, data?: object, metadata: object = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, ...metadata },
  ...(data === undefined ? {} : { data }),
});

const WIDGET_SCHEMA = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      properties: {
        size: { type: 'integer', minimum: 1, maximum: 100 },
        ratio: { type: 'number' },
        tier: { type: 'string', enum: ['gold', 'silver'], default: 'silver' },
        code: { type: 'string', pattern: '^[a-z]+$' },
        on: { type: 'boolean' },
        owner: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
        maybe: { type: 'string', nullable: true },
        tags: { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' },
        steps: { type: 'array', items: { type: 'string' } },
        ports: {
          type: 'array',
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['name'],
          items: {
            type: 'object',
            required: ['name'],
            properties: {
              name: { type: 'string' },
              port: { type: 'integer' },
              protocol: { type: 'string', default: 'TCP' },
            },
          },
        },
        notes: { type: 'object', additionalProperties: { type: 'string' } },
        anything: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
        template: {
          type: 'object',
          'x-kubernetes-embedded-resource': true,
          'x-kubernetes-preserve-unknown-fields': true,
        },
      },
    },
    status: {
      type: 'object',
      properties: { phase: { type: 'string' }, observed: { type: 'integer' } },
    },
  },
};

const WIDGET_COLUMNS = [
  { name: 'Size', type: 'integer', jsonPath: '.spec.size' },
  { name: 'Phase', type: 'string', jsonPath: '.status.phase', description: 'How far it is.' },
  { name: 'Tier', type: 'string', jsonPath: '.spec.tier', priority: 1 },
  { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
];

const WIDGETS_CRD = {
  metadata: { name: `widgets.${GROUP}` },
  spec: {
    group: GROUP,
    scope: 'Namespaced',
    names: { plural: 'widgets', singular: 'widget', kind: 'Widget', shortNames: ['wd'], categories: ['all'] },
    versions: ['v1', 'v1beta1'].map((name) => ({
      name,
      served: true,
      storage: name === 'v1',
      subresources: { status: {} },
      schema: { openAPIV3Schema: WIDGET_SCHEMA },
      additionalPrinterColumns: WIDGET_COLUMNS,
    })),
  },
};

/** A CRD for a single case; `spec` changes the default. */
export function crd({ id }: Api, spec: object = {}, version: object = {}) {
  const group = `${id}.example.com`;
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `things.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural: 'things', singular: 'thing', kind: 'Thing', listKind: 'ThingList' },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: {
            openAPIV3Schema: {
              type: 'object',
              properties: { spec: { type: 'object', properties: { size: { type: 'integer' } } } },
            },
          },
          ...version,
        },
      ],
      ...spec,
    },
  };
}

export const thingsCrd = ({ id }: Api): string => `${CRDS}/things.${id}.example.com`;

/** The custom resources of {@link crd}. */
export const things = ({ id }: Api, rest = '', version = 'v1'): string =>
  `/apis/${id}.example.com/${version}/namespaces/${id}/things${rest}`;

export const thing = ({ id }: Api, name: string, spec: object = {}, version = 'v1') => ({
  apiVersion: `${id}.example.com/${version}`,
  kind: 'Thing',
  metadata: { name },
  spec,
});

/** The conditions of a CRD without their times, by type. */
export const conditions = ({ status }: Loose) =>
  (status as { conditions: readonly Record<string, string>[] }).conditions
    .map(({ type, status: is, reason, message }) => ({ type, status: is, reason, message }))
    .toSorted((a, b) => String(a.type).localeCompare(String(b.type)));

export const established = (api: Api) =>
  api.until(thingsCrd(api), ({ object }) =>
    conditions(object).some(({ type, status }) => type === 'Established' && status === 'True'),
  );

/** Creates the CRD and waits until it is established, served and discovered: the API server does these in any order. */
export async function installCrd(api: Api, definition: object = crd(api)): Promise<void> {
  await api.given.create(CRDS, definition);
  await api.until(things(api), ({ status }) => status === 200);
  await established(api);
  await api.until(`/apis/${api.id}.example.com/v1`, ({ status }) => status === 200);
}

export async function installFixtures(api: Api, hooksPort: number): Promise<void> {
  await api.given.create(CRDS, WIDGETS_CRD);
  await api.given.create('/api/v1/namespaces', { metadata: { name: HOOKS_NAMESPACE } });
  await api.given.create(`/api/v1/namespaces/${HOOKS_NAMESPACE}/services`, {
    metadata: { name: HOOKS_SERVICE },
    spec: { type: 'ExternalName', externalName: 'localhost', ports: [{ port: hooksPort }] },
  });
  await api.until(widgets(api), ({ status }) => status === 200);
  await api.until(widgets(api, '', 'v1beta1'), ({ status }) => status === 200);
}

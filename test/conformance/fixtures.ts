/** The fixtures of all cases: two custom resources and the Service of the webhooks. */
import type { Api, Loose } from './api.ts';
import { HOOKS_NAMESPACE, HOOKS_SERVICE } from './hook-server.ts';
import { definitionOf, resourceOf, versionOf, withSpec } from '../support/definitions.ts';

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

const text = { type: 'string' };
const WIDGET_SCHEMA = withSpec(
  {
    size: { type: 'integer', minimum: 1, maximum: 100 },
    ratio: { type: 'number' },
    tier: { type: 'string', enum: ['gold', 'silver'], default: 'silver' },
    code: { type: 'string', pattern: '^[a-z]+$' },
    on: { type: 'boolean' },
    owner: { type: 'object', required: ['name'], properties: { name: text } },
    maybe: { type: 'string', nullable: true },
    tags: { type: 'array', items: text, 'x-kubernetes-list-type': 'set' },
    steps: { type: 'array', items: text },
    ports: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
      items: {
        type: 'object',
        required: ['name'],
        properties: {
          name: text,
          port: { type: 'integer' },
          protocol: { type: 'string', default: 'TCP' },
        },
      },
    },
    notes: { type: 'object', additionalProperties: text },
    anything: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    template: {
      type: 'object',
      'x-kubernetes-embedded-resource': true,
      'x-kubernetes-preserve-unknown-fields': true,
    },
  },
  { status: { type: 'object', properties: { phase: text, observed: { type: 'integer' } } } },
);

const WIDGET_COLUMNS = [
  { name: 'Size', type: 'integer', jsonPath: '.spec.size' },
  { name: 'Phase', type: 'string', jsonPath: '.status.phase', description: 'How far it is.' },
  { name: 'Tier', type: 'string', jsonPath: '.spec.tier', priority: 1 },
  { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
];

const WIDGETS_CRD = definitionOf(resourceOf(GROUP, 'widgets', 'Widget'), {
  names: { plural: 'widgets', singular: 'widget', kind: 'Widget', shortNames: ['wd'], categories: ['all'] },
  versions: ['v1', 'v1beta1'].map((name) =>
    versionOf(name, WIDGET_SCHEMA, {
      storage: name === 'v1',
      subresources: { status: {} },
      additionalPrinterColumns: WIDGET_COLUMNS,
    }),
  ),
});

/** For a single case; `spec` and `version` change the default. */
export const crd = ({ id }: Api, spec: object = {}, version: object = {}) =>
  definitionOf(resourceOf(`${id}.example.com`, 'things', 'Thing'), {
    versions: [versionOf('v1', withSpec({ size: { type: 'integer' } }), version)],
    ...spec,
  });

export const thingsCrd = ({ id }: Api): string => `${CRDS}/things.${id}.example.com`;

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

const established = (api: Api) =>
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

type Run = (api: Api) => Promise<unknown>;

interface CaseOptions {
  readonly run: Run;
  /** managedFields are removed from the transcript unless the case is about them. */
  readonly keepManagedFields?: boolean;
}

export interface ConformanceCase extends CaseOptions {
  readonly name: string;
}

export function group(
  theme: string,
  cases: Readonly<Record<string, Run | CaseOptions>>,
): readonly ConformanceCase[] {
  return Object.entries(cases).map(([sentence, value]): ConformanceCase => {
    const options = typeof value === 'function' ? { run: value } : value;
    return { ...options, name: `${theme}: ${sentence}` };
  });
}

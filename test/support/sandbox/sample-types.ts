import {
  apiVersionOf,
  plainStrategy,
  type ResourceRegistry,
  type ResourceType,
} from '../../../src/machinery/resource-type.ts';
import { ANYTHING } from '../../../src/machinery/schema/schema.ts';

type Told = Pick<ResourceType, 'group' | 'version' | 'kind' | 'resource'> & Partial<ResourceType>;

export function sampleType(told: Told): ResourceType {
  return {
    singular: told.kind.toLowerCase(),
    listKind: `${told.kind}List`,
    shortNames: [],
    categories: [],
    namespaced: true,
    verbs: ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'],
    schema: { type: 'object' },
    custom: false,
    columns: [],
    hasStatus: false,
    storageVersion: told.version,
    selectableFields: {},
    strategy: plainStrategy,
    ...told,
  };
}

export const service = sampleType({
  group: '',
  version: 'v1',
  kind: 'Service',
  resource: 'services',
  shortNames: ['svc'],
  categories: ['all'],
  hasStatus: true,
  schema: {
    type: 'object',
    description: 'A name for what serves it.',
    properties: {
      spec: {
        type: 'object',
        description: 'How it is reached.',
        properties: {
          ports: {
            type: 'array',
            'x-kubernetes-patch-strategy': 'merge',
            'x-kubernetes-patch-merge-key': 'port',
            items: {
              type: 'object',
              properties: {
                port: { type: 'integer', format: 'int32', description: 'Where it listens.' },
                targetPort: { 'x-kubernetes-int-or-string': true, description: 'Where it is sent to.' },
              },
            },
          },
        },
      },
    },
  },
});

export const namespace = sampleType({
  group: '',
  version: 'v1',
  kind: 'Namespace',
  resource: 'namespaces',
  namespaced: false,
  hasStatus: true,
  subresources: [{ name: 'finalize', kind: 'Namespace', verbs: ['update'] }],
});

export const serviceAccount = sampleType({
  group: '',
  version: 'v1',
  kind: 'ServiceAccount',
  resource: 'serviceaccounts',
  subresources: [
    { name: 'token', group: 'authentication.k8s.io', version: 'v1', kind: 'TokenRequest', verbs: ['create'] },
  ],
});

export const deployment = sampleType({
  group: 'apps',
  version: 'v1',
  kind: 'Deployment',
  resource: 'deployments',
  hasStatus: true,
  scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' },
  schema: { type: 'object', properties: { spec: ANYTHING } },
});

export const accessReview = sampleType({
  group: 'authorization.k8s.io',
  version: 'v1',
  kind: 'SubjectAccessReview',
  resource: 'subjectaccessreviews',
  namespaced: false,
  verbs: ['create'],
});

const custom = { group: 'infra.example.com', kind: 'Server', resource: 'servers', custom: true };

export const server = sampleType({
  ...custom,
  version: 'v1',
  shortNames: ['srv'],
  hasStatus: true,
  schema: {
    type: 'object',
    description: 'A machine.',
    required: ['spec'],
    properties: {
      metadata: { type: 'object', properties: { name: { type: 'string', maxLength: 10 } } },
      spec: {
        type: 'object',
        description: 'What is wanted.',
        required: ['size'],
        properties: {
          size: { type: 'string', description: 'How large it is.', enum: ['small', 'large'] },
          disks: {
            type: 'array',
            description: 'Where it keeps things.',
            items: {
              type: 'object',
              properties: { name: { type: 'string', description: 'What it is called.' } },
            },
          },
          labels: { type: 'object', additionalProperties: { type: 'string' } },
          port: { 'x-kubernetes-int-or-string': true },
          template: { type: 'object', 'x-kubernetes-embedded-resource': true, ...ANYTHING },
        },
      },
    },
  },
});

export const oldServer = sampleType({ ...custom, version: 'v1beta1', schema: ANYTHING });

/** A registry that lists its types in arbitrary order. */
export function registryOf(...types: readonly ResourceType[]): ResourceRegistry {
  return {
    find: (group, version, resource) =>
      types.find((type) => type.group === group && type.version === version && type.resource === resource),
    findKind: (apiVersion, kind) =>
      types.find((type) => apiVersionOf(type) === apiVersion && type.kind === kind),
    stored: (group, resource) => types.find((type) => type.group === group && type.resource === resource),
    all: () => types,
  };
}

export const sampleRegistry = registryOf(
  oldServer,
  server,
  accessReview,
  deployment,
  serviceAccount,
  service,
  namespace,
);

import {
  apiVersionOf,
  plainStrategy,
  type ResourceRegistry,
  type ResourceType,
} from '../../../src/machinery/resource-type.ts';
import { ANYTHING } from '../../../src/machinery/schema/schema.ts';

/** @param apiVersion such as `apps/v1`, or `/v1` */
function sampleType(apiVersion: string, kind: string, told: Partial<ResourceType> = {}): ResourceType {
  const [group = '', version = ''] = apiVersion.split('/');
  return {
    group,
    version,
    kind,
    resource: `${kind.toLowerCase()}s`,
    singular: kind.toLowerCase(),
    listKind: `${kind}List`,
    shortNames: [],
    categories: [],
    verbs: ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'],
    namespaced: true,
    schema: { type: 'object' },
    custom: false,
    columns: [],
    hasStatus: false,
    storageVersion: version,
    selectableFields: {},
    strategy: plainStrategy,
    ...told,
  };
}

const service = sampleType('/v1', 'Service', {
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

const namespace = sampleType('/v1', 'Namespace', {
  namespaced: false,
  hasStatus: true,
});

const serviceAccount = sampleType('/v1', 'ServiceAccount', {});

const deployment = sampleType('apps/v1', 'Deployment', {
  hasStatus: true,
  scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' },
  schema: { type: 'object', properties: { spec: ANYTHING } },
});

const accessReview = sampleType('authorization.k8s.io/v1', 'SubjectAccessReview', {
  namespaced: false,
  verbs: ['create'],
});

const server = sampleType('infra.example.com/v1', 'Server', {
  custom: true,
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

const oldServer = sampleType('infra.example.com/v1beta1', 'Server', { custom: true, schema: ANYTHING });

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

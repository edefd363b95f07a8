/** The CRD and the webhook configurations of the cluster whose AdmissionReviews are recorded. */
import type { Recorder } from './recorder.ts';

/** The Service through which the API server finds the webhooks. */
export const HOOK_SERVICE = { namespace: 'gatehouse-system', name: 'gatehouse' };

const clientConfig = ({ port, ca }: Pick<Recorder, 'port' | 'ca'>, path: string) => ({
  service: { ...HOOK_SERVICE, path, port },
  caBundle: ca,
});

const fields = (...names: readonly (readonly [string, object])[]) => ({
  type: 'object',
  properties: Object.fromEntries(names),
});
const text = { type: 'string' };
const integer = { type: 'integer' };
const schema = {
  openAPIV3Schema: fields(
    [
      'spec',
      fields(
        ['datacenter', text],
        ['replicas', integer],
        ['serial', text],
        ['units', { ...integer, format: 'int64' }],
      ),
    ],
    ['status', fields(['phase', text], ['replicas', integer])],
  ),
};

/** Servers in two versions; the webhook converts them. */
export const serversDefinition = (recorder: Pick<Recorder, 'port' | 'ca'>) => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'servers.infra.example.com' },
  spec: {
    group: 'infra.example.com',
    names: {
      plural: 'servers',
      singular: 'server',
      shortNames: ['srv'],
      kind: 'Server',
      listKind: 'ServerList',
    },
    scope: 'Namespaced',
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema,
        subresources: {
          status: {},
          scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' },
        },
      },
      { name: 'v1beta1', served: true, storage: false, schema, subresources: { status: {} } },
    ],
    conversion: {
      strategy: 'Webhook',
      webhook: { clientConfig: clientConfig(recorder, '/convert'), conversionReviewVersions: ['v1'] },
    },
  },
});

interface Rule {
  readonly apiGroups: readonly string[];
  readonly apiVersions: readonly string[];
  readonly resources: readonly string[];
  readonly operations: readonly string[];
}

const rule = (group: string, resources: readonly string[], operations: readonly string[]): Rule => ({
  apiGroups: [group],
  apiVersions: ['*'],
  resources,
  operations,
});

const SERVER_RULE = rule(
  'infra.example.com',
  ['servers', 'servers/status', 'servers/scale'],
  ['CREATE', 'UPDATE', 'DELETE'],
);

const BUILT_IN_RULES = [
  rule('', ['namespaces'], ['CREATE', 'UPDATE', 'DELETE']),
  rule('', ['configmaps', 'serviceaccounts', 'serviceaccounts/token'], ['CREATE']),
  rule('', ['pods', 'pods/exec', 'pods/eviction'], ['CREATE', 'CONNECT']),
  rule('apiextensions.k8s.io', ['customresourcedefinitions'], ['UPDATE']),
];

/** Controllers write when they like: the recording has only what the steps cause. */
const OF_THE_STEPS = {
  name: 'steps',
  expression: "request.userInfo.username in ['admin', 'system:serviceaccount:velero:velero']",
};

function configuration(
  kind: 'Mutating' | 'Validating',
  path: string,
  rules: readonly Rule[],
  recorder: Pick<Recorder, 'port' | 'ca'>,
) {
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: `${kind}WebhookConfiguration`,
    metadata: { name: 'recorder' },
    webhooks: [
      {
        name: 'recorder.example.com',
        clientConfig: clientConfig(recorder, path),
        rules,
        matchConditions: [OF_THE_STEPS],
        sideEffects: 'None',
        timeoutSeconds: 7,
        failurePolicy: 'Fail',
        admissionReviewVersions: ['v1'],
      },
    ],
  };
}

/** The mutating webhook has v1 alone: the API server converts objects of other versions for it. */
export const webhookConfigurations = (recorder: Pick<Recorder, 'port' | 'ca'>) => [
  configuration('Mutating', '/mutate', [{ ...SERVER_RULE, apiVersions: ['v1'] }], recorder),
  configuration('Validating', '/validate', [SERVER_RULE, ...BUILT_IN_RULES], recorder),
];

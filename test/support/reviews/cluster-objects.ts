/** The CRD and the webhook configurations of the cluster whose AdmissionReviews are recorded. */
import { definitionOf, resourceOf, versionOf, withSpec } from '../definitions.ts';
import type { Recorder } from './recorder.ts';

export const HOOK_SERVICE = { namespace: 'gatehouse-system', name: 'gatehouse' };

const clientConfig = ({ port, ca }: Pick<Recorder, 'port' | 'ca'>, path: string) => ({
  service: { ...HOOK_SERVICE, path, port },
  caBundle: ca,
});

const text = { type: 'string' };
const integer = { type: 'integer' };
const schema = withSpec(
  { datacenter: text, replicas: integer, serial: text, units: { ...integer, format: 'int64' } },
  { status: { type: 'object', properties: { phase: text, replicas: integer } } },
);
const scale = { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' };

/** Servers in two versions; the webhook converts them. */
export const serversDefinition = (recorder: Pick<Recorder, 'port' | 'ca'>) =>
  definitionOf(resourceOf('infra.example.com', 'servers', 'Server'), {
    versions: [
      versionOf('v1', schema, { subresources: { status: {}, scale } }),
      versionOf('v1beta1', schema, { storage: false, subresources: { status: {} } }),
    ],
    conversion: {
      strategy: 'Webhook',
      webhook: { clientConfig: clientConfig(recorder, '/convert'), conversionReviewVersions: ['v1'] },
    },
  });

const rule = (group: string, resources: readonly string[], operations: readonly string[]) => ({
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
  rules: readonly object[],
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

/** A webhook server that allows and converts everything, and records what the API server sends. */
import type { IncomingMessage } from 'node:http';

import { isJsonObject, listIn, parseJson, textIn, type JsonValue } from '../../../src/json/json.ts';
import { startJsonServer } from '../json-server.ts';
import { definitionOf, resourceOf, versionOf, withSpec } from '../definitions.ts';
import { localService } from '../../../src/cli/sandbox/tour-objects.ts';
import { startApiProxy } from '../api-proxy.ts';
import type { ControlPlane } from '../control-plane.ts';
import { createKubectl, type Kubectl } from '../kubectl.ts';
import { eventually } from '../processes.ts';
import { STEPS } from './steps.ts';

/** A line of test/data/admission-reviews-*.jsonl. */
export interface RecordedReview {
  readonly step: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The text as received: it has integers beyond 2^53. */
  readonly body: string;
}

type Recorder = Awaited<ReturnType<typeof startRecorder>>;
type Endpoint = Pick<Recorder, 'port' | 'caBundle'>;

async function startRecorder() {
  const recorded: RecordedReview[] = [];
  const probed = new Set<string>();
  let step: string | undefined;
  const name = `${HOOK_SERVICE.name}.${HOOK_SERVICE.namespace}.svc`;
  const server = await startJsonServer(name, (body, request) => {
    const path = request.url ?? '/';
    if (step === undefined) probed.add(path.replace(/\?.*/, ''));
    else recorded.push({ step, path, headers: headersOf(request), body });
    return answerTo(parseJson(body));
  });
  return {
    ...server,
    /** Records from now on, as part of this step. */
    begin: (name: string) => void (step = name),
    recorded: recorded as readonly RecordedReview[],
    probed: probed as ReadonlySet<string>,
  };
}

/** Without the host: its port differs between two recordings. */
const headersOf = ({ headers }: IncomingMessage): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (name === 'host' ? [] : [[name, String(value)]])),
  );

/** Allows the request, or converts the objects: all versions have the same fields. */
function answerTo(review: JsonValue): unknown {
  const uid = textIn(review, 'request', 'uid');
  const [apiVersion, kind] = [textIn(review, 'apiVersion'), textIn(review, 'kind')];
  if (kind !== 'ConversionReview') return { apiVersion, kind, response: { uid, allowed: true } };
  const desired = textIn(review, 'request', 'desiredAPIVersion');
  const convertedObjects = listIn(review, 'request', 'objects').map((object) =>
    isJsonObject(object) ? { ...object, apiVersion: desired } : object,
  );
  return { apiVersion, kind, response: { uid, result: { status: 'Success' }, convertedObjects } };
}

const HOOK_SERVICE = { namespace: 'gatehouse-system', name: 'gatehouse' };

const clientConfig = ({ port, caBundle }: Endpoint, path: string) => ({
  service: { ...HOOK_SERVICE, path, port },
  caBundle,
});

const text = { type: 'string' };
const integer = { type: 'integer' };
const schema = withSpec(
  { datacenter: text, replicas: integer, serial: text, units: { ...integer, format: 'int64' } },
  { status: { type: 'object', properties: { phase: text, replicas: integer } } },
);
const scale = { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' };

const serversDefinition = (recorder: Endpoint) =>
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
  recorder: Endpoint,
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
const webhookConfigurations = (recorder: Endpoint) => [
  configuration('Mutating', '/mutate', [{ ...SERVER_RULE, apiVersions: ['v1'] }], recorder),
  configuration('Validating', '/validate', [SERVER_RULE, ...BUILT_IN_RULES], recorder),
];

export async function recordReviews(plane: ControlPlane): Promise<readonly RecordedReview[]> {
  const recorder = await startRecorder();
  const kubectl = createKubectl(plane);
  const proxy = await startApiProxy(plane, 'recorder', async (method) => {
    if (method !== 'GET') await cachesAreCurrent(kubectl);
    return undefined;
  });
  const slowKubectl = createKubectl({ ...plane, kubeconfig: proxy.kubeconfig });
  try {
    await prepare(kubectl, recorder);
    for (const { name, take, isSequence = false } of STEPS) {
      recorder.begin(name);
      await take(isSequence ? slowKubectl : kubectl);
      await cachesAreCurrent(kubectl);
    }
    return [...recorder.recorded];
  } finally {
    slowKubectl.stop();
    kubectl.stop();
    await proxy.stop();
    await recorder.stop();
  }
}

async function prepare(kubectl: Kubectl, recorder: Recorder): Promise<void> {
  const { namespace, name } = HOOK_SERVICE;
  await kubectl.says(`create namespace ${namespace}`);
  await kubectl.says('create -f -', { stdin: localService(namespace, name, recorder.port) });
  const definition = serversDefinition(recorder);
  const crd = `crd/${definition.metadata?.name}`;
  await kubectl.says('apply -f -', { stdin: definition });
  await kubectl.says(`label ${crd} seen=1`);
  await kubectl.says(`wait --for=condition=Established ${crd}`);
  await eventually('both versions are served', () => cachesAreCurrent(kubectl).then(() => true));
  await kubectl.says('create -f -', { stdin: webhookConfigurations(recorder) });
  const probe = { apiVersion: 'infra.example.com/v1', kind: 'Server', metadata: { name: 'probe' } };
  await eventually('the webhooks are in force', async () => {
    await kubectl.says('create --dry-run=server -f -', { stdin: probe });
    return recorder.probed.has('/mutate') && recorder.probed.has('/validate');
  });
}

/**
 * Waits until the API server's caches have every write: a list waits for the cache, and converts nothing. A
 * write that starts from an old object is sent to the webhooks twice.
 */
async function cachesAreCurrent(kubectl: Kubectl): Promise<void> {
  for (const version of ['v1', 'v1beta1']) {
    await kubectl.says(`get --raw /apis/infra.example.com/${version}/servers`);
  }
}

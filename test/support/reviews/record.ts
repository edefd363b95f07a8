/** Recordings of what a kube-apiserver sends to webhooks, in test/data. */
import { localService } from '../../../src/cli/sandbox/tour-objects.ts';
import { startApiProxy } from '../api-proxy.ts';
import type { ControlPlane } from '../control-plane.ts';
import { createKubectl, type Kubectl } from '../kubectl.ts';
import { eventually } from '../processes.ts';
import { HOOK_SERVICE, serversDefinition, webhookConfigurations } from './cluster-objects.ts';
import { startRecorder, type RecordedReview, type Recorder } from './recorder.ts';
import { STEPS } from './steps.ts';

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

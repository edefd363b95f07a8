/** Each Memcached gets a Deployment, and its status has the names of the pods. */
import { byLabel, defineController } from '@gatehouse-dev/gatehouse';

interface Memcached {
  metadata: { name: string; namespace: string };
  spec: { size: number; image: string; port?: number };
}

const LABEL = 'cache.example.com/memcached';

export default defineController<Memcached>({
  watch: { apiGroups: ['cache.example.com'], apiVersions: ['v1'], resources: ['memcacheds'] },
  owns: [{ apiGroups: ['apps'], apiVersions: ['v1'], resources: ['deployments'] }],
  watches: [
    {
      kind: 'pods',
      labelSelector: { matchExpressions: [{ key: LABEL, operator: 'Exists' }] },
      map: byLabel(LABEL),
    },
  ],

  async reconcile({ metadata: { name, namespace }, spec }, { apply, condition, list, status, wait }) {
    const { size, image, port = 11_211 } = spec;
    const labels = { [LABEL]: name };
    const { status: known, metadata } = await apply({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name, namespace, labels },
      spec: {
        replicas: size,
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            containers: [{ name: 'memcached', image, ports: [{ name: 'memcached', containerPort: port }] }],
          },
        },
      },
    });
    const pods = await list('pods', { labelSelector: { matchLabels: labels } });
    const nodes = pods.flatMap((pod) => pod.metadata?.name ?? []).sort();
    status({ nodes, replicas: nodes.length, selector: `${LABEL}=${name}` });

    const ready = known?.readyReplicas ?? 0;
    const isCurrent = known?.observedGeneration === metadata?.generation;
    const isDone =
      isCurrent && ready === size && (known?.updatedReplicas ?? 0) === size && nodes.length === size;
    const stuck = known?.conditions?.find(
      ({ type, reason }) =>
        (type === 'Progressing' && reason === 'ProgressDeadlineExceeded') || type === 'ReplicaFailure',
    );
    const count = `${ready} of ${size} pods are ready`;
    condition('Available', isCurrent && ready >= size ? 'True' : 'False', 'PodsReady', count);
    condition('Progressing', isDone ? 'False' : 'True', isDone ? 'Done' : 'RollingOut', count);
    condition('Degraded', stuck ? 'True' : 'False', stuck?.reason ?? 'AsExpected', stuck?.message ?? count);
    // Not each of these should be True, so the verdict is explicit.
    condition('Ready', 'True', 'PodsReady', count);
    if (!isDone) wait(stuck === undefined ? 'RollingOut' : 'Degraded', stuck?.message ?? count);
  },
});

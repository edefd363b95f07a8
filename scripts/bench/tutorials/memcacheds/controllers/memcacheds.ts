/** Each Memcached gets a Deployment, and is ready when the Deployment is available. */
import { defineController } from '../../../../../src/index.ts';

interface Memcached {
  metadata: { name: string; namespace: string };
  spec: { size: number; port: number };
}

export default defineController<Memcached>({
  watch: { apiGroups: ['cache.example.com'], apiVersions: ['v1'], resources: ['memcacheds'] },
  owns: [{ apiGroups: ['apps'], apiVersions: ['v1'], resources: ['deployments'] }],

  async reconcile({ metadata: { name, namespace }, spec }, { apply, condition }) {
    const labels = { 'app.kubernetes.io/name': 'memcached', 'app.kubernetes.io/instance': name };
    const { status } = await apply({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name, namespace },
      spec: {
        replicas: spec.size,
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            containers: [
              {
                name: 'memcached',
                image: 'memcached:1.6.26-alpine3.19',
                command: ['memcached', '--memory-limit=64', '-o', 'modern', '-v'],
                ports: [{ name: 'memcached', containerPort: spec.port }],
              },
            ],
          },
        },
      },
    });
    const isAvailable = (status?.availableReplicas ?? 0) >= spec.size;
    condition('Available', isAvailable ? 'True' : 'False', isAvailable ? 'Available' : 'Starting');
  },
});

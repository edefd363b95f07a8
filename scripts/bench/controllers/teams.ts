/** Each Team gets a ConfigMap. The status says when the pass of the last change began. */
import { defineController } from '../../../src/index.ts';

interface Team {
  metadata: { name: string };
  spec: { size: number };
}

export default defineController<Team>({
  concurrency: 16, // a pass waits for two answers: with the default of 4, they limit the rate
  watch: { apiGroups: ['bench.example.com'], apiVersions: ['v1'], resources: ['teams'] },
  owns: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'] }],
  async reconcile(
    { metadata: { name }, spec, status: known }: Team & { status?: { size?: number } },
    { apply, status },
  ) {
    if (known?.size !== spec.size) status({ size: spec.size, sawAt: Date.now() });
    await apply({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, namespace: 'default' },
      data: { size: String(spec.size) },
    });
  },
});

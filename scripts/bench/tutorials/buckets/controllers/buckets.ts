/** Each Bucket gets a bucket in a service with an HTTP API, which goes with the Bucket. */
import { defineController } from '../../../../../src/index.ts';

interface Bucket {
  metadata: { uid: string };
  spec: { region: string };
}

async function call(method: string, { metadata, spec }: Bucket, signal: AbortSignal): Promise<string> {
  const url = `${process.env.BUCKETS_URL ?? 'http://127.0.0.1:8091'}/buckets/${metadata.uid}`;
  const response = await fetch(url, { method, body: spec.region, signal });
  await response.body?.cancel();
  if (!response.ok && response.status !== 404) throw new Error(`${method} ${url}: ${response.status}`);
  return url;
}

export default defineController<Bucket>({
  watch: { apiGroups: ['storage.example.com'], apiVersions: ['v1'], resources: ['buckets'] },

  async reconcile(bucket, { condition, status, signal }) {
    status({ url: await call('PUT', bucket, signal) });
    condition('Created', 'True', 'Created');
  },

  async finalize(bucket, { signal }) {
    await call('DELETE', bucket, signal);
  },
});

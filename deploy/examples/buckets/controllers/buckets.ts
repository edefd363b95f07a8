/** Each Bucket gets a bucket in a storage service: exactly one, which goes with the object. */
import { defineController } from '@gatehouse-dev/gatehouse';

import { connectService } from './service/client.ts';

interface Bucket {
  metadata: { name: string; namespace: string };
  spec: { region: string };
  status?: { bucketId?: string };
}

const RETRY = { afterSeconds: 5 };
const DRIFT_SECONDS = 300;

const tagOf = ({ namespace, name }: Bucket['metadata']) => `${namespace}/${name}`;
/** `fetch` throws a TypeError if there is no answer. */
const reasonOf = (error: TypeError) => (error.cause instanceof Error ? error.cause.message : error.message);

export default defineController<Bucket>({
  watch: { apiGroups: ['storage.example.com'], apiVersions: ['v1'], resources: ['buckets'] },

  async reconcile({ metadata, spec }, { progress, status, condition, wait, requeueAfter, signal }) {
    const service = connectService(signal);
    const tag = tagOf(metadata);
    // By tag, because a restore drops the status.
    let [bucket] = progress.current === undefined ? await service.tagged(tag) : [];
    if (bucket === undefined) {
      const { id } = await progress.start('create');
      bucket = await service.create(id, { region: spec.region, tag });
      progress.finish();
      if (bucket === undefined) {
        wait('Lost', 'the bucket was deleted in the service while it was created', { afterSeconds: 1 });
        return;
      }
    }
    status({ bucketId: bucket.id });
    condition('Created', 'True', 'Created', `the service calls it ${bucket.id}`);
    // The service reports nothing: look for buckets that were deleted there.
    requeueAfter(DRIFT_SECONDS);
  },

  async finalize({ metadata, spec }, { progress, condition, wait, signal }) {
    const service = connectService(signal);
    const tag = tagOf(metadata);
    try {
      // The call of a pass that crashed may still arrive: use its key up before the deletion.
      if (progress.current !== undefined)
        await service.create(progress.current.id, { region: spec.region, tag });
      for (const { id, objects } of await service.tagged(tag)) {
        if (await service.remove(id)) continue;
        const message = `the bucket ${id} has ${objects} objects: delete them`;
        condition('Deleted', 'False', 'NotEmpty', message);
        wait('NotEmpty', message, RETRY);
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      const message = `the storage service does not answer: ${reasonOf(error)}`;
      condition('Deleted', 'False', 'ServiceDown', message);
      wait('ServiceDown', message, RETRY);
    }
  },
});

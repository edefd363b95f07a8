/** Each Machine gets a machine in a cloud: exactly one, whatever crashes when. */
import { defineController } from '@gatehouse-dev/gatehouse';

import { connectCloud } from './cloud/client.ts';

interface Machine {
  metadata: { name: string; namespace: string };
  spec: { size: string };
  status?: { machineId?: string };
}

const nameOf = ({ namespace, name }: Machine['metadata']) => `${namespace}/${name}`;

export default defineController<Machine>({
  watch: { apiGroups: ['cloud.example.com'], apiVersions: ['v1'], resources: ['machines'] },

  async reconcile(
    { metadata, spec, status: known },
    { progress, status, condition, wait, requeueAfter, signal },
  ) {
    const cloud = connectCloud(signal);
    let machine = known?.machineId === undefined ? undefined : await cloud.get(known.machineId);
    if (machine === undefined) {
      const { id } = await progress.start('create');
      machine = await cloud.create(id, { name: nameOf(metadata), size: spec.size });
      progress.finish();
      if (machine === undefined) {
        wait('Lost', 'the machine was deleted in the cloud while it was created', { afterSeconds: 1 });
        return;
      }
      status({ machineId: machine.id });
    }
    if (machine.size !== spec.size) await cloud.resize(machine.id, spec.size);
    condition('Created', 'True', 'Created', `the cloud calls it ${machine.id}`);
    status({ address: machine.address });
    if (machine.state !== 'running') wait('Starting', `${machine.id} starts`, { afterSeconds: 1 });
    // The cloud reports nothing: look for machines that were deleted there.
    requeueAfter(300);
  },

  async finalize({ metadata, spec, status: known }, { progress, signal }) {
    const cloud = connectCloud(signal);
    // The call of a pass that crashed may still arrive: use its key up before the deletion.
    const { current } = progress;
    const pending = current && (await cloud.create(current.id, { name: nameOf(metadata), size: spec.size }));
    for (const id of [known?.machineId, pending?.id]) if (id !== undefined) await cloud.remove(id);
  },
});

/** What Velero does with PersistentVolumes while its phase is Finalizing. */
import { resourcePath, type Resource } from '../../src/kube/object.ts';
import { eventually } from './processes.ts';
import { isRefusal, sayOf, type ToolClient } from './velero-client.ts';
import type { RestoreSpec } from './velero-items.ts';

/** A volume of the backup whose contents are copied into a new PersistentVolume. */
export interface BackedUpVolume {
  readonly claim: { readonly namespace: string; readonly name: string };
  readonly reclaimPolicy: string;
  readonly labels: Readonly<Record<string, string>>;
}

const core = (resource: string, kind: string, namespaced: boolean): Resource => ({
  ...{ group: '', version: 'v1', resource, kind, namespaced },
});
export const CLAIMS = core('persistentvolumeclaims', 'PersistentVolumeClaim', true);
export const VOLUMES = core('persistentvolumes', 'PersistentVolume', false);

/**
 * Waits until the claim is bound to a new volume, and gives the volume the labels and the reclaim policy of the old
 * one. Returns the error that Velero adds to the restore; undefined on success.
 */
export async function patchVolume(
  client: ToolClient,
  { namespaceMapping = {} }: RestoreSpec,
  { claim: { namespace, name }, reclaimPolicy, labels }: BackedUpVolume,
): Promise<string | undefined> {
  const claim = resourcePath(CLAIMS, { namespace: namespaceMapping[namespace] ?? namespace, name });
  const volume = await eventually(`${claim} is bound`, async () => {
    const { body } = await client.send('GET', claim);
    const { spec, status } = body as { spec?: { volumeName?: string }; status?: { phase?: string } };
    return status?.phase === 'Bound' ? spec?.volumeName : undefined;
  });
  const answer = await client.send('PATCH', resourcePath(VOLUMES, { name: volume }), {
    metadata: { labels },
    spec: { persistentVolumeReclaimPolicy: reclaimPolicy },
  });
  return isRefusal(answer)
    ? `error patching dynamic PV ${volume} of PVC ${namespace}/${name}: ${sayOf(answer)}`
    : undefined;
}

/**
 * Velero from the API server's point of view, for suites that stop it between two writes: the same requests in the
 * same order. See pkg/restore/restore.go of Velero. test/velero runs the real one.
 */
import { setTimeout as sleep } from 'node:timers/promises';

import { groupResourceName, type KubeObject } from '../../src/json/kube-object.ts';
import { apiVersionOf, type Resource, resourcePath } from '../../src/kube/object.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import { established, type Cluster } from './cluster.ts';
import type { ControlPlane } from './control-plane.ts';
import {
  backupObject,
  createToolClient,
  isRefusal,
  restoreDefinition,
  restoreLabels,
  RESTORES,
  sayOf,
  stripped,
  VELERO,
  type BackupObject,
  type ToolClient,
} from './velero-client.ts';

export interface RestoreOptions {
  readonly name: string;
  readonly backup: readonly KubeObject[];
  readonly beforeItem?: (written: number) => Promise<unknown>;
}

export type Velero = ReturnType<typeof createVelero>;

const BACKUP = 'b1';
const NAMESPACE = 'velero';
/** The time from InProgress to the first write: the shortest that was measured with Velero 1.18. */
const LEAD_MS = 200;
const PROGRESS_MS = 1_000;
const FINALIZER = 'restores.velero.io/external-resources-finalizer';

/** Installs what `velero install` installs: kind, namespace, and an all-powerful service account. */
export async function installVelero(cluster: Cluster): Promise<void> {
  await cluster.apply(
    restoreDefinition,
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } },
    clusterAdmin('velero-velero', VELERO.user),
  );
  await established(cluster, 'restores.velero.io');
}

export function createVelero(plane: Pick<ControlPlane, 'server' | 'ca' | 'token'>) {
  const client = createToolClient(plane);
  const begin = (options: RestoreOptions) => beginRestore(client, options);
  return {
    /** Creates a Restore that is InProgress; no object is written yet. */
    begin,
    restore: async (options: RestoreOptions) => {
      const run = await begin(options);
      await run.write();
      return await run.finish();
    },
    client,
    stop: client.stop,
  };
}

async function beginRestore(client: ToolClient, { name, backup, beforeItem }: RestoreOptions) {
  const path = resourcePath(RESTORES, { namespace: NAMESPACE, name });
  const patch = async (change: object) => {
    const answer = await client.send('PATCH', path, change);
    // Velero continues if its Restore has been deleted.
    if (isRefusal(answer) && answer.code !== 404) throw new Error(`the Restore ${name}: ${sayOf(answer)}`);
  };
  const created = await client.send('POST', resourcePath(RESTORES, { namespace: NAMESPACE }), {
    apiVersion: apiVersionOf(RESTORES),
    kind: RESTORES.kind,
    metadata: { name, namespace: NAMESPACE },
    spec: { backupName: BACKUP },
  });
  if (isRefusal(created)) throw new Error(`the Restore ${name}: ${sayOf(created)}`);
  await patch({ metadata: { finalizers: [FINALIZER] } });
  await patch({
    spec: { excludedResources: ['nodes', 'events', 'restores.velero.io'], itemOperationTimeout: '4h0m0s' },
    status: { phase: 'InProgress', startTimestamp: now() },
  });
  const mayWrite = performance.now() + LEAD_MS;
  const errors: string[] = [];
  const end = async (phase: string) => {
    await patch({ status: { phase, completionTimestamp: now() } });
    await patch({ metadata: { finalizers: null } });
  };
  return {
    write: async () => {
      await sleep(Math.max(0, mayWrite - performance.now()));
      const items = await inOrder(client, backup.map(backupObject));
      let reported = performance.now();
      for (const [written, item] of items.entries()) {
        if (performance.now() - reported >= PROGRESS_MS) {
          reported = performance.now();
          await patch(progress(written, items.length));
        }
        await beforeItem?.(written);
        errors.push(...(await writeItem(client, name, item)));
      }
      await patch(progress(items.length, items.length));
    },
    finish: async () => {
      const failed = errors.length > 0;
      await patch({
        status: { phase: failed ? 'FinalizingPartiallyFailed' : 'Finalizing', errors: errors.length },
      });
      const phase = failed ? 'PartiallyFailed' : 'Completed';
      await end(phase);
      return { phase, errors };
    },
    fail: () => end('Failed'),
  };
}

const now = (): string => new Date().toISOString().replace(/\.\d+Z$/, 'Z');

const progress = (written: number, total: number) => ({
  status: { progress: { totalItems: total, itemsRestored: written } },
});

interface Item {
  readonly resource: Resource;
  readonly object: BackupObject;
}

/** Discovers the resource of each kind, in alphabetical order, as Velero does. */
async function inOrder(client: ToolClient, objects: readonly BackupObject[]): Promise<readonly Item[]> {
  const items: Item[] = [];
  for (const [key, ofKind] of Map.groupBy(objects, ({ apiVersion, kind }) => `${apiVersion} ${kind}`)) {
    const [apiVersion = '', kind = ''] = key.split(' ');
    const { body } = await client.send('GET', `/apis/${apiVersion}`);
    const resources = body.resources as readonly { name: string; kind: string; namespaced: boolean }[]; // an APIResourceList
    const found = resources.find((one) => one.kind === kind && !one.name.includes('/'));
    if (found === undefined) throw new Error(`${apiVersion} has no ${kind}`);
    const [group = '', version = ''] = apiVersion.split('/');
    const resource = { group, version, resource: found.name, kind, namespaced: found.namespaced };
    items.push(...ofKind.map((object) => ({ resource, object })));
  }
  return items.toSorted((a, b) =>
    groupResourceName(a.resource).localeCompare(groupResourceName(b.resource), 'en'),
  );
}

/** Creates the object, then writes its managedFields. @returns the errors that Velero adds to the restore */
async function writeItem(
  client: ToolClient,
  restore: string,
  { resource, object }: Item,
): Promise<readonly string[]> {
  const { namespace, name, labels, managedFields } = object.metadata;
  const what = `${groupResourceName(resource)}/${namespace === undefined ? '' : `${namespace}/`}${name}`;
  const { metadata, ...rest } = stripped(object);
  const created = await client.send('POST', resourcePath(resource, { namespace }), {
    ...rest,
    metadata: { ...metadata, labels: { ...labels, ...restoreLabels(BACKUP, restore) } },
  });
  if (created.body.reason === 'AlreadyExists') return []; // an answer was lost
  if (isRefusal(created)) return [`error restoring ${what}: ${sayOf(created)}`];
  if (managedFields === undefined) return [];
  const answer = await client.send('PATCH', resourcePath(resource, { namespace, name }), {
    metadata: { managedFields },
  });
  return isRefusal(answer) ? [`error patch for managed fields ${what}: ${sayOf(answer)}`] : [];
}

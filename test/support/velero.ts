/**
 * Velero from the API server's point of view: the same requests, in the same order, by the same identity, with the same
 * outcome. It restores custom resources and Namespaces. Pods, the data of volumes, plugins and the watches of informers
 * are omitted. test/velero runs the real one.
 * @see https://github.com/velero-io/velero/blob/main/pkg/restore/restore.go
 */
import { setTimeout as sleep } from 'node:timers/promises';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { apiVersionOf, type Resource, resourcePath } from '../../src/kube/object.ts';
import { customResourceDefinitions } from '../../src/kube/well-known.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import { established, type Cluster } from './cluster.ts';
import type { ControlPlane } from './control-plane.ts';
import { eventually } from './processes.ts';
import { createSeeded, type Seeded } from './seeded.ts';
import {
  createToolClient,
  isRefusal,
  sayOf,
  VELERO,
  type Identity,
  type ToolClient,
} from './velero-client.ts';
import { createItemWriter, type RestoreSpec } from './velero-items.ts';
import { backupObject, type BackupObject } from './velero-objects.ts';
import { veleroOrder, type Item } from './velero-order.ts';
import { RESTORES, restoreDefinition } from './velero-crd.ts';
import { patchVolume, type BackedUpVolume } from './velero-volumes.ts';

export interface VeleroOptions {
  /** Default: `velero`. */
  readonly namespace?: string;
  readonly identity?: Identity;
  /** Seed for the random order of namespaces. */
  readonly seed?: number;
  /** The time from InProgress to the first write. Default: the shortest that was measured with Velero 1.18, 200 ms. */
  readonly leadMs?: number;
}

export interface RestoreOptions {
  readonly name: string;
  readonly backup: readonly KubeObject[];
  readonly spec?: Partial<RestoreSpec>;
  /** Volumes that are provisioned again during the restore. */
  readonly volumes?: readonly BackedUpVolume[];
  /** Replaces Velero's order. */
  readonly order?: (items: readonly Item[]) => readonly Item[];
  /** Called before each write, with the number of objects written so far. */
  readonly beforeItem?: (written: number, item: Item) => Promise<unknown> | undefined;
}

export interface RestoreResult {
  readonly phase: 'Completed' | 'PartiallyFailed';
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/** A restore that a test runs step by step. */
export interface RestoreRun {
  /** Writes all objects and the progress, while the phase is InProgress. */
  readonly write: () => Promise<void>;
  /** Sets the phase Finalizing, and then the final phase. */
  readonly finish: () => Promise<RestoreResult>;
  /** Sets the phase Failed, as Velero does after a restart. */
  readonly fail: () => Promise<void>;
}

export interface Velero {
  /** Creates a Restore that is InProgress; no object is written yet. */
  readonly begin: (options: RestoreOptions) => Promise<RestoreRun>;
  /** Runs a restore from beginning to end. */
  readonly restore: (options: RestoreOptions) => Promise<RestoreResult>;
  readonly client: ToolClient;
  readonly stop: () => Promise<void>;
}

const LEAD_MS = 200;
const PROGRESS_MS = 1_000;
const FINALIZER = 'restores.velero.io/external-resources-finalizer';

/** Installs what `velero install` installs: the kind, the namespace, and a service account that may do everything. */
export async function installVelero(
  cluster: Cluster,
  { namespace = 'velero', identity = VELERO }: VeleroOptions = {},
): Promise<void> {
  await cluster.apply(
    restoreDefinition,
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
    clusterAdmin(`velero-${namespace}`, identity.user),
  );
  await established(cluster, 'restores.velero.io');
}

export function createVelero(
  plane: Pick<ControlPlane, 'server' | 'ca' | 'token'>,
  { namespace = 'velero', identity = VELERO, seed = 1, leadMs = LEAD_MS }: VeleroOptions = {},
): Velero {
  const client = createToolClient(plane, identity);
  const seeded = createSeeded(seed);
  const begin = (options: RestoreOptions) => beginRestore({ client, namespace, seeded, leadMs }, options);
  return {
    begin,
    restore: async (options) => {
      const run = await begin(options);
      await run.write();
      return await run.finish();
    },
    client,
    stop: client.stop,
  };
}

interface Server {
  readonly client: ToolClient;
  readonly namespace: string;
  readonly seeded: Seeded;
  readonly leadMs: number;
}

async function beginRestore(
  { client, namespace, seeded, leadMs }: Server,
  { name, backup, spec: partial = {}, volumes = [], order, beforeItem = () => undefined }: RestoreOptions,
): Promise<RestoreRun> {
  const spec: RestoreSpec = { backupName: 'b1', ...partial };
  const path = resourcePath(RESTORES, { namespace, name });
  const patch = async (change: object) => {
    const answer = await client.send('PATCH', path, change);
    // Velero continues if its Restore has been deleted.
    if (isRefusal(answer) && answer.code !== 404) throw new Error(`the Restore ${name}: ${sayOf(answer)}`);
  };
  const created = await client.send('POST', resourcePath(RESTORES, { namespace }), {
    apiVersion: apiVersionOf(RESTORES),
    kind: RESTORES.kind,
    metadata: { name, namespace },
    spec,
  });
  if (isRefusal(created)) throw new Error(`the Restore ${name}: ${sayOf(created)}`);
  await patch({ metadata: { finalizers: [FINALIZER] } });
  await patch({
    spec: { excludedResources: ['nodes', 'events', 'restores.velero.io'], itemOperationTimeout: '4h0m0s' },
    status: { phase: 'InProgress', startTimestamp: now() },
  });
  const mayWrite = performance.now() + leadMs;

  const objects = backup.map(backupObject).filter((object) => isIncluded(spec, object));
  const ofKind = (kind: string) => objects.filter((object) => object.kind === kind);
  const writer = createItemWriter({
    client,
    restoreName: name,
    spec,
    namespaces: new Map(ofKind('Namespace').map((object) => [object.metadata.name, object])),
  });
  const end = async (phase: string) => {
    await patch({ status: { phase, completionTimestamp: now() } });
    await patch({ metadata: { finalizers: null } });
  };
  return {
    write: async () => {
      await sleep(Math.max(0, mayWrite - performance.now()));
      for (const object of ofKind('CustomResourceDefinition')) {
        await writer.write({ resource: customResourceDefinitions, object });
        await untilEstablished(client, object.metadata.name);
      }
      for (const { metadata } of ofKind('Namespace').toSorted(byName))
        await writer.writeNamespace(metadata.name);
      const others = objects.filter(
        ({ kind }) => kind !== 'CustomResourceDefinition' && kind !== 'Namespace',
      );
      const items = await withResources(client, others);
      await writer.list(items);
      const ordered = order === undefined ? veleroOrder(items, seeded) : order(items);
      let reported = performance.now();
      for (const [written, item] of ordered.entries()) {
        if (performance.now() - reported >= PROGRESS_MS) {
          reported = performance.now();
          await patch(progress(written, ordered.length));
        }
        await beforeItem(written, item);
        await writer.write(item);
      }
      await patch(progress(ordered.length, ordered.length));
    },
    finish: async () => {
      const { errors, warnings } = writer.tally;
      const failed = errors.length > 0;
      await patch({
        status: {
          phase: failed ? 'FinalizingPartiallyFailed' : 'Finalizing',
          errors: errors.length,
          warnings: warnings.length,
        },
      });
      for (const volume of volumes) {
        const problem = await patchVolume(client, spec, volume);
        if (problem !== undefined) errors.push(problem);
      }
      const phase = errors.length > 0 ? 'PartiallyFailed' : 'Completed';
      await end(phase);
      return { phase, errors, warnings };
    },
    fail: () => end('Failed'),
  };
}

/** RFC 3339 with seconds, as Go formats the times of Kubernetes. */
const now = (): string => new Date().toISOString().replace(/\.\d+Z$/, 'Z');

const progress = (written: number, total: number) => ({
  status: { progress: { totalItems: total, itemsRestored: written } },
});

/** A Restore that selects namespaces excludes other cluster-scoped objects. */
function isIncluded({ includedNamespaces }: RestoreSpec, { kind, metadata }: BackupObject): boolean {
  if (includedNamespaces === undefined) return true;
  const namespace = kind === 'Namespace' ? metadata.name : metadata.namespace;
  return namespace !== undefined && includedNamespaces.includes(namespace);
}

const byName = (a: BackupObject, b: BackupObject): number => (a.metadata.name < b.metadata.name ? -1 : 1);

/** Discovers the resource of each kind. */
async function withResources(client: ToolClient, objects: readonly BackupObject[]): Promise<readonly Item[]> {
  const known = new Map<string, Resource>();
  for (const { apiVersion = '', kind = '' } of objects) {
    if (known.has(`${apiVersion} ${kind}`)) continue;
    const { body } = await client.send(
      'GET',
      apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`,
    );
    const resources = body.resources as readonly { name: string; kind: string; namespaced: boolean }[]; // an APIResourceList
    const found = resources.find((one) => one.kind === kind && !one.name.includes('/'));
    if (found === undefined) throw new Error(`${apiVersion} has no ${kind}`);
    const [version = '', group = ''] = apiVersion.split('/').toReversed();
    known.set(`${apiVersion} ${kind}`, {
      group,
      version,
      resource: found.name,
      kind,
      namespaced: found.namespaced,
    });
  }
  return objects.flatMap((object) => {
    const resource = known.get(`${object.apiVersion ?? ''} ${object.kind ?? ''}`);
    return resource === undefined ? [] : [{ resource, object }];
  });
}

async function untilEstablished(client: ToolClient, name: string): Promise<void> {
  await eventually(`${name} is established`, async () => {
    const { body } = await client.send('GET', resourcePath(customResourceDefinitions, { name }));
    return isEstablished(body.status);
  });
}

function isEstablished(status: unknown): boolean {
  const { conditions = [] } = (status ?? {}) as {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  }; // the status of a CustomResourceDefinition
  return conditions.some((one) => one.type === 'Established' && one.status === 'True');
}

/** An API server in memory with objects that a RestoreWindow pauses. */
import { createHmac } from 'node:crypto';

import type { QuiesceRule } from '../../src/api/quiesce.ts';
import type { RestoreWindow } from '../../src/api/restore-window.ts';
import { setCondition } from '../../src/json/conditions.ts';
import { applyPatch } from '../../src/json/json-patch.ts';
import type { JsonObject, JsonValue } from '../../src/json/json.ts';
import {
  groupResourceName,
  objectKey,
  type GroupResource,
  type KubeObject,
  type ObjectMeta,
} from '../../src/json/kube-object.ts';
import { createCluster } from './runtime/fixtures.ts';
import type { QuiesceWorld } from '../../src/runtime/restores/quiesce/quiesce.ts';

export const DEPLOYMENTS = { group: 'apps', resource: 'deployments' };
export const SCALE: QuiesceRule = {
  apiGroup: 'apps',
  resource: 'deployments',
  matchLabels: { pause: 'yes' },
};

type Stored = KubeObject & { readonly spec?: JsonObject };

export type QuiesceCluster = ReturnType<typeof createQuiesceCluster>;

export const sign = (text: string) => createHmac('sha256', 'key').update(text).digest('base64url');

export function createQuiesceCluster() {
  const { objects } = createCluster();
  const windows = new Map<string, RestoreWindow>();
  let uids = 0;
  const get = (kind: GroupResource, name: string, namespace: string | undefined = 'ops') =>
    objects<Stored>(kind).read(objectKey({ namespace, name }));
  const world: QuiesceWorld = {
    windows: () => [...windows.values()],
    liveWindows: () => Promise.resolve([...windows.values()]),
    rules: () => cluster.rules,
    list: (kind, labels, places) => {
      const found = objects<Stored>(kind)
        .list()
        .filter(
          ({ metadata = {} }) =>
            (places?.includes(metadata.namespace ?? '') ?? true) &&
            Object.entries(labels).every(([key, value]) => metadata.labels?.[key] === value),
        );
      return Promise.resolve(found);
    },
    patch: (ref, operations) => {
      const kind = objects<Stored>(ref);
      const object = kind.read(objectKey(ref));
      const { uid, resourceVersion } = object?.metadata ?? {};
      const fits = operations.every(
        (one) => one.op !== 'test' || one.value === (one.path.endsWith('uid') ? uid : resourceVersion),
      );
      if (object === undefined || !fits)
        return Promise.resolve({ kind: 'changed', message: 'it has changed' });
      const edits = operations.flatMap((one) => (one.op === 'test' ? [] : [one]));
      kind.add(applyPatch(object as JsonObject, edits as never));
      const patched = kind.read(objectKey(ref)) ?? object;
      const isPaused = patched.metadata?.annotations?.['gatehouse.dev/quiesced'] !== undefined;
      cluster.writes.push(`${isPaused ? 'pause' : 'undo'} ${ref.name}`);
      return Promise.resolve({ kind: 'patched', object: patched });
    },
    sign: () => Promise.resolve(sign),
    report: (window, update) => {
      const live = windows.get(window.metadata.name ?? '');
      if (live === undefined) return Promise.resolve();
      const conditions = [...setCondition(live.status?.conditions ?? [], update, cluster.time)];
      windows.set(live.metadata.name ?? '', { ...live, status: { ...live.status, conditions } });
      return Promise.resolve();
    },
    settleMs: () => 65_000,
    ownNamespace: 'gatehouse-system',
    now: () => cluster.time,
    permissionsFor: (kinds) => `grant ${kinds.map(groupResourceName).join(', ')}`,
  };
  const cluster = {
    world,
    windows,
    writes: [] as string[],
    put: (kind: GroupResource, metadata: ObjectMeta, spec: JsonObject) => {
      uids += 1;
      objects<Stored>(kind).add({ metadata: { namespace: 'ops', uid: `uid-${uids}`, ...metadata }, spec });
    },
    get,
    set: (kind: GroupResource, name: string, field: string, value: JsonValue) => {
      const object = get(kind, name);
      if (object !== undefined)
        objects<Stored>(kind).add({ ...object, spec: { ...object.spec, [field]: value } });
    },
    rules: [] as readonly QuiesceRule[],
    time: new Date('2026-11-21T12:00:00Z'),
  };
  return cluster;
}

export function openWindow(
  cluster: QuiesceCluster,
  name: string,
  rules: readonly QuiesceRule[] = [SCALE],
  spec: Partial<RestoreWindow['spec']> = {},
): void {
  cluster.windows.set(name, {
    metadata: { name, creationTimestamp: '2026-11-21T11:59:00Z' },
    spec: {
      principals: [{ user: 'velero' }],
      expiresAt: '2026-11-21T18:00:00Z',
      quiesce: [...rules],
      ...spec,
    },
    status: { phase: 'Open', openedAt: '2026-11-21T12:00:00Z' },
  });
}

export function closeWindow(
  cluster: QuiesceCluster,
  name: string,
  lastSweep?: NonNullable<RestoreWindow['status']>['lastSweep'],
): void {
  const window = cluster.windows.get(name);
  if (window === undefined) return;
  const closedAt = cluster.time.toISOString();
  const status = { ...window.status, phase: 'Settling' as const, closedAt, ...(lastSweep && { lastSweep }) };
  cluster.windows.set(name, { ...window, status });
}

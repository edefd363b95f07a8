/** On the leader: pauses what open RestoreWindows name, and undoes it after their final sweep. */
import { createHmac } from 'node:crypto';

import type { RestoreWindow } from '../../../api/restore-window.ts';
import { type KubeObject, groupResourceName, type GroupResource } from '../../../json/kube-object.ts';
import { secrets } from '../../../kube/well-known.ts';
import type { Sign } from '../../../restore/quiesce/plan.ts';
import type { Secret } from '../../../pki/serving-certs/secret.ts';
import {
  AWAIT_CHANGE,
  requeueIn,
  startController,
  type LeaderContext,
  type Reconcile,
} from '../../controller.ts';
import { listIn } from '../../namespaces.ts';
import { served } from '../../policies/world.ts';
import { READS_SECRET } from '../../policies/read-records.ts';
import { createPatch } from '../relink-owners.ts';
import { updateStatus } from '../window-status.ts';
import { quiescePass, type QuiesceWorld } from './quiesce-pass.ts';
import type { RestoreKinds } from '../restore-kinds.ts';

/** While a window is open: objects may be created, restored or changed. In milliseconds. */
const OPEN_MS = 2_000;
/** After a failure, in milliseconds. */
const RETRY_MS = 1_000;
/** While no window is open: a paused object may come from a backup. In milliseconds. */
const IDLE_MS = 10 * 60_000;

const FIELD_MANAGER = 'gatehouse-quiesce';

function createQuiesceReconciler(world: QuiesceWorld): Reconcile {
  return async (_key, signal) => {
    switch (await quiescePass(world, signal)) {
      case 'open':
        return requeueIn(OPEN_MS, world.now());
      case 'failed':
        return requeueIn(RETRY_MS, world.now());
      case 'idle':
        return world.rules().length === 0 ? AWAIT_CHANGE : requeueIn(IDLE_MS, world.now());
    }
  };
}

export function startQuiesce(
  context: LeaderContext,
  { windows, detectors }: RestoreKinds,
  settleMs: (window: RestoreWindow) => number,
  signal: AbortSignal,
) {
  const { client, discovery, config, serverClock, namespaces } = context;
  const now = serverClock.now;
  const defaultUser = `system:serviceaccount:${config.namespace}:gatehouse-controllers`;
  const world: QuiesceWorld = {
    windows: windows.store.list,
    rules: () => detectors.store.list().flatMap(({ spec }) => spec.quiesce ?? []),
    list: async (kind, labels, places, stop) => {
      const resource = await served(discovery, kind, stop);
      const labelSelector = Object.entries(labels)
        .map(([key, value]) => `${key}=${value}`)
        .join(',');
      const covered = places?.filter((one) => namespaces?.includes(one) ?? true) ?? namespaces;
      return await listIn<KubeObject>(client, resource, covered, { labelSelector, signal: stop });
    },
    patch: createPatch(client, discovery, FIELD_MANAGER),
    sign: async (stop) => await signWith(client, config.namespace, stop),
    report: async (window, update, stop) => {
      // `Ready` repeats the message of this condition.
      const verified = window.status?.conditions?.find(({ type }) => type === 'IntegrityVerified');
      const updates = verified === undefined ? [update] : [update, verified];
      await updateStatus(window, {}, updates, { client, now }, stop);
    },
    settleMs,
    ownNamespace: config.namespace,
    now,
    permissionsFor: (kinds) => permissionsFor(kinds, user ?? defaultUser),
  };
  let user: string | undefined;
  const pass = createQuiesceReconciler(world);
  const reconcile: Reconcile = async (key, stop) => {
    user ??= await context.userName(stop);
    return await pass(key, stop);
  };
  const on = [windows.onChange, detectors.onChange];
  return startController(context, { name: 'restore-quiesce', key: 'all', on, reconcile }, signal);
}

/** @throws while the Secret with the key does not exist */
async function signWith(
  client: Pick<LeaderContext['client'], 'get'>,
  namespace: string,
  signal: AbortSignal,
): Promise<Sign> {
  const found = await client.get<Secret>(secrets, { namespace, name: READS_SECRET }, { signal });
  const key = found?.data?.key;
  if (key === undefined)
    throw new Error(`Secret ${READS_SECRET} has no key yet: nothing is paused or undone`);
  const bytes = Buffer.from(key, 'base64');
  return (text) => createHmac('sha256', bytes).update(`quiesce\n${text}`).digest('base64url');
}

/** For the account of the leader only: the webhook replicas pause nothing. @param user the name of that account */
export function permissionsFor(kinds: readonly GroupResource[], user: string): string {
  const rules = kinds.flatMap(({ group, resource }) => [
    `  - apiGroups: [${JSON.stringify(group)}]`,
    `    resources: [${resource}]`,
    '    verbs: [list, patch]',
    // The backstop (deploy/components/backstop) lets Gatehouse pause only these workloads.
    '  - apiGroups: [gatehouse.dev]',
    '    resources: [quiescedkinds]',
    `    resourceNames: [${groupResourceName({ group, resource })}]`,
    '    verbs: [pause]',
  ]);
  const [, namespace, name] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(user) ?? [];
  const subject =
    namespace === undefined || name === undefined
      ? `{ kind: User, apiGroup: rbac.authorization.k8s.io, name: ${JSON.stringify(user)} }`
      : `{ kind: ServiceAccount, namespace: ${namespace}, name: ${name} }`;
  return [
    `Gatehouse may not list, patch and pause ${kinds.map(groupResourceName).join(', ')}. Apply:`,
    'apiVersion: rbac.authorization.k8s.io/v1',
    'kind: ClusterRole',
    'metadata: { name: gatehouse-quiesce }',
    'rules:',
    ...rules,
    '---',
    'apiVersion: rbac.authorization.k8s.io/v1',
    'kind: ClusterRoleBinding',
    'metadata: { name: gatehouse-quiesce }',
    'roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gatehouse-quiesce }',
    `subjects: [${subject}]`,
  ].join('\n');
}

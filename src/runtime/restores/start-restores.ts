/** Leader: restore windows and the sweep after them. */
import { setTimeout as sleep } from 'node:timers/promises';

import { type RecordEvent, startController } from '../controller.ts';
import { createRestoreWindowsReconciler } from './restore-windows.ts';
import { createSweep } from './sweep.ts';
import { keyOf, objectKey, type GroupResource } from '../../json/kube-object.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { KubeClient } from '../../kube/client.ts';
import { setCondition } from '../../kube/conditions.ts';
import type { Context } from '../context.ts';
import { startDetection } from './start-detectors.ts';
import type { ReplicaParts } from '../webhook-process.ts';
import { createRelinkOwners } from './relink-owners.ts';
import { createWriteReports } from './restore-reports.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import { storedObjects } from '../policies/stored-objects.ts';
import { traceSweeps } from './shared-sweep.ts';

/** How often an unclean report is looked at again when no watch says that something changed, in milliseconds. */
const RECHECK_MS = 60_000;
/** Between the two looks at what seems wrong. */
const SECOND_LOOK_MS = 1_000;
/** A sweep reads everything that is governed: 100,000 objects take a minute or two. */
const SWEEP_MS = 10 * 60_000;

export function startRestores(
  context: Context & { readonly client: KubeClient },
  replica: ReplicaParts,
  record: RecordEvent,
  signal: AbortSignal,
): { readonly stopped: Promise<unknown> } {
  const { client, log, config, serverClock } = context;
  const { registry, targets, windows, detectors, world, onWindowChange } = replica;
  const detection = startDetection(context, replica, record, signal);
  const stored = storedObjects(context);
  const changed = new Set<string>();
  const controller = startController(
    context,
    {
      name: 'restore-windows',
      timeoutMs: SWEEP_MS,
      reconcile: createRestoreWindowsReconciler({
        window: (name) => windows.store.get(name),
        source: detection.source,
        takeChanged: (name) => changed.delete(name),
        sweep: traceSweeps(
          context.tracing,
          createSweep({
            ...stored,
            policies: registry.inForce,
            world,
            pause: (waiting) => sleep(SECOND_LOOK_MS, undefined, { signal: waiting }),
            now: () => serverClock.now(),
          }),
        ),
        count: stored.count,
        relink: createRelinkOwners({
          ...{ client, world, discovery: context.discovery, policies: registry.inForce },
          windows: windows.store.list,
          detectors: detectors.store.list,
          settleMs: config.restoreSettleMs,
        }),
        setCondition,
        writeStatus: (window, status, waiting) =>
          client.replaceStatus(RESTORE_WINDOWS, { ...window, status }, { signal: waiting }),
        writeReports: createWriteReports(client),
        record,
        timesOf: (window) => ({
          settleMs: detection.times(window)?.settleMs ?? config.restoreSettleMs,
          recheckMs: RECHECK_MS,
        }),
        now: () => serverClock.now(),
        log,
      }),
    },
    signal,
  );

  onWindowChange(controller.add, signal);
  for (const window of windows.store.list()) controller.add(keyOf(window));
  targets.onChange((target, key) => {
    for (const window of windows.store.list()) {
      if (!isWaitingFor(window, target, key)) continue;
      changed.add(keyOf(window));
      controller.add(keyOf(window));
    }
  }, signal);
  detection.onSourceChange(() => {
    for (const window of windows.store.list())
      if (window.status?.closedAt === undefined) controller.add(keyOf(window));
  }, signal);
  return { stopped: Promise.all([controller.stopped, detection.stopped]) };
}

/** Whether the report of a window would change with this target. Beyond the listed violations one cannot know. */
function isWaitingFor({ status }: RestoreWindow, target: GroupResource, key: string): boolean {
  const { total = 0, items = [] } = status?.violations ?? {};
  if (total === 0) return false;
  return (
    total > items.length ||
    items.some(
      ({ target: missing }) =>
        missing?.resource === target.resource &&
        (missing.group ?? '') === target.group &&
        objectKey(missing) === key,
    )
  );
}

/** Completes a RestoreWindow before the API server stores it. */
import { EXCLUDE_FROM_BACKUP_LABEL } from '../api/group.ts';
import type { RestoreWindow, RestoreWindowSpec } from '../api/restore-window.ts';
import { toTimestamp, type KubeObject } from '../json/kube-object.ts';
import { OPENED_BY, OPENER_SCOPE } from './opener.ts';
import { isHeld, MAX_WINDOW_MS, withHold } from './window.ts';
import type { OwnKindRequest } from './window-admission.ts';

/**
 * Sets the end of the window, the finalizer, the label that excludes it from backups, and what its opener may open.
 *
 * @param mayOpenAll whether this user may open windows for the whole cluster
 * @returns the same object if nothing changes
 */
export function completeWindow(
  { operation, user, object, oldObject }: OwnKindRequest,
  now: Date,
  mayOpenAll: boolean,
): KubeObject | undefined {
  if (object === undefined) return undefined;
  const isNew = operation === 'CREATE';
  const opener = { [OPENED_BY]: user.username, ...(mayOpenAll ? { [OPENER_SCOPE]: 'Cluster' } : {}) };
  const record: Readonly<Record<string, string>> = isNew ? opener : (oldObject?.metadata?.annotations ?? {});
  const completed = isNew ? held(withEnd(object, now)) : object;
  const { labels, annotations } = completed.metadata ?? {};
  const isRecorded = RECORDS.every((key) => annotations?.[key] === record[key]);
  if (labels?.[EXCLUDE_FROM_BACKUP_LABEL] === 'true' && isRecorded) return completed;
  const others = Object.entries(annotations ?? {}).filter(([key]) => !RECORDS.includes(key));
  const kept = Object.entries(record).filter(([key]) => RECORDS.includes(key));
  return {
    ...completed,
    metadata: {
      ...completed.metadata,
      labels: { ...labels, [EXCLUDE_FROM_BACKUP_LABEL]: 'true' },
      annotations: Object.fromEntries([...others, ...kept]),
    },
  };
}

const RECORDS = [OPENED_BY, OPENER_SCOPE];

function held(object: KubeObject): KubeObject {
  const window = { ...object, metadata: object.metadata ?? {} } as RestoreWindow; // only its metadata is used
  return isHeld(window) ? object : withHold(window, true);
}

/** How long a window without `expiresAt` lasts, in milliseconds. */
const DEFAULT_WINDOW_MS = 2 * 3_600_000;

function withEnd(object: KubeObject, now: Date): KubeObject {
  const { spec } = object as { readonly spec?: Partial<RestoreWindowSpec> | null }; // not yet validated
  if (typeof spec !== 'object' || spec === null) return object;
  const { expiresAt } = spec;
  const latest = now.getTime() + MAX_WINDOW_MS;
  const end =
    expiresAt === undefined ? now.getTime() + DEFAULT_WINDOW_MS : Math.min(latest, Date.parse(expiresAt));
  if (Number.isNaN(end) || (expiresAt !== undefined && end === Date.parse(expiresAt))) return object;
  const window = { ...object, spec: { ...spec, expiresAt: toTimestamp(new Date(end)) } };
  return window;
}

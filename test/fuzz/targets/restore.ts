/** Inputs of backup tools and users for restores. */
import fc from 'fast-check';

import { parseOwnerRecord, encodeOwnerRecord } from '../../../src/api/owner-record.ts';
import { restoreDetectorSchema, type RestoreDetector } from '../../../src/api/restore-detector.ts';
import { restoreWindowSchema, type RestoreWindow } from '../../../src/api/restore-window.ts';
import { isEqual, type JsonObject } from '../../../src/json/json.ts';
import { detectorProblems, readSource, timesOf } from '../../../src/restore/detector.ts';
import { planWindow } from '../../../src/restore/window-plan.ts';
import { MAX_WINDOW_MS, openWindowsFor, windowProblems, windowState } from '../../../src/restore/window.ts';
import type { Schema } from '../../../src/machinery/schema/schema.ts';
import { mutatedObject, mutatedText } from '../mutated.ts';
import { veleroDetector, veleroRestore } from '../../support/velero-detector.ts';
import { fuzzTarget, hold, storedAs } from '../target.ts';

const NOW = new Date('2026-11-22T12:00:00Z');
const METADATA = { name: 'nightly', uid: 'u', creationTimestamp: '2026-11-22T10:00:00Z' };

const DETECTOR = {
  metadata: METADATA,
  spec: veleroDetector({ window: { maxDuration: '6h', settle: '1m', idle: '30s' } }).spec,
} as unknown as JsonObject; // it is JSON
const RESTORE = veleroRestore(
  'u',
  { phase: 'InProgress', startTimestamp: '2026-11-22T11:00:00Z', progress: { done: 3, total: 4 } },
  { namespaceMapping: { a: 'b' } },
) as unknown as JsonObject;

const WINDOW: JsonObject = {
  metadata: METADATA,
  spec: {
    principals: [{ user: 'alice' }, { group: 'restorers' }],
    match: {
      operations: ['CREATE'],
      resources: [{ apiGroup: '*', resource: 'servers' }],
      namespaces: { exclude: ['x'] },
    },
    expiresAt: '2026-11-22T13:00:00Z',
    reason: 'a drill',
  },
  status: { openedAt: '2026-11-22T10:00:01Z' },
};

const ANY: Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
const withMetadata = <T extends { readonly properties: object }>(schema: T) => ({
  ...schema,
  properties: { ...schema.properties, metadata: ANY },
});

const detections = fc.tuple(mutatedObject([DETECTOR]), mutatedObject([RESTORE]));

/** A detector reads only strings and times, for any object of the backup tool. */
export const detectors = fuzzTarget('restore detector', 15, detections, ([input, object]) => {
  const stored = storedAs({ ...input, metadata: METADATA }, withMetadata(restoreDetectorSchema));
  if (stored === undefined) return;
  const detector = stored as unknown as RestoreDetector; // storedAs has checked it
  const problems = detectorProblems(detector);
  hold(
    problems.every((problem) => problem.startsWith('spec.')),
    `a problem without a place: ${problems.join()}`,
  );
  const source = readSource(detector, object);
  hold(
    [source.name, source.uid, source.phase].every((text) => typeof text === 'string'),
    'a value is not a string',
  );
  hold(
    Object.values(source.namespaceMapping).every((name) => typeof name === 'string'),
    'a name is not a string',
  );
  if (problems.length > 0) return;
  const { maxDurationMs } = timesOf(detector);
  hold(maxDurationMs <= MAX_WINDOW_MS, `a window of ${maxDurationMs} ms`);
});

const requester = { username: 'alice', groups: ['system:authenticated'] };
const place = { group: 'infra.example.com', resource: 'servers', namespace: 'store' };

/** A window is open for a day at most, and only for the principals that it names. */
export const windows = fuzzTarget('restore window', 20, mutatedObject([WINDOW]), (input) => {
  const stored = storedAs({ ...input, metadata: METADATA }, withMetadata(restoreWindowSchema));
  if (stored === undefined) return;
  const window = stored as unknown as RestoreWindow; // storedAs has checked it
  const state = windowState(window, NOW);
  const created = Date.parse(METADATA.creationTimestamp);
  if (state.kind === 'open') {
    hold(state.until.getTime() <= created + MAX_WINDOW_MS, `open until ${state.until.toISOString()}`);
    hold(state.until > NOW, 'the window is open and expired');
  }
  const problems = windowProblems(window);
  const open = openWindowsFor([window], requester, place, NOW);
  const isNamed = window.spec.principals.some(
    ({ user, group }) =>
      user === requester.username || (group !== undefined && requester.groups.includes(group)),
  );
  if (open.length > 0) {
    hold(
      state.kind === 'open' && problems.length === 0 && isNamed,
      'the window is open for another principal',
    );
  }
  const plan = planWindow(window, NOW, { changed: true }, { settleMs: 60_000, recheckMs: 60_000 });
  for (const time of Object.values(plan)) {
    hold(!(time instanceof Date) || !Number.isNaN(time.getTime()), `${plan.kind} at a time that is none`);
  }
});

const RECORDS = [
  encodeOwnerRecord({
    self: 'web-*',
    refs: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'a', uid: 'u', controller: true }],
  }) ?? '',
];

/** Any user can write the annotation that preserves owner references. */
export const ownerRecords = fuzzTarget('owner record', 20, mutatedText(RECORDS), (text) => {
  const record = parseOwnerRecord(text);
  if (record === undefined) return;
  const again = encodeOwnerRecord(record);
  if (again === undefined) return;
  const read: unknown = parseOwnerRecord(again);
  hold(isEqual(read, record), () => `it is read again as ${JSON.stringify(read)}`);
});

/** Inputs of backup tools and users for restores. */
import fc from 'fast-check';

import { parseOwnerRecord, encodeOwnerRecord } from '../../../src/api/owner-record.ts';
import { restoreDetectorSchema, type RestoreDetector } from '../../../src/api/restore-detector.ts';
import { restoreWindowSchema, type RestoreWindow } from '../../../src/api/restore-window.ts';
import { isEqual, isJsonObject, type JsonObject } from '../../../src/json/json.ts';
import { detectorProblems, readSource, timesOf } from '../../../src/restore/detector.ts';
import { planWindow } from '../../../src/restore/window-plan.ts';
import { MAX_WINDOW_MS, openWindowsFor, windowProblems, windowState } from '../../../src/restore/window.ts';
import { prune } from '../../../src/machinery/schema/prune.ts';
import type { Schema } from '../../../src/machinery/schema/schema.ts';
import { validateSchema } from '../../../src/machinery/schema/validate.ts';
import { mutatedObject, mutatedText } from '../mutated.ts';
import { fuzzTarget, hold } from '../target.ts';

const NOW = new Date('2026-11-22T12:00:00Z');
const METADATA = { name: 'nightly', uid: 'u', creationTimestamp: '2026-11-22T10:00:00Z' };

const DETECTOR: JsonObject = {
  metadata: METADATA,
  spec: {
    watch: { apiGroup: 'velero.io', version: 'v1', resource: 'restores' },
    namespaces: ['velero'],
    phasePath: 'status.phase',
    startPath: 'status.startTimestamp',
    activeValues: ['InProgress'],
    settlingValues: ['Finalizing'],
    terminalValues: ['Completed'],
    progress: { donePath: 'status.progress.done', totalPath: 'status.progress["total"]' },
    namespaceMappingPath: 'spec.namespaceMapping',
    principals: [{ group: 'system:serviceaccounts:velero' }],
    window: { maxDuration: '6h', settle: '1m', idle: '30s' },
  },
};

const RESTORE: JsonObject = {
  apiVersion: 'velero.io/v1',
  kind: 'Restore',
  metadata: { ...METADATA, namespace: 'velero' },
  spec: { namespaceMapping: { a: 'b' } },
  status: { phase: 'InProgress', startTimestamp: '2026-11-22T11:00:00Z', progress: { done: 3, total: 4 } },
};

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

/** The object that the API server would store; undefined if it would reject the object. */
function storedAs(object: JsonObject, schema: unknown): JsonObject | undefined {
  const structural = schema as Schema; // a TypeBox schema is structural, because the CRD is made from it
  const { value } = prune(
    { ...object, metadata: METADATA },
    { ...structural, properties: { ...structural.properties, metadata: ANY } },
  );
  return isJsonObject(value) && validateSchema(value, structural).length === 0 ? value : undefined;
}

const ANY: Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };

/** A detector reads only strings and times, for any object of the backup tool. */
export const detectors = fuzzTarget(
  'restore detector',
  15,
  fc.tuple(mutatedObject([DETECTOR]), mutatedObject([RESTORE])),
  ([input, object]) => {
    const stored = storedAs(input, restoreDetectorSchema);
    if (stored === undefined) return;
    const detector = stored as unknown as RestoreDetector; // validateSchema has checked it
    const problems = detectorProblems(detector);
    hold(
      problems.every((problem) => problem.startsWith('spec.')),
      () => `a problem without a place: ${problems.join()}`,
    );
    const source = readSource(detector, object);
    hold(
      [source.name, source.uid, source.phase].every((text) => typeof text === 'string'),
      () => 'a value is not a string',
    );
    hold(
      Object.values(source.namespaceMapping).every((name) => typeof name === 'string'),
      () => 'a name is not a string',
    );
    if (problems.length > 0) return;
    const { maxDurationMs } = timesOf(detector);
    hold(maxDurationMs <= MAX_WINDOW_MS, () => `a window of ${maxDurationMs} ms`);
  },
);

const requester = { username: 'alice', groups: ['system:authenticated'] };
const place = { group: 'infra.example.com', resource: 'servers', namespace: 'store' };

/** A window is open for a day at most, and only for the principals that it names. */
export const windows = fuzzTarget('restore window', 20, mutatedObject([WINDOW]), (input) => {
  const stored = storedAs(input, restoreWindowSchema);
  if (stored === undefined) return;
  const window = stored as unknown as RestoreWindow; // validateSchema has checked it
  const state = windowState(window, NOW);
  const created = Date.parse(METADATA.creationTimestamp);
  if (state.kind === 'open') {
    hold(state.until.getTime() <= created + MAX_WINDOW_MS, () => `open until ${state.until.toISOString()}`);
    hold(state.until > NOW, () => 'the window is open and expired');
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
      () => 'the window is open for another principal',
    );
  }
  const plan = planWindow(window, NOW, { changed: true }, { settleMs: 60_000, recheckMs: 60_000 });
  for (const time of Object.values(plan)) {
    hold(
      !(time instanceof Date) || !Number.isNaN(time.getTime()),
      () => `${plan.kind} at a time that is none`,
    );
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

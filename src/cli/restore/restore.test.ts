import { expect, test } from 'vitest';

import { ApiError } from '../../kube/api-error.ts';
import type { RestoreWindow, RestoreWindowStatus } from '../../api/restore-window.ts';
import { describeClosing, exitCodeOf, hintFor, isFinal } from './restore.ts';

const WINDOWS = '/apis/gatehouse.dev/v1alpha1/restorewindows';

function refusal(method: string, path: string, code: number, reason: string, message: string): Error {
  const cause = new ApiError({ method, path }, { code, status: { reason, message } });
  return new Error('could not open RestoreWindow "drill"', { cause });
}

const POLICIES = '/apis/gatehouse.dev/v1alpha1/admissionpolicies';
const DOWN = 'failed calling webhook "own-opening.validate.gatehouse.dev"';

test.each([
  ['ask for the verb "create" on restorewindows.gatehouse.dev', 'POST', WINDOWS, 403, 'Forbidden', 'no'],
  ['the verb "get" and "list" on admissionpolicies.gatehouse.dev', 'GET', POLICIES, 403, 'Forbidden', 'no'],
  ['Gatehouse does not respond', 'POST', WINDOWS, 500, 'InternalError', DOWN],
  ['another name', 'POST', WINDOWS, 409, 'AlreadyExists', '"drill" already exists'],
  ['install Gatehouse', 'GET', WINDOWS, 404, '', ''],
] as const)('the hint says what to do: %s', (hint, method, path, code, reason, message) => {
  expect(hintFor(refusal(method, path, code, reason, message))).toContain(hint);
});

test('a refusal by Gatehouse is shown without a hint: its message is sufficient', () => {
  const message = 'admission webhook "…" denied the request: ask for the verb "open"';
  expect(hintFor(refusal('POST', WINDOWS, 403, 'Forbidden', message))).toBeUndefined();
  expect(hintFor(new Error('no cluster'))).toBeUndefined();
});

const window = (
  status: RestoreWindowStatus = {},
  spec: Partial<RestoreWindow['spec']> = {},
): RestoreWindow => ({
  metadata: { name: 'drill' },
  spec: { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T12:00:00Z', ...spec },
  status,
});

test('close reports whether the window was open', () => {
  expect(describeClosing(window())).toContain('is closed: all checks are enforced again');
  expect(describeClosing(window({}, { close: true }))).toContain('is already closing');
  expect(describeClosing(window({ closedAt: '2026-11-21T11:00:00Z', closeReason: 'Expired' }))).toBe(
    'RestoreWindow "drill" was closed at 2026-11-21T11:00:00Z (Expired).',
  );
});

const sweep = (interim: boolean): RestoreWindowStatus => ({
  lastSweep: { startedAt: '', finishedAt: '', objectsScanned: 0, interim },
});

test('a report is final after the final sweep', () => {
  expect(isFinal(window())).toBe(false);
  expect(isFinal(window({ ...sweep(true), phase: 'Settling' }))).toBe(false);
  expect(isFinal(window({ ...sweep(true), phase: 'Completed' }))).toBe(false);
  expect(isFinal(window({ ...sweep(false), phase: 'CompletedWithViolations' }))).toBe(true);
});

test.each<[0 | 1 | 2, string, RestoreWindowStatus]>([
  [0, 'a clean report', { phase: 'Completed', violations: { total: 0, items: [] } }],
  [1, 'a violation', { phase: 'CompletedWithViolations', violations: { total: 1, items: [] } }],
  [
    1,
    'an owner that was not linked',
    { phase: 'CompletedWithViolations', violations: { total: 0, items: [] } },
  ],
  [2, 'a sweep that could not read', { phase: 'CompletedWithViolations', violations: { items: [] } }],
])('exit code %i: %s', (code, _what, status) => {
  expect(exitCodeOf(window(status))).toBe(code);
});

import { expect, test } from 'vitest';

import { ApiError } from '../../../kube/api-error.ts';
import { windowProblems } from '../../../restore/window.ts';
import { probeResult, resultOf, probeWindow } from './probe.ts';

const refused = (code: number, message: string) =>
  probeResult(new ApiError({ method: 'POST', path: '/apis/x' }, { code, status: { message } }));

test('a denial by Gatehouse shows that it is reached; a denial by another webhook shows nothing', () => {
  const denied = (webhook: string) => refused(403, `admission webhook "${webhook}" denied the request: no`);
  expect(denied('own-opening.mutate.gatehouse.dev')).toEqual({ kind: 'read', value: { kind: 'reached' } });
  expect(denied('kyverno.svc')).toMatchObject({ kind: 'unread', reason: 'Failed' });
});

test('a failed call keeps the message of the API server', () => {
  const message = 'failed calling webhook "own-opening.mutate.gatehouse.dev": EOF';
  expect(refused(500, `Internal error occurred: ${message}`)).toEqual({
    kind: 'read',
    value: { kind: 'unreachable', message },
  });
  expect(refused(500, 'failed calling webhook "kyverno.svc": EOF')).toMatchObject({
    kind: 'unread',
    reason: 'Failed',
  });
});

test('a missing permission is distinguished', () => {
  expect(refused(403, 'restorewindows is forbidden')).toMatchObject({
    kind: 'unread',
    reason: 'Forbidden',
    permission: { verb: 'create', resource: 'restorewindows.gatehouse.dev' },
  });
});

test('the window is valid, and the annotation of Gatehouse shows that it was called', () => {
  const window = probeWindow('gatehouse-system', new Date('2026-11-22T12:00:00Z'));
  expect(windowProblems(window)).toEqual([]);
  expect(resultOf(window)).toEqual({ kind: 'not-called' });
  const annotations = { 'gatehouse.dev/opened-by': 'admin' };
  expect(resultOf({ ...window, metadata: { ...window.metadata, annotations } })).toEqual({
    kind: 'reached',
  });
});

import { expect, test } from 'vitest';

import { ApiError } from '../../../kube/api-error.ts';
import { windowProblems } from '../../../restore/window.ts';
import { answerFrom, answerOf, probeWindow } from './probe.ts';

const refused = (code: number, message: string) =>
  answerFrom(new ApiError({ method: 'POST', path: '/apis/x' }, { code, status: { message } }));

test('a refusal by Gatehouse is an answer, one by anybody else says nothing', () => {
  const denied = (webhook: string) => refused(403, `admission webhook "${webhook}" denied the request: no`);
  expect(denied('own-opening.mutate.gatehouse.dev')).toEqual({ kind: 'seen', value: { kind: 'answered' } });
  expect(denied('kyverno.svc')).toMatchObject({ kind: 'failed' });
});

test('a call that fails is told in the words of the API server', () => {
  const message = 'failed calling webhook "own-opening.mutate.gatehouse.dev": EOF';
  expect(refused(500, `Internal error occurred: ${message}`)).toEqual({
    kind: 'seen',
    value: { kind: 'unanswered', message },
  });
  expect(refused(500, 'failed calling webhook "kyverno.svc": EOF')).toMatchObject({ kind: 'failed' });
});

test('a missing permission is told apart', () => {
  expect(refused(403, 'restorewindows is forbidden')).toEqual({
    kind: 'forbidden',
    permission: { verb: 'create', resource: 'restorewindows.gatehouse.dev' },
  });
});

test('the window is one that Gatehouse takes, and it is marked by who opens it', () => {
  const window = probeWindow('gatehouse-system', new Date('2026-11-22T12:00:00Z'));
  expect(windowProblems(window)).toEqual([]);
  expect(answerOf(window)).toEqual({ kind: 'not-asked' });
  const annotations = { 'gatehouse.dev/opened-by': 'admin' };
  expect(answerOf({ ...window, metadata: { ...window.metadata, annotations } })).toEqual({
    kind: 'answered',
  });
});

import { expect, test } from 'vitest';

import { ApiError } from '../../kube/api-error.ts';
import { hintFor } from './restore.ts';

const WINDOWS = '/apis/gatehouse.dev/v1alpha1/restorewindows';

function refusal(method: string, path: string, code: number, reason: string, message: string): Error {
  const cause = new ApiError({ method, path }, { code, status: { reason, message } });
  return new Error('could not open RestoreWindow "drill"', { cause });
}

test.each([
  [
    'RBAC refuses',
    refusal('POST', WINDOWS, 403, 'Forbidden', 'User "bob" cannot create resource "restorewindows"'),
    'ask for the verb "create" on restorewindows.gatehouse.dev',
  ],
  [
    'RBAC refuses to list policies',
    refusal(
      'GET',
      '/apis/gatehouse.dev/v1alpha1/admissionpolicies',
      403,
      'Forbidden',
      'User "bob" cannot list',
    ),
    'ask for the verb "get" and "list" on admissionpolicies.gatehouse.dev',
  ],
  [
    'Gatehouse is down',
    refusal(
      'POST',
      WINDOWS,
      500,
      'InternalError',
      'failed calling webhook "own-opening.validate.gatehouse.dev"',
    ),
    'Gatehouse does not respond',
  ],
  [
    'the name is taken',
    refusal('POST', WINDOWS, 409, 'AlreadyExists', '"drill" already exists'),
    'another name',
  ],
  ['Gatehouse is not installed', refusal('GET', WINDOWS, 404, '', ''), 'install Gatehouse'],
])('when %s, the hint says what to do', (_when, error, hint) => {
  expect(hintFor(error)).toContain(hint);
});

test('a refusal by Gatehouse gets no hint: its message says what to do', () => {
  const message = 'admission webhook "…" denied the request: ask for the verb "open"';
  expect(hintFor(refusal('POST', WINDOWS, 403, 'Forbidden', message))).toBeUndefined();
  expect(hintFor(new Error('no cluster'))).toBeUndefined();
});

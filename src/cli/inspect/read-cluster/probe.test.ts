import { expect, test } from 'vitest';

import { ApiError } from '../../../kube/api-error.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { windowProblems } from '../../../restore/window.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { probeWebhook } from './probe.ts';

/** Probes an API server that answers so to the dry run of a window. */
const probed = (answer: (window: RestoreWindow) => RestoreWindow) => {
  const create = (_resource: unknown, window: RestoreWindow) => Promise.resolve(window).then(answer);
  const client = { create: create as unknown as KubeClient['create'] };
  return probeWebhook(client, 'gatehouse-system', new Date('2026-11-22T12:00:00Z'));
};

const REACHED = { kind: 'read', value: { kind: 'reached' } };
const FAILED = { kind: 'unread', reason: 'Failed' };

const OWN = 'webhook "own-opening.mutate.gatehouse.dev"';
const EOF = `failed calling ${OWN}: EOF`;
const FORBIDDEN = {
  kind: 'unread',
  reason: 'Forbidden',
  permission: { verb: 'create', resource: 'restorewindows.gatehouse.dev' },
};

test.each([
  [403, `admission ${OWN} denied the request: no`, REACHED],
  [403, 'admission webhook "kyverno.svc" denied the request: no', FAILED],
  [500, `Internal error occurred: ${EOF}`, { kind: 'read', value: { kind: 'unreachable', message: EOF } }],
  [500, 'failed calling webhook "kyverno.svc": EOF', FAILED],
  [403, 'restorewindows is forbidden', FORBIDDEN],
])('the error %i %s is told apart', async (code, message, expected) => {
  const error = new ApiError({ method: 'POST', path: '/apis/x' }, { code, status: { message } });
  const result = await probed(() => {
    throw error;
  });
  expect(result).toMatchObject(expected);
});

test('the window is valid, and the annotation of Gatehouse shows that it was called', async () => {
  const annotations = { 'gatehouse.dev/opened-by': 'admin' };
  const unchanged = await probed((window) => {
    expect(windowProblems(window)).toEqual([]);
    return window;
  });
  expect(unchanged).toEqual({ kind: 'read', value: { kind: 'not-called' } });
  expect(await probed((window) => ({ ...window, metadata: { ...window.metadata, annotations } }))).toEqual(
    REACHED,
  );
});

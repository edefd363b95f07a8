import { beforeEach, expect, test } from 'vitest';

import { openWindow, createQuiesceCluster, SCALE, sign } from '../../../../test/support/quiesce-world.ts';
import { NEVER, silent } from '../../../../test/support/runtime/fixtures.ts';
import type { AdmissionRequest } from '../../../admission/review/request.ts';
import { createPauseWrites } from './pause-writes.ts';

const windows = createQuiesceCluster();
openWindow(windows, 'drill');
openWindow(windows, 'unseen', [{ ...SCALE, path: 'spec.paused', value: true }]);

let key: typeof sign | undefined;
let evidence: () => Promise<readonly string[]>;
beforeEach(() => {
  key = sign;
  evidence = () => Promise.resolve(['drill']);
});

const pause = createPauseWrites(
  {
    client: {
      get: (_kind: unknown, { name }: { name: string }) => Promise.resolve(windows.windows.get(name)),
    },
    config: { namespace: 'gatehouse-system' },
    namespaces: ['ops', 'gatehouse-system'],
    log: silent,
  } as never,
  {
    windows: { store: { get: (name: string) => (name === 'drill' ? windows.windows.get(name) : undefined) } },
    records: { quiesce: () => key },
    world: {
      mayRestore: ({ username }: { username: string }) => username === 'velero',
      restoreEvidence: async () => ({ windows: (await evidence()).map((window) => ({ window })) }),
    },
  } as never,
);

const object = (namespace = 'ops') => ({
  metadata: { namespace, name: 'app', labels: { pause: 'yes' } },
  spec: { replicas: 3 },
});
const said = (change: Partial<AdmissionRequest> = {}) =>
  pause(
    {
      operation: 'CREATE',
      subResource: '',
      name: 'app',
      userInfo: { username: 'velero' },
      resource: { group: 'apps', version: 'v1', resource: 'deployments' },
      object: object(),
      ...change,
    } as AdmissionRequest,
    NEVER,
  );

test('a new object is paused, even if this replica has not seen the window', async () => {
  const patched = (path: string, value: unknown) => ({
    kind: 'allow',
    patch: expect.arrayContaining([expect.objectContaining({ path, value })]) as unknown,
  });
  expect(await said()).toMatchObject(patched('/spec/replicas', 0));
  evidence = () => Promise.resolve(['unseen']);
  expect(await said()).toMatchObject(patched('/spec/paused', true));
});

test.each<[what: string, change: Partial<AdmissionRequest>]>([
  ['of another user', { userInfo: { username: 'alice', uid: '', groups: [], extra: {} } }],
  ['of a generated name', { name: undefined }],
  ['of a subresource', { subResource: 'status' }],
  ['of another kind', { resource: { group: 'apps', version: 'v1', resource: 'statefulsets' } }],
  ['outside of --namespaces', { namespace: 'far', object: object('far') }],
  ['in the namespace of Gatehouse', { object: object('gatehouse-system') }],
])('a write %s is not changed', async (_what, change) => {
  expect(await said(change)).toEqual({ kind: 'allow', patch: [], warnings: [], auditAnnotations: {} });
});

test('without the key, or without an answer of the API server, the object is admitted for the leader to pause', async () => {
  key = undefined;
  expect(await said()).toMatchObject({ kind: 'allow', patch: [] });
  key = sign;
  evidence = () => Promise.reject(new Error('down'));
  const warnings = [expect.stringContaining('could not pause this object yet')];
  expect(await said()).toMatchObject({ kind: 'allow', patch: [], warnings });
});

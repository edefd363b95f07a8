import { expect, test } from 'vitest';
import { requestOf } from '../../../test/support/admission/handler.ts';
import { containing, NEVER } from '../../../test/support/runtime/fixtures.ts';
import { veleroDetector } from '../../../test/support/velero-detector.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { createRestoreGuards } from './restore-guard.ts';

const plain = veleroDetector();
const withRightsOf = (user: string): RestoreDetector => ({
  ...plain,
  spec: { ...plain.spec, guard: { refuse: ['Permissions'], rightsOf: { user } } },
});
const role = requestOf({
  resource: { group: 'rbac.authorization.k8s.io', version: 'v1', resource: 'roles' },
  userInfo: { username: 'system:serviceaccount:velero:velero', groups: ['system:serviceaccounts:velero'] },
  object: { rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }] },
});

/** Root may do everything. A detector that the test does not give cannot be read. */
async function decided(cached: RestoreDetector, live?: RestoreDetector, isAway = false) {
  const asked: string[] = [];
  const client = {
    get: () => Promise.reject(new Error('not read')),
    listAll: (kind: { readonly resource: string }) =>
      live === undefined
        ? Promise.reject(new Error('connection refused'))
        : Promise.resolve({ items: kind.resource === 'restoredetectors' ? [live] : [] }),
  };
  const mayUser = ({ username }: { readonly username: string }, { verb }: { readonly verb: string }) => {
    asked.push(verb);
    return isAway ? Promise.reject(new Error('connection refused')) : Promise.resolve(username === 'root');
  };
  const stores = { windows: { store: { list: () => [] } }, detectors: { store: { list: () => [cached] } } };
  const decide = createRestoreGuards({ client, mayUser, ...stores } as never, () => new Date(0));
  return { ...(await decide(role, NEVER)), asked };
}

const DENIED = { kind: 'deny', code: 403, message: containing('ana, who lacks permission to get pods') };

test('a known guard allows without a read of the guards', async () => {
  expect(await decided(withRightsOf('root'))).toMatchObject({ kind: 'allow', asked: ['escalate'] });
});

test.each([
  ['a guard that this replica knows denies, and its questions are asked once', withRightsOf('ana'), 1],
  ['a guard that this replica has not seen yet denies', plain, 1],
  ['a guard that has changed asks for the new user', withRightsOf('bob'), 2],
])('%s', async (_case, cached, times) => {
  const { asked, ...decision } = await decided(cached, withRightsOf('ana'));
  expect(decision).toMatchObject(DENIED);
  expect(asked).toHaveLength(2 * times);
});

test('a guard that has ended denies nothing', async () => {
  expect(await decided(withRightsOf('ana'), plain)).toMatchObject({ kind: 'allow' });
});

test.each([
  ['the guards', () => decided(withRightsOf('ana'))],
  ['the permissions of the user', () => decided(withRightsOf('root'), withRightsOf('root'), true)],
])('nothing is allowed while Gatehouse cannot read %s', async (_what, decide) => {
  expect(await decide()).toMatchObject({ kind: 'retry' });
});

import { beforeEach, describe, expect, test } from 'vitest';
import { createCluster, NEVER, OWN_NAMESPACE, silent } from '../../../test/support/runtime/fixtures.ts';
import { withPathTokens } from '../../admission/webhooks/path-tokens.ts';
import { secrets } from '../../kube/well-known.ts';
import { createStore } from '../../kube/store.ts';
import { SERVING_SECRET, SHARED_STATE_KEY, TLS_CERT_KEY } from '../../pki/annotations.ts';
import { base64 } from '../../pki/secret-data.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { createListeners } from '../listeners.ts';
import { READS_SECRET } from '../policies/read-records.ts';
import { PATH_SECRET } from '../webhooks/path-tokens.ts';
import {
  createIsOurs,
  followCopies,
  createShareStateReconciler,
  followRollbacks,
  followSharedState,
  stateIn,
} from './own-state.ts';

const [A = '', B = '', C = '', D = ''] = ['a', 'b', 'c', 'd'].map((digit) => digit.repeat(32));
const LEADER = 'system:serviceaccount:gatehouse-system:gatehouse-controllers';
const keyOf = (name: string) => `${OWN_NAMESPACE}/${name}`;
const named = (name: string, data: Secret['data'] = {}): Secret => ({
  metadata: { namespace: OWN_NAMESPACE, name },
  data,
});
const policy = {
  match: { apiGroups: [''], resources: ['pods'] },
  params: { apiGroup: '', resource: 'configmaps', name: 'a' },
};

const { client, objects, reset } = createCluster();
const stored = objects<Secret>(secrets);
const share = (rollback?: string) => {
  const facts = { userName: () => Promise.resolve(LEADER), announcedRollback: () => rollback };
  return createShareStateReconciler(client, OWN_NAMESPACE, facts, silent)('', NEVER);
};
const serving = () => stored.read(keyOf(SERVING_SECRET));

beforeEach(() => {
  reset();
  stored.add(named(SERVING_SECRET, { [TLS_CERT_KEY]: 'Y2VydA==' }));
  stored.add(named(PATH_SECRET, withPathTokens({ current: A, next: B })));
  stored.add(named(READS_SECRET, { key: 'a2V5' }));
});

describe('the leader', () => {
  test('copies the tokens, the key and its user name, keeps the certificate, and writes once', async () => {
    await share();
    await share();
    const paths = stored.read(keyOf(PATH_SECRET))?.data;
    expect(stateIn(serving())).toEqual({ paths, reads: { key: 'a2V5' }, user: LEADER, rollback: '' });
    expect(serving()?.data).toMatchObject({ [TLS_CERT_KEY]: 'Y2VydA==' });
    expect(stored.writes()).toBe(1);
  });

  test('repairs a Secret that lost the copy', async () => {
    await share();
    const before = stateIn(serving());
    stored.patch(keyOf(SERVING_SECRET), { data: { 'gatehouse-state.json': null } });
    expect(stateIn(serving())).toBeUndefined();
    await share();
    expect(stateIn(serving())).toEqual(before);
  });

  test.each([PATH_SECRET, READS_SECRET])('keeps the copy while %s is missing or empty', async (name) => {
    await share();
    const before = serving();
    stored.patch(keyOf(name), { data: null });
    await share();
    stored.remove(keyOf(name));
    await share();
    expect(serving()).toEqual(before);
  });
});

describe('a webhook process', () => {
  const never = new AbortController().signal;
  /** A watch of the Secret, without an API server. */
  function watching() {
    const store = createStore<Secret>();
    const changes = createListeners<[key: string]>();
    const shared = followSharedState({ store, onChange: changes.add }, never);
    const state = followCopies({ config: { caPropagationWaitMs: 60_000 } } as never, shared, never);
    const see = () => {
      const secret = serving();
      if (secret === undefined) store.delete(keyOf(SERVING_SECRET));
      else store.set(keyOf(SERVING_SECRET), secret);
      changes.tell(keyOf(SERVING_SECRET));
    };
    return { shared, ...state, see };
  }

  test('knows no path and no review before the leader has written the copy', () => {
    const { see, paths, records } = watching();
    see();
    expect([paths.judge(A), paths.judge('')]).toEqual(['unread', 'unread']);
    expect(records.hasSynced()).toBe(false);
  });

  test('takes tokens and key from the copy, and keeps them while it is missing', async () => {
    const { see, paths, records, shared } = watching();
    let changes = 0;
    records.onChange(() => (changes += 1));
    await share();
    see();
    await records.whenSynced(never);
    const record = records.recordOf('p', policy);
    expect(record).toBeDefined();
    stored.patch(keyOf(SERVING_SECRET), { data: null });
    see();
    stored.remove(keyOf(SERVING_SECRET));
    see();
    expect([paths.judge(A), paths.judge(B), paths.judge(C)]).toEqual(['known', 'known', 'unknown']);
    expect(records.recordOf('p', policy)).toBe(record);
    expect(shared.current()?.user).toBe(LEADER);
    expect(changes).toBe(1);
  });

  const OLD = 'of an earlier version';

  test.each<[readonly (string | undefined)[], readonly number[]]>([
    [
      ['3', '3', '8', undefined, '8', '9'],
      [0, 0, 1, 1, 1, 2],
    ],
    [
      [undefined, undefined, '3', '3'],
      [0, 0, 1, 1],
    ],
    [
      [OLD, '3', '8'],
      [0, 0, 1],
    ],
    [
      [OLD, undefined, '3'],
      [0, 0, 1],
    ],
  ])(
    'lists everything again for each rollback that the leader announces while it runs: %j',
    async (all, expected) => {
      const { see, shared } = watching();
      let told = 0;
      const rollbacks = { ...createListeners<[]>(), tell: () => (told += 1) };
      followRollbacks(
        { rollbacks, metrics: { rollback: () => undefined } as never, log: silent },
        shared,
        never,
      );
      const counts: number[] = [];
      for (const announced of all) {
        await share(announced);
        if (announced === OLD) {
          const { rollback, ...state } = stateIn(serving()) ?? {};
          expect(rollback).toBe(announced);
          stored.patch(keyOf(SERVING_SECRET), {
            data: { [SHARED_STATE_KEY]: base64(JSON.stringify(state)) },
          });
        }
        see();
        counts.push(told);
      }
      expect(counts).toEqual(expected);
    },
  );

  test('an older copy from a backup counts only until the leader has replaced it', async () => {
    const { see, paths, records } = watching();
    await share();
    const old = serving();
    stored.patch(keyOf(PATH_SECRET), { data: withPathTokens({ current: C, next: D }) });
    stored.patch(keyOf(READS_SECRET), { data: { key: 'bmV3' } });
    await share();
    see();
    const record = records.recordOf('p', policy);
    stored.edit(keyOf(SERVING_SECRET), () => old ?? named(SERVING_SECRET));
    see();
    expect(records.recordOf('p', policy)).not.toBe(record);
    await share();
    see();
    expect(records.recordOf('p', policy)).toBe(record);
    expect([paths.judge(A), paths.judge(B), paths.judge(C)]).toEqual(['unknown', 'unknown', 'known']);
  });
});

describe('Gatehouse itself', () => {
  const account = (name: string) => `system:serviceaccount:gatehouse-system:${name}`;

  test.each([
    [account('gatehouse'), true],
    [account('custom'), true],
    [account('gatehouse-webhook'), false],
    ['system:serviceaccount:gatehouse-system-2:gatehouse', false],
    ['system:serviceaccount:velero:velero', false],
    ['gatehouse', false],
  ])('while the leader is unknown, %s is Gatehouse: %s', (username, expected) => {
    expect(createIsOurs(() => undefined, 'gatehouse-system')(username)).toBe(expected);
  });

  test.each([
    ['kubernetes-admin', 'kubernetes-admin', true],
    ['kubernetes-admin', account('gatehouse'), false],
    [account('gatehouse-controllers'), account('gatehouse-controllers'), true],
    [account('gatehouse-controllers'), account('gatehouse'), false],
    [account('gatehouse-webhook'), account('gatehouse-webhook'), false],
  ])('if %s leads, %s is Gatehouse: %s', (leader, username, expected) => {
    expect(createIsOurs(() => leader, 'gatehouse-system')(username)).toBe(expected);
  });

  test('while the leader is unknown, the own account of a webhook process is not Gatehouse, unless the leader shares it', () => {
    const isOurs = (leader: string | undefined, own: string) => {
      const readOwn = () => own;
      return createIsOurs(() => leader, 'gatehouse-system', readOwn);
    };
    const unknown = isOurs(undefined, account('renamed'));
    expect([unknown(account('renamed')), unknown(account('gatehouse'))]).toEqual([false, true]);
    expect(isOurs(account('both'), account('both'))(account('both'))).toBe(true);
  });
});

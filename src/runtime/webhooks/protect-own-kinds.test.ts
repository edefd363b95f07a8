import { beforeEach, expect, test } from 'vitest';

import type { KubeObject } from '../../json/kube-object.ts';
import type { Principal } from '../../api/restore-principal.ts';
import { createGuardPolicyReconciler } from './protect-own-kinds.ts';

let stored: Map<string, KubeObject>;
let writes: string[];
let restorers: Principal[];
let served: boolean;

beforeEach(() => {
  stored = new Map();
  writes = [];
  restorers = [{ group: 'system:serviceaccounts:velero' }];
  served = true;
});

async function reconcile(): Promise<readonly string[]> {
  writes = [];
  const write = (verb: string) => (part: string, object: KubeObject) => {
    writes.push(`${verb} ${part}`);
    if (verb === 'remove') stored.delete(part);
    else stored.set(part, object);
    return Promise.resolve();
  };
  await createGuardPolicyReconciler({
    isServed: () => Promise.resolve(served),
    restorers: () => restorers,
    read: (part) => Promise.resolve(stored.get(part)),
    create: write('create'),
    replace: write('replace'),
    remove: write('remove'),
    now: () => new Date(0),
    log: {
      debug: () => undefined,
      info: () => undefined,
      warn: () => undefined,
      error: () => undefined,
    },
  })('', new AbortController().signal);
  return writes;
}

test('policy and binding are made once, and made anew when somebody changes them', async () => {
  expect(await reconcile()).toEqual(['create policy', 'create binding']);
  expect(await reconcile()).toEqual([]);
  stored.set('policy', { ...stored.get('policy'), spec: {} } as KubeObject);
  expect(await reconcile()).toEqual(['replace policy']);
});

test('they follow the detectors, and go with the last one', async () => {
  await reconcile();
  restorers = [{ user: 'k10' }];
  expect(await reconcile()).toEqual(['replace policy']);
  restorers = [];
  expect(await reconcile()).toEqual(['remove policy', 'remove binding']);
  expect(await reconcile()).toEqual([]);
});

test('nothing is written where the API server knows no such kind', async () => {
  served = false;
  expect(await reconcile()).toEqual([]);
});

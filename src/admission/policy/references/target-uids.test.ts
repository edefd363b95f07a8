/** Uids of targets in the writes of a restorer. */
import { describe, expect, test } from 'vitest';

import { applyPatch } from '../../../json/json-patch.ts';
import { valueIn, type JsonObject } from '../../../json/json.ts';
import type { KubeObject } from '../../../json/kube-object.ts';
import {
  clusterOf,
  compileSpec,
  createRequest,
  NIGHTLY,
  policyOf,
  restoringIn,
  updateRequest,
} from '../../../../test/support/admission/policy.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { mutate } from '../mutate.ts';
import type { RestoreEvidence } from '../world.ts';

const reference = {
  name: 'disk',
  path: 'spec.disks[*].name',
  uidPath: 'spec.disks[*].uid',
  target: { apiGroup: 'infra.example.com', resource: 'classes' },
};

const classKey = (name: string) => `classes.infra.example.com/store/${name}`;
const disk = (uid: string, rest: object = {}): KubeObject => ({
  metadata: { name: 'd', uid, creationTimestamp: '2026-11-21T12:00:00Z', ...rest },
});

async function uidsAfter(
  request: AdmissionRequest,
  live: Readonly<Record<string, KubeObject | string>>,
  restore: RestoreEvidence | 'none' = NIGHTLY,
  stored: Readonly<Record<string, KubeObject>> = {},
) {
  const { world, signal, reads } = clusterOf({ live, stored });
  const decision = await mutate(request, [policyOf({ validate: { references: [reference] } })], {
    world: {
      ...world,
      restoreEvidence: () => Promise.resolve(restore === 'none' ? undefined : restore),
      owners: { read: () => Promise.resolve(undefined), isOurs: () => false },
    },
    signal,
  });
  if (decision.kind !== 'allow') throw new Error(decision.kind);
  const disks = valueIn(applyPatch(request.object ?? {}, decision.patch), 'spec', 'disks') as JsonObject[];
  return { uids: disks.map(({ uid }) => uid), reads };
}

const disks = (...uids: readonly (string | undefined)[]) => ({
  disks: uids.map((uid, n) => ({ name: `d${n}`, ...(uid !== undefined && { uid }) })),
});

describe('a restorer creates an object', () => {
  test('with the current uid of each target that exists', async () => {
    const live = { [classKey('d0')]: disk('new0'), [classKey('d1')]: disk('new1') };
    const { uids } = await uidsAfter(createRequest(disks('old0', 'old1', 'old2', undefined)), live);
    expect(uids).toEqual(['new0', 'new1', 'old2', undefined]);
  });

  test('and an unreadable or terminating target is left to the sweep', async () => {
    const leaving = disk('new1', { deletionTimestamp: '2026-11-21T12:00:01Z' });
    const live = { [classKey('d0')]: 'timeout', [classKey('d1')]: leaving };
    expect((await uidsAfter(createRequest(disks('old0', 'old1')), live)).uids).toEqual(['old0', 'old1']);
  });

  test('and a window that waits for an approval changes nothing', async () => {
    const live = { [classKey('d0')]: disk('new0') };
    const { uids } = await uidsAfter(createRequest(disks('old0')), live, restoringIn({}, { links: false }));
    expect(uids).toEqual(['old0']);
  });
});

test('the uids that other users write are kept', async () => {
  const live = { [classKey('d0')]: disk('new0') };
  expect((await uidsAfter(createRequest(disks('old0')), live, 'none')).uids).toEqual(['old0']);
});

describe('a restorer updates an object', () => {
  const created = { creationTimestamp: '2026-11-21T11:00:00Z' };
  test.each<[what: string, before: string, target: string, uid: string]>([
    ['back to the uid that it had', 'new0', '2026-11-21T12:00:00Z', 'new0'],
    ['with an older target', 'old0', '2026-11-21T10:00:00Z', 'new0'],
    ['with a younger target, which may be another object', 'old0', '2026-11-21T12:00:00Z', 'old0'],
  ])('%s', async (_what, before, creationTimestamp, uid) => {
    const live = { [classKey('d0')]: disk('new0', { creationTimestamp }) };
    const request = updateRequest(disks(before), disks('old0'), created);
    expect((await uidsAfter(request, live)).uids).toEqual([uid]);
  });
});

test.each([
  ['metadata.uid', {}],
  ['spec.disks[*]', {}],
  ['spec.others[*].uid', {}],
  ['spec.disks[*].uid', { operations: ['UPDATE' as const] }],
])('%s is refused as a uidPath', (uidPath, match) => {
  const result = compileSpec({
    match: { apiGroups: ['infra.example.com'], resources: ['servers'], ...match },
    validate: { references: [{ ...reference, uidPath }] },
  });
  expect(result.kind).toBe('rejected');
});

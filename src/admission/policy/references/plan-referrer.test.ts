import { describe, expect, test } from 'vitest';

import { parsePath } from '../../../json/field-path.ts';
import type { KubeObject } from '../../../json/kube-object.ts';
import type { CompiledReference } from '../compiled-policy.ts';
import { planReferrer } from './plan-referrer.ts';

const group = 'infra.example.com';
const target = { group, resource: 'datacenters', namespace: undefined, name: 'fra1' };
const self = { group, resource: 'servers', namespace: 'shop', name: 's1' };
const goneAt = Date.parse('2026-11-27T12:00:00Z');
const gone = { target, uid: 'dc-1', goneAt } as const;

const reference = (path: string, change: Partial<CompiledReference> = {}): CompiledReference => ({
  name: 'dc',
  path: parsePath(path),
  namespacePath: undefined,
  uidPath: undefined,
  target: { group, resource: 'datacenters' },
  targetKind: 'Datacenter',
  namespaced: false,
  optional: true,
  restrictsDelete: false,
  serializable: false,
  deleteAction: 'Cascade',
  defaultTarget: undefined,
  ...change,
});

const object = (spec: object, metadata: object = {}): KubeObject =>
  ({
    apiVersion: `${group}/v1`,
    kind: 'Server',
    metadata: {
      name: 's1',
      namespace: 'shop',
      uid: 'u1',
      resourceVersion: '7',
      creationTimestamp: '2026-11-27T11:00:00Z',
      ...metadata,
    },
    spec,
  }) as KubeObject;

const patchOf = (...operations: readonly object[]) => ({
  kind: 'patch',
  operations: [
    { op: 'test', path: '/metadata/uid', value: 'u1' },
    { op: 'test', path: '/metadata/resourceVersion', value: '7' },
    ...operations,
  ],
});

describe('Cascade', () => {
  const plan = (of: KubeObject | undefined, rule = reference('spec.datacenter')) =>
    planReferrer({ action: 'Cascade', ...gone }, rule, self, of);

  test.each<[string, KubeObject | undefined]>([
    ['that does not exist', undefined],
    ['that names another target', object({ datacenter: 'fra2' })],
    ['that is being deleted', object({ datacenter: 'fra1' }, { deletionTimestamp: '2026-11-27T12:00:00Z' })],
    [
      'that a restore created later',
      object({ datacenter: 'fra1' }, { creationTimestamp: '2026-11-27T12:01:00Z' }),
    ],
    ['without a creation time', object({ datacenter: 'fra1' }, { creationTimestamp: undefined })],
    ['without a resourceVersion', object({ datacenter: 'fra1' }, { resourceVersion: undefined })],
  ])('leaves an object %s', (_which, of) => {
    expect(plan(of)).toEqual({ kind: 'leave' });
  });

  test('a uid next to the name decides', () => {
    const rule = reference('spec.dc.name', { uidPath: parsePath('spec.dc.uid') });
    expect(plan(object({ dc: { name: 'fra1', uid: 'dc-2' } }), rule).kind).toBe('leave');
    expect(plan(object({ dc: { name: 'fra1', uid: 'dc-1' } }), rule).kind).toBe('delete');
    expect(plan(object({ dc: { name: 'fra1' } }), rule).kind).toBe('delete');
  });
});

describe('SetNull', () => {
  const removing = (...paths: readonly string[]) => patchOf(...paths.map((path) => ({ op: 'remove', path })));

  test.each([
    ['the field', reference('spec.datacenter'), object({ datacenter: 'fra1' }), removing('/spec/datacenter')],
    [
      'the elements of a list from its end',
      reference('spec.datacenters[*]'),
      object({ datacenters: ['fra1', 'fra2', 'fra1'] }),
      removing('/spec/datacenters/2', '/spec/datacenters/0'),
    ],
    [
      'the uid of the target as well',
      reference('spec.dcs[*].name', { uidPath: parsePath('spec.dcs[*].uid') }),
      object({
        dcs: [
          { name: 'fra2', uid: 'dc-2' },
          { name: 'fra1', uid: 'dc-1' },
        ],
      }),
      removing('/spec/dcs/1/uid', '/spec/dcs/1/name'),
    ],
  ])('removes %s', (_what, rule, of, expected) => {
    expect(planReferrer({ action: 'SetNull', ...gone }, rule, self, of)).toEqual(expected);
  });
});

test('SetDefault writes the default target', () => {
  const rule = reference('metadata.labels["example.com/dc"]', { defaultTarget: 'fra0' });
  const of = object({}, { labels: { 'example.com/dc': 'fra1' } });
  expect(planReferrer({ action: 'SetDefault', ...gone }, rule, self, of)).toEqual(
    patchOf({ op: 'replace', path: '/metadata/labels/example.com~1dc', value: 'fra0' }),
  );
});

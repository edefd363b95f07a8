import { describe, expect, test } from 'vitest';

import type { KubeObject, OwnerReference } from '../../json/kube-object.ts';
import { installationOwner, isOwnedByInstallation, ownedBy, roleReferences } from './installation-owner.ts';

const OTHER: OwnerReference = { apiVersion: 'v1', kind: 'Namespace', name: 'other', uid: '9' };
const owned = (...ownerReferences: readonly OwnerReference[]): KubeObject => ({
  metadata: { name: 'gatehouse', ownerReferences },
});
const ownersOf = ({ metadata }: KubeObject) => metadata?.ownerReferences;

describe('the owner of a webhook configuration', () => {
  test.each<[string, KubeObject, readonly OwnerReference[]]>([
    ['is added', { metadata: {} }, [installationOwner('2')]],
    ['is added to those of others', owned(OTHER), [OTHER, installationOwner('2')]],
    [
      'replaces a role that was created again',
      owned(installationOwner('1'), OTHER),
      [OTHER, installationOwner('2')],
    ],
    [
      'is the only one of its name',
      owned(installationOwner('1'), installationOwner('2')),
      [installationOwner('2')],
    ],
    ['keeps its position', owned(installationOwner('2'), OTHER), [installationOwner('2'), OTHER]],
  ])('%s', (_what, object, expected) => {
    const once = ownedBy(object, installationOwner('2'));
    expect(ownersOf(once)).toEqual(expected);
    expect(ownedBy(once, installationOwner('2'))).toEqual(once);
    expect(isOwnedByInstallation(once)).toBe(true);
  });

  test('is kept without a role, so that the garbage collector deletes what the role owned', () => {
    expect(ownedBy(owned(installationOwner('1')), undefined)).toEqual(owned(installationOwner('1')));
    expect(isOwnedByInstallation({ metadata: {} })).toBe(false);
  });
});

describe('the owner of the role', () => {
  const NAMESPACE: KubeObject = { metadata: { name: 'gatehouse-system', uid: 'n' } };
  const reference = (uid: string): OwnerReference => ({
    apiVersion: 'v1',
    kind: 'Namespace',
    name: 'gatehouse-system',
    uid,
  });

  test('is the namespace, once', () => {
    expect(roleReferences(owned(), NAMESPACE)).toEqual([reference('n')]);
    expect(roleReferences(owned(reference('n')), NAMESPACE)).toBeUndefined();
  });

  test('does not change while the namespace is being deleted', () => {
    const going = { metadata: { ...NAMESPACE.metadata, deletionTimestamp: '2026-11-21T12:00:00Z' } };
    expect(roleReferences(owned(), going)).toBeUndefined();
  });

  test('is removed if Argo CD tracks the role, because Argo CD does not delete objects with owners', () => {
    const annotations = { 'argocd.argoproj.io/tracking-id': 'gatehouse:…' };
    expect(roleReferences({ metadata: { annotations } }, NAMESPACE)).toBeUndefined();
    const before = { metadata: { annotations, ownerReferences: [reference('n'), OTHER] } };
    expect(roleReferences(before, NAMESPACE)).toEqual([OTHER]);
  });
});

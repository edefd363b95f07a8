import { expect, test } from 'vitest';
import { mergeDiff, repairedDefinition, restoredObject } from './restored-object.ts';

const metadata = {
  name: 'db',
  namespace: 'shop',
  labels: { app: 'db' },
  annotations: { note: 'kept' },
  finalizers: ['example.com/kept'],
  managedFields: [{ manager: 'kubectl' }],
};
const object = {
  apiVersion: 'example.com/v1',
  kind: 'Server',
  metadata: {
    ...metadata,
    uid: 'u',
    resourceVersion: '7',
    generation: 3,
    creationTimestamp: '2026-01-01T00:00:00Z',
    ownerReferences: [{ name: 'owner' }],
  },
  spec: { cpus: 2 },
  status: { ready: true },
};
const item = {
  resource: { group: 'example.com', resource: 'servers' },
  namespace: 'shop',
  name: 'db',
  object,
};

test('Velero drops what belonged to the old object, maps the namespace and adds its labels', () => {
  const long = 'n'.repeat(64);
  const names = { backup: 'nightly', restore: long, namespaceMapping: { shop: 'copy' } };
  expect(restoredObject(item, names)).toEqual({
    apiVersion: 'example.com/v1',
    kind: 'Server',
    metadata: {
      ...metadata,
      namespace: 'copy',
      labels: {
        app: 'db',
        'velero.io/backup-name': 'nightly',
        'velero.io/restore-name': expect.stringMatching(/^n{57}[0-9a-f]{6}$/) as string,
      },
    },
    spec: { cpus: 2 },
  });
});

test('Velero maps the namespaces of subjects', () => {
  const subjects = [
    { kind: 'ServiceAccount', namespace: 'shop', name: 'a' },
    { kind: 'User', name: 'shop' },
  ];
  const resource = { group: 'rbac.authorization.k8s.io', resource: 'rolebindings' };
  const names = { backup: 'b', restore: 'r', namespaceMapping: { shop: 'copy' } };
  const binding = { ...item, resource, object: { ...object, subjects } };
  expect(restoredObject(binding, names).subjects).toEqual([
    { ...subjects[0], namespace: 'copy' },
    subjects[1],
  ]);
});

test('Velero sets preserveUnknownFields in the schemas of a CRD, because v1 does not allow it', () => {
  const version = { name: 'v1', schema: { openAPIV3Schema: { type: 'object' } } };
  const crd = { spec: { group: 'a', preserveUnknownFields: true, versions: [version] } };
  const openAPIV3Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
  expect(repairedDefinition(crd)).toEqual({
    spec: {
      group: 'a',
      preserveUnknownFields: false,
      versions: [{ name: 'v1', schema: { openAPIV3Schema } }],
    },
  });
});

test('a namespace named like a member of every object is not mapped', () => {
  const names = { backup: 'b', restore: 'r', namespaceMapping: {} };
  expect(restoredObject({ ...item, namespace: 'constructor' }, names).metadata).toMatchObject({
    namespace: 'constructor',
  });
});

test('the difference of two objects is a merge patch', () => {
  expect(mergeDiff({ a: 1, b: { c: 1, d: [1] }, e: 1 }, { a: 1, b: { c: 2, d: [1] }, f: 1 })).toEqual({
    b: { c: 2 },
    e: null,
    f: 1,
  });
  expect(mergeDiff({ a: [{ b: 1 }] }, { a: [{ b: 1 }] })).toBeUndefined();
});

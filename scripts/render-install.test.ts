import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parseAllDocuments } from 'yaml';

import { readKustomization } from './kustomization.ts';
import { renderInstall } from './render-install.ts';

const DEPLOY = join(import.meta.dirname, '..', 'deploy');

test('deploy/install.yaml is up to date with the manifests; otherwise run `npm run generate`', () => {
  expect(readFileSync(join(DEPLOY, 'install.yaml'), 'utf8')).toBe(renderInstall(DEPLOY));
});

test('every object comes after its dependencies: the namespace and the kinds first, the Deployment after its account', () => {
  const kinds = parseAllDocuments(renderInstall(DEPLOY)).map((document) => document.get('kind'));
  expect(kinds.slice(0, 2)).toEqual(['Namespace', 'CustomResourceDefinition']);
  expect(kinds.lastIndexOf('CustomResourceDefinition')).toBeLessThan(kinds.indexOf('ServiceAccount'));
  expect(kinds.lastIndexOf('ClusterRoleBinding')).toBeLessThan(kinds.indexOf('Deployment'));
});

test('exactly the namespaced objects have a namespace', () => {
  const placed = readKustomization(join(DEPLOY, 'overlays', 'default')).filter(
    ({ metadata }) => metadata?.namespace !== undefined,
  );
  expect(new Set(placed.map(({ metadata }) => metadata?.namespace))).toEqual(new Set(['gatehouse-system']));
  const twice = [
    'ServiceAccount',
    'Role',
    'RoleBinding',
    'Deployment',
    'PodDisruptionBudget',
    'NetworkPolicy',
  ];
  expect(placed.map(({ kind }) => kind).toSorted()).toEqual([...twice, ...twice, 'Service'].toSorted());
});

test.each([
  ['a patch', 'patches: [{ path: a.yaml }]', 'patches: not known'],
  [
    'a kind without a place in the order',
    'resources: [a.yaml, b.yaml]',
    'where in ORDER does Strange belong?',
  ],
])('a kustomization with %s is refused completely', (_what, kustomization, complaint) => {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-kustomization-'));
  onTestFinished(() => {
    rmSync(folder, { recursive: true });
  });
  writeFileSync(join(folder, 'kustomization.yaml'), kustomization);
  writeFileSync(join(folder, 'a.yaml'), 'kind: Strange\n');
  writeFileSync(join(folder, 'b.yaml'), 'kind: Service\n');
  expect(() => readKustomization(folder)).toThrow(complaint);
});

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
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

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';

import { customResourceDefinitions } from '../src/api/crds.ts';
import { annotationProblem, CLIENT_CERT_SECRET_NAME, TRUST_BUNDLE_SIGNER } from '../src/pki/annotations.ts';
import { RENDERERS, ROOT, staleFiles } from './generate.ts';
import { readKustomization } from './kustomization.ts';
import { ANNOTATION_KEYS, METADATA_KEYS } from './reference/annotation-keys.ts';

const files = new Map(RENDERERS.flatMap((render) => render()).map(({ path, text }) => [path, text]));

test('the generated files are up to date; otherwise run `npm run generate`', () => {
  for (const [path, text] of files) expect(readFileSync(join(ROOT, path), 'utf8'), path).toBe(text);
  expect(staleFiles()).toEqual([]);
});

test('no list item has a field with a default, so an apply of an unchanged file changes nothing', () => {
  expect(defaultsInLists(customResourceDefinitions(), '')).toEqual([]);
  expect(defaultsInLists({ a: { items: { properties: { b: { default: 1 } } } } }, '')).toEqual([
    '/a/items/properties/b/default',
  ]);
});

function defaultsInLists(value: unknown, path: string): readonly string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const here = `${path}/${key}`;
    if (key === 'default' && path.includes('/items/') && !path.endsWith('/properties')) return [here];
    return defaultsInLists(inner, here);
  });
}

test('in install.yaml, every object comes after its dependencies', () => {
  const text = files.get('deploy/install.yaml') ?? '';
  const kinds = parseAllDocuments(text).map((document) => document.get('kind'));
  expect(kinds.slice(0, 2)).toEqual(['Namespace', 'CustomResourceDefinition']);
  expect(kinds.lastIndexOf('CustomResourceDefinition')).toBeLessThan(kinds.indexOf('ServiceAccount'));
  expect(kinds.lastIndexOf('ClusterRoleBinding')).toBeLessThan(kinds.indexOf('Deployment'));
});

test('exactly the namespaced objects have a namespace', () => {
  const placed = readKustomization(join(ROOT, 'deploy', 'overlays', 'default')).filter(
    ({ metadata }) => metadata?.namespace !== undefined,
  );
  expect(new Set(placed.map(({ metadata }) => metadata?.namespace))).toEqual(new Set(['gatehouse-system']));
  const twice = 'Deployment NetworkPolicy PodDisruptionBudget Role RoleBinding ServiceAccount'.split(' ');
  expect(placed.map(({ kind }) => kind).toSorted()).toEqual([...twice, ...twice, 'Service'].toSorted());
});

test('every command and every field of every kind has a description', () => {
  for (const [path, text] of files) {
    if (!path.startsWith('docs/reference/')) continue;
    expect(
      text.split('\n').filter((line) => /^\|.*\|\s*\|$/.test(line)),
      path,
    ).toEqual([]);
  }
});

const textsIn = (folder: string): readonly string[] =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !path.includes('.test'))
    .map((path) => readFileSync(join(ROOT, folder, path), 'utf8'));

test('the reference lists every annotation and label in the source, and no other', () => {
  const written = textsIn('src')
    .flatMap((text) => [...text.matchAll(/= '((?:[a-z]+\.)?gatehouse\.dev\/[a-z-]+)'/g)])
    .map(([, key]) => key);
  expect(written).not.toEqual([]);
  const known = [...METADATA_KEYS, TRUST_BUNDLE_SIGNER];
  expect(written.filter((key = '') => !known.includes(key))).toEqual([]);
  const texts = [...textsIn('src'), ...textsIn('scripts/chart'), CLIENT_CERT_SECRET_NAME].join();
  expect(METADATA_KEYS.filter((key) => !texts.includes(key.replace('<version>', '')))).toEqual([]);
});

test('no documented annotation of an object that users write counts as misspelt', () => {
  const ofOthers =
    /\.dev\/(ca-propagation-wait|compat|epoch|namespaces|opened-by|opener-scope|proof|reads-reviewed|rollback|sweep-due|without)$/;
  const misspelt = ANNOTATION_KEYS.filter((key) => !ofOthers.test(key)).flatMap(
    (key) => annotationProblem('ConfigMap', { [key]: '' }) ?? [],
  );
  expect(misspelt.filter((problem) => problem.includes('is not an annotation'))).toEqual([]);
});

import { expect, test } from 'vitest';

import { customResourceDefinitions } from './crds.ts';

/** Short names of Kubernetes and of common projects. */
const TAKEN = {
  Kubernetes: 'cm cs crd crds csr ep ev pc pv rc rs',
  Kubewarden: 'ap apg cap capg',
  Kyverno: 'cpol pol polex cleanpol ccleanpol gctxentry ur vpol mpol gpol ivpol',
  'policy reports': 'polr cpolr ephr cephr report creport',
  'cert-manager': 'cert certs cr crs issuer clusterissuer',
  'Argo CD': 'app apps appset appproj',
};

const specs = customResourceDefinitions().map(({ manifest }) => {
  // through JSON: `manifest` is any object
  const { spec } = JSON.parse(JSON.stringify(manifest)) as {
    spec: {
      names: { kind: string; shortNames: readonly string[]; categories: readonly string[] };
      versions: readonly { additionalPrinterColumns: readonly { type: string; jsonPath: string }[] }[];
    };
  };
  return spec;
});
const names = specs.map((spec) => spec.names);

test.each(names)('the short name of $kind belongs to no other project', ({ shortNames }) => {
  expect(shortNames).toEqual([expect.stringMatching(/^(gh[a-z]+|pex)$/)]);
  expect(Object.values(TAKEN).join(' ').split(' ')).not.toContain(shortNames[0]);
});

test('no two kinds share a short name', () => {
  const all = names.flatMap(({ shortNames }) => shortNames);
  expect(new Set(all).size).toBe(all.length);
});

test('`kubectl get gatehouse` lists every kind, and `kubectl get all` none', () => {
  expect(names.map(({ categories }) => categories)).toEqual(names.map(() => ['gatehouse']));
});

test('only the age is a date column: kubectl prints `<invalid>` for a time in the future, such as that of a held intent', () => {
  const columns = specs.flatMap(({ versions }) => versions.flatMap((one) => one.additionalPrinterColumns));
  const dates = columns.filter(({ type }) => type === 'date').map(({ jsonPath }) => jsonPath);
  expect(new Set(dates)).toEqual(new Set(['.metadata.creationTimestamp']));
});

import { expect, test } from 'vitest';

import { defineController, type ControllerDefinition } from '../controllers/controller.ts';
import { controllerRoles } from './manifests.ts';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

const define = (parts: Partial<ControllerDefinition>) =>
  defineController({
    watch: { apiGroups: ['example.com'], apiVersions: ['v1'], resources: ['teams'] },
    reconcile: () => undefined,
    ...parts,
  });
function rulesFor(parts: Partial<ControllerDefinition>): readonly Rule[] {
  const [role] = controllerRoles([{ name: 'teams', origin: 'teams.ts', controller: define(parts) }], 'home');
  return (role as unknown as { readonly rules: readonly Rule[] }).rules;
}

test('a kind in reads can be read although the controller owns the kind that it watches', () => {
  const owns = [{ apiGroups: ['example.com'], apiVersions: ['v1'], resources: ['teams'] }] as const;
  expect(
    rulesFor({ owns, reads: ['nodes', 'namespaces'] }).filter(({ verbs }) => verbs.length === 3),
  ).toEqual([
    { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'list', 'watch'] },
    { apiGroups: [''], resources: ['namespaces'], verbs: ['get', 'list', 'watch'] },
  ]);
});

test('the exception of the backstop names the API group: secrets of an API group are no Secrets', () => {
  const owns = [
    { apiGroups: ['vault.example.com'], apiVersions: ['v1'], resources: ['secrets'] },
    { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'] },
  ] as const;
  expect(rulesFor({ owns }).find(({ resources }) => resources.includes('ownedkinds'))).toMatchObject({
    resourceNames: ['secrets.vault.example.com', 'configmaps'],
  });
});

test.each<[string, Partial<ControllerDefinition>]>([
  ['a wildcard', { owns: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['*'] }] }],
  ['a wildcard group', { owns: [{ apiGroups: ['*'], apiVersions: ['v1'], resources: ['pods'] }] }],
  ['a subresource', { owns: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods/exec'] }] }],
  ['a wildcard to read', { reads: ['*'] }],
  ['a subresource to read', { reads: ['pods/log'] }],
])('%s is refused', (_what, parts) => {
  expect(() => define(parts)).toThrow('defineController: ');
});

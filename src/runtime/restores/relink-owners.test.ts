import { expect, test } from 'vitest';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { policyOf } from '../../../test/support/admission/policy.ts';
import { groupResourceName, type KubeObject } from '../../json/kube-object.ts';
import { relinkStored } from './relink-owners.ts';
import type { Relink } from './relink.ts';
import type { RelinkMode } from '../../restore/window.ts';

const preserve = { owners: { preserve: true } };
const match = (resource: string, rest: object = {}) => ({
  match: { apiGroups: ['infra.example.com'], resources: [resource], ...rest },
});

async function relinked(
  policies: readonly CompiledPolicy[],
  stored: Readonly<Record<string, readonly KubeObject[] | string>>,
  modeOf: (object: KubeObject) => RelinkMode = () => 'Link',
) {
  const seen: string[] = [];
  const relink: Relink = (resource, { metadata = {} }, { mode }) => {
    const suffix = mode === 'Link' ? '' : ` ${mode}`;
    seen.push(`${groupResourceName(resource)}/${metadata.name ?? ''}${suffix}`);
    return Promise.resolve([
      {
        object: { apiVersion: '', kind: '', name: metadata.name ?? '' },
        owner: { apiVersion: '', kind: '', name: '' },
        result: 'Linked',
      },
    ]);
  };
  const result = await relinkStored(
    {
      pages: async function* ({ resource }) {
        const page = stored[resource] ?? [];
        if (typeof page === 'string') throw new Error(page);
        for (const object of page) yield await Promise.resolve([object]);
      },
      namespaceLabels: () =>
        Promise.resolve(
          new Map([
            ['shop', { tier: 'gold' }],
            ['dev', {}],
          ]),
        ),
    },
    policies,
    { owners: relink, uids: () => Promise.resolve([]) },
    { modeOf: (_resource, one) => ({ mode: modeOf(one) }), isRestored: () => true },
    new AbortController().signal,
  );
  return { seen, items: result.items.length, unreadable: result.unreadable };
}

const object = (name: string, namespace = 'shop') => ({ metadata: { name, namespace } });

test('each object of a kind with preserved owners is relinked once, however many policies govern it', async () => {
  const policies = [
    policyOf({ ...match('servers'), ...preserve }, 'one'),
    policyOf({ ...match('servers'), ...preserve }, 'two'),
    policyOf({ ...match('disks') }, 'three'),
  ];
  const stored = { servers: [object('a'), object('b')], disks: [object('c')] };
  expect(await relinked(policies, stored)).toEqual({
    seen: ['servers.infra.example.com/a', 'servers.infra.example.com/b'],
    items: 2,
    unreadable: [],
  });
});

test('objects that no policy selects are left alone', async () => {
  const selective = match('servers', { namespaceSelector: { matchLabels: { tier: 'gold' } } });
  const policies = [policyOf({ ...selective, ...preserve })];
  const { seen } = await relinked(policies, { servers: [object('a'), object('b', 'dev')] });
  expect(seen).toEqual(['servers.infra.example.com/a']);
});

test('a kind that cannot be read is reported, and the others are relinked', async () => {
  const policies = [
    policyOf({ ...match('servers'), ...preserve }, 'one'),
    policyOf({ ...match('disks'), ...preserve }, 'two'),
  ];
  expect(await relinked(policies, { servers: 'forbidden', disks: [object('c')] })).toEqual({
    seen: ['disks.infra.example.com/c'],
    items: 1,
    unreadable: ['servers.infra.example.com: forbidden'],
  });
});

test('an object whose mode is Off is left alone, and each object has its own mode', async () => {
  const stored = { servers: [object('a'), object('b', 'dev'), object('c')] };
  const { seen } = await relinked([policyOf({ ...match('servers'), ...preserve })], stored, ({ metadata }) =>
    metadata?.namespace === 'dev' ? 'Off' : metadata?.name === 'c' ? 'Report' : 'Link',
  );
  expect(seen).toEqual(['servers.infra.example.com/a', 'servers.infra.example.com/c Report']);
});

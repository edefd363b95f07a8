import { expect, test } from 'vitest';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { policyOf } from '../../../test/support/admission/policy.ts';
import { groupResourceName, type KubeObject } from '../../json/kube-object.ts';
import { relinkStored, relinkMode } from './relink-owners.ts';
import type { Relink } from './relink.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';

const OPTIONS = { mode: 'Link', isRestored: () => true } as const;
const preserve = { owners: { preserve: true } };
const match = (resource: string, rest: object = {}) => ({
  match: { apiGroups: ['infra.example.com'], resources: [resource], ...rest },
});

async function relinked(
  policies: readonly CompiledPolicy[],
  stored: Readonly<Record<string, readonly KubeObject[] | string>>,
) {
  const seen: string[] = [];
  const relink: Relink = (resource, { metadata = {} }) => {
    seen.push(`${groupResourceName(resource)}/${metadata.name ?? ''}`);
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
    relink,
    OPTIONS,
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

const mode = (sweep?: RestoreWindow['spec']['sweep']) =>
  relinkMode({
    metadata: { name: 'w' },
    spec: { principals: [], expiresAt: '2026-11-21T18:00:00Z', ...(sweep === undefined ? {} : { sweep }) },
  });

test('owners are linked unless the window turns it off or waits for approval', () => {
  expect(mode()).toBe('Link');
  expect(mode({ relinkOwners: 'Off' })).toBe('Off');
  expect(mode({ relinkOwners: 'Report' })).toBe('Report');
  expect(mode({ requireApprovalToLink: true })).toBe('Report');
  expect(mode({ requireApprovalToLink: true, approved: true })).toBe('Link');
  expect(mode({ relinkOwners: 'Off', requireApprovalToLink: true })).toBe('Off');
});

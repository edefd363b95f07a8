import type { V1Deployment } from '@kubernetes/client-node';
import { expect, expectTypeOf, test } from 'vitest';

import type { UntypedObject } from '../admission/handlers/handler.ts';
import { defineController, type ControllerContext } from './controller.ts';
import { runController } from './run-controller.ts';
import { watching } from './watch-map.ts';

declare module './kinds.ts' {
  interface Kinds {
    readonly 'users.people.example.com': {
      readonly apiVersion: 'people.example.com/v1';
      readonly kind: 'User';
      readonly metadata?: { readonly name?: string };
      readonly spec: { readonly mail: string };
    };
  }
}

const WATCH = { apiGroups: ['example.com'], apiVersions: ['v1'], resources: ['teams'] } as const;
const team = { apiVersion: 'example.com/v1', kind: 'Team', metadata: { namespace: 'a', name: 'x' } };

/** Only compiled: the types are the test. */
export async function typed(
  { apply, get, list }: ControllerContext,
  deployment: V1Deployment,
): Promise<void> {
  const secret = await get('secrets', { name: 'a' });
  expectTypeOf(secret?.data).toEqualTypeOf<Readonly<Record<string, string>> | undefined>();
  expectTypeOf(secret?.metadata?.creationTimestamp).toEqualTypeOf<string | undefined>();
  const [pod] = await list('pods');
  expectTypeOf(pod?.status?.phase).toEqualTypeOf<string | undefined>();
  const user = await get('users.people.example.com', { name: 'a' });
  expectTypeOf(user?.spec.mail).toEqualTypeOf<string | undefined>();
  expectTypeOf(await get('boards.example.com', { name: 'a' })).toExtend<UntypedObject | undefined>();
  const board = await get<{ spec: { size: number } }>('boards.example.com', { name: 'a' });
  expectTypeOf(board?.spec.size).toEqualTypeOf<number | undefined>();

  const namespace = await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a' } });
  expectTypeOf(namespace.metadata?.uid).toEqualTypeOf<string | undefined>();
  expectTypeOf(namespace.kind).toEqualTypeOf<'Namespace'>();
  const stored = await apply(deployment);
  expectTypeOf(stored.status?.readyReplicas).toEqualTypeOf<number | undefined>();
  const own = await apply({
    apiVersion: 'people.example.com/v1',
    kind: 'User',
    metadata: { name: 'a' },
    spec: { mail: 'a@example.com' },
  });
  expectTypeOf(own.spec.mail).toEqualTypeOf<string>();
  const other = await apply({
    apiVersion: 'example.com/v1',
    kind: 'Board',
    metadata: { name: 'a' },
    spec: { size: 1 },
  });
  expectTypeOf(other.kind).toExtend<string | undefined>();
  // @ts-expect-error a typo in a field of a known kind
  await apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, date: {} });
  // @ts-expect-error the quota has another shape
  await apply({ apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'a' }, spec: { hard: 2 } });
  // @ts-expect-error an object needs a name
  await apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { generateName: 'a' } });
}

test('an entry of watches has the type of the kind', () => {
  const { kind } = watching('secrets', {
    when: (secret, before) => secret.data?.a !== before.data?.a,
    map: ({ metadata, type }) => [{ name: `${metadata?.name}-${type}` }],
  });
  expect(kind).toBe('secrets');
  expect(() =>
    defineController({
      watch: WATCH,
      watches: [watching('secrets', { map: 1 as never })],
      reconcile: () => undefined,
    }),
  ).toThrow('watches: write a list of objects with a kind such as "secrets" and a function map');
});

test.each<[what: string, object: object, problem: string]>([
  ['a kind', { apiVersion: 'v1', metadata: { name: 'a' } }, 'the object a needs apiVersion and kind'],
  ['a name', { apiVersion: 'v1', kind: 'ConfigMap', metadata: {} }, 'ConfigMap: metadata.name is missing'],
  ['metadata', { apiVersion: 'v1', kind: 'ConfigMap' }, 'ConfigMap: metadata.name is missing'],
])('apply without %s names the problem', async (_what, object, problem) => {
  const controller = defineController({
    watch: WATCH,
    owns: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'] }],
    reconcile: async (_team, { apply }) => {
      await apply(object);
    },
  });
  expect((await runController(controller, { object: team })).error?.message).toContain(problem);
});

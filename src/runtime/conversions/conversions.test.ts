import { containing, NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import { beforeEach, describe, expect, test } from 'vitest';

import type { Definition } from '../../admission/conversion/definition.ts';
import {
  definitionOf,
  policyOf,
  serversSpec,
  threeVersions,
  v1Schema,
  v2Schema,
  v3Schema,
} from '../../../test/support/admission/conversion.ts';
import type { ConversionPolicy, ConversionPolicySpec } from '../../api/conversion-policy.ts';
import {
  createConversionRegistry,
  type ConversionRegistry,
  createConversionsReconciler,
  type DefinitionRead,
} from './conversions.ts';
import { createConversionStatusReconciler } from './start-conversions.ts';

const now = new Date('2026-11-21T12:00:00Z');

let policies: Map<string, ConversionPolicy>;
let read: DefinitionRead;
let handlers: Map<string, string>;
let registry: ConversionRegistry;
let changes: number;

beforeEach(() => {
  policies = new Map();
  put('servers', 1);
  define(threeVersions());
  handlers = new Map();
  restart();
});

/** Starts a replica with an empty registry. */
function restart(): void {
  registry = createConversionRegistry(
    [],
    () => 'Server',
    () => [],
  );
  changes = 0;
  registry.subscribe(() => (changes += 1));
}

/** Restarts the replica: only status.inForce names the version that was in force. */
function restartInForce(spec: ConversionPolicySpec): void {
  restart();
  const policy = policies.get('servers');
  if (policy !== undefined)
    policies.set('servers', { ...policy, status: { inForce: { generation: 1, spec } } });
}

function define(definition: Definition | undefined): void {
  read = { kind: 'read', definition };
}

function put(
  name: string,
  generation: number,
  spec: Partial<ConversionPolicySpec> = {},
  more: object = {},
): void {
  const policy = policyOf(spec, name, generation);
  policies.set(name, { ...policies.get(name), ...policy, metadata: { ...policy.metadata, ...more } });
}

const BROKEN: Partial<ConversionPolicySpec> = {
  versions: [{ name: 'v1', toHub: [{ remove: { path: 'metadata.uid' } }] }, { name: 'v3' }],
};

const reconcile = (name = 'servers') =>
  createConversionsReconciler({
    policies: { get: (key) => policies.get(key), list: () => [...policies.values()] },
    definition: () => Promise.resolve(read),
    handler: ({ resource }) => handlers.get(resource),
    registry,
    now: () => now,
    log: silent,
  })(name, NEVER);

const state = (name = 'servers') => registry.get(name);

test('a policy that compiles is in force', async () => {
  expect(await reconcile()).toEqual({ kind: 'await-change' });
  expect(state()).toMatchObject({ generation: 1, problem: undefined, inForce: { generation: 1 } });
});

test('running twice changes nothing the second time', async () => {
  await reconcile();
  await reconcile();
  expect(changes).toBe(1);
  put('servers', 2, BROKEN);
  await reconcile();
  await reconcile();
  expect(changes).toBe(2);
});

test('a deleted policy no longer converts', async () => {
  await reconcile();
  policies.clear();
  await reconcile();
  expect(state()).toBeUndefined();
});

test.each([
  ['', false],
  [' after a restart too, from status.inForce', true],
])('an invalid version leaves the previous one in force%s', async (_when, isRestarted) => {
  await reconcile();
  put('servers', 2, BROKEN);
  if (isRestarted) restartInForce(serversSpec);
  await reconcile();
  expect(state()).toMatchObject({
    generation: 2,
    inForce: { generation: 1, spec: serversSpec },
    problem: {
      reason: 'InvalidPath',
      message: containing('spec.versions[0].toHub[0].remove.path: of metadata'),
    },
  });
});

test('an invalid version without a previous one converts nothing', async () => {
  put('servers', 1, BROKEN);
  await reconcile();
  expect(state()).toMatchObject({ inForce: undefined, problem: { reason: 'InvalidPath' } });
});

describe('a change of the definition', () => {
  const withVersion = (name: string) =>
    definitionOf([
      ...[v1Schema, v2Schema, v3Schema].map((schema, index) => ({ name: `v${index + 1}`, schema })),
      { name, schema: v3Schema },
    ]);

  test('that adds a version without steps is reported, and the other versions still convert', async () => {
    await reconcile();
    define(withVersion('v4'));
    await reconcile();
    expect(state()).toMatchObject({
      inForce: {
        generation: 1,
        converter: { versions: ['v2', 'v1', 'v3'] },
        definition: { versions: { length: 4 } },
      },
      problem: { reason: 'MissingVersion' },
    });
    restartInForce(serversSpec);
    await reconcile();
    expect(state()).toMatchObject({ inForce: { generation: 1 }, problem: { reason: 'MissingVersion' } });
  });

  test('to a new schema changes what a version can hold', async () => {
    await reconcile();
    const before = state()?.inForce;
    define(threeVersions({ preserveUnknownFields: true }));
    await reconcile();
    expect(state()?.inForce).not.toBe(before);
    expect(changes).toBe(2);
  });

  test('to a missing definition keeps the converter until it is back', async () => {
    await reconcile();
    define(undefined);
    await reconcile();
    expect(state()).toMatchObject({ inForce: { generation: 1 }, problem: { reason: 'UnknownTarget' } });
    define(threeVersions());
    await reconcile();
    expect(state()).toMatchObject({ problem: undefined });
  });

  test('that cannot be read is retried', async () => {
    read = { kind: 'unread' };
    expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date(now.getTime() + 5_000) });
    expect(state()).toMatchObject({ inForce: undefined, problem: { reason: 'DefinitionNotRead' } });
  });
});

describe('with two converters for one kind', () => {
  test('the older policy wins on every replica', async () => {
    put('servers', 1, {}, { creationTimestamp: '2026-11-21T12:00:01Z' });
    put('another', 1, {}, { creationTimestamp: '2026-11-21T12:00:00Z' });
    await reconcile();
    await reconcile('another');
    expect(state('another')).toMatchObject({ problem: undefined, inForce: { name: 'another' } });
    expect(state()).toMatchObject({
      inForce: undefined,
      problem: {
        reason: 'Conflict',
        message:
          'servers.infra.example.com is converted by ConversionPolicy another already: delete one of the two',
      },
    });
    policies.delete('another');
    await reconcile();
    expect(state()).toMatchObject({ problem: undefined, inForce: { name: 'servers' } });
  });

  test('a handler wins', async () => {
    handlers.set('servers', 'handler servers');
    await reconcile();
    expect(state()).toMatchObject({
      inForce: undefined,
      problem: { reason: 'Conflict', message: containing('handler servers') },
    });
  });
});

describe('the status', () => {
  const written: ConversionPolicy['status'][] = [];
  beforeEach(() => {
    written.length = 0;
  });
  const report = () =>
    createConversionStatusReconciler(
      {
        replaceStatus: (_kind, policy) => {
          const live = policy as unknown as ConversionPolicy; // the only kind that this controller writes
          written.push(live.status);
          policies.set(live.metadata.name ?? '', live);
          return Promise.resolve(policy);
        },
      },
      policies,
      registry,
      { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 },
      () => now,
    )('servers', NEVER);

  test('reports that the policy converts, and what to write into the definition', async () => {
    await reconcile();
    await report();
    await report();
    expect(written).toMatchObject([
      {
        observedGeneration: 1,
        conditions: [
          {
            type: 'Ready',
            status: 'True',
            reason: 'InForce',
            observedGeneration: 1,
            message: 'generation 1 converts',
          },
          {
            type: 'Installed',
            status: 'False',
            reason: 'NotInstalled',
            message: containing('path: /convert/servers.infra.example.com'),
          },
        ],
        inForce: { generation: 1, spec: serversSpec },
      },
    ]);
  });

  test('reports the problem, and keeps the version in force', async () => {
    await reconcile();
    await report();
    put('servers', 2, BROKEN);
    await reconcile();
    await report();
    expect(written[1]).toMatchObject({
      conditions: [
        {
          type: 'Ready',
          status: 'False',
          reason: 'InvalidPath',
          message: containing('(generation 1 stays in force)'),
        },
        {},
        { type: 'Stalled', status: 'True', reason: 'InvalidPath' },
      ],
      inForce: { generation: 1 },
    });
  });

  test('is only written for the generation that was compiled', async () => {
    await reconcile();
    put('servers', 2);
    await report();
    expect(written).toEqual([]);
  });

  test('is not written while the definition cannot be read', async () => {
    read = { kind: 'unread' };
    await reconcile();
    await report();
    expect(written).toEqual([]);
  });

  test('of a policy that loses to another one drops its version in force', async () => {
    await reconcile();
    await report();
    handlers.set('servers', 'handler servers');
    await reconcile();
    await report();
    expect(written[1]).not.toHaveProperty('inForce');
  });
});

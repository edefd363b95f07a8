import { containing, NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import { beforeEach, describe, expect, test } from 'vitest';

import type { Converter } from '../../admission/conversion/converter.ts';
import type { Definition } from '../../admission/conversion/definition.ts';
import { compiled, policyOf, threeVersions } from '../../../test/support/admission/conversion.ts';
import type { ConversionPolicy, ConversionPolicySpec } from '../../api/conversion-policy.ts';
import {
  createConversionRegistry,
  type ConversionRegistry,
  type ConversionState,
  createConversionsReconciler,
  type DefinitionRead,
} from './conversions-reconciler.ts';
import { createConversionStatusReconciler, startConversions } from './start-conversions.ts';
import { createListedContext } from '../../../test/support/runtime/listed-rest.ts';

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
  const none = () => [];
  registry = createConversionRegistry([], () => 'Server', none);
  changes = 0;
  registry.subscribe(() => (changes += 1));
});

function define(definition: Definition | undefined): void {
  read = { kind: 'read', definition };
}

function put(name: string, generation: number, spec: Partial<ConversionPolicySpec> = {}): void {
  policies.set(name, { ...policies.get(name), ...policyOf(spec, name, generation) });
}

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

test('running twice changes nothing the second time', async () => {
  await reconcile();
  await reconcile();
  expect(changes).toBe(1);
  const toHub = [{ remove: { path: 'metadata.uid' } }];
  put('servers', 2, { versions: [{ name: 'v1', toHub }, { name: 'v3' }] }); // broken
  await reconcile();
  await reconcile();
  expect(changes).toBe(2);
});

describe('a change of the definition', () => {
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

describe('the status', () => {
  const written: ConversionPolicy['status'][] = [];
  beforeEach(() => void (written.length = 0));
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

test('objects are not converted until the policies of their group are compiled', async () => {
  const { context, lists, signal } = createListedContext();
  const definitions = Promise.withResolvers<readonly []>();
  lists.set('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definitions.promise);
  lists.set('/apis/gatehouse.dev/v1alpha1/conversionpolicies', [policyOf({}, 'servers', 1)]);
  const { serving, checks } = startConversions(context, [], signal);
  const patient = { timeout: 5_000 };
  await expect.poll(() => checks.conversions?.(), patient).toBe('not compiled yet: servers');
  const lookUp = (group: string) => serving.lookUp({ group, kind: 'Server', definition: undefined });
  const message = 'this replica has not read ConversionPolicy servers yet';
  expect(lookUp('infra.example.com')).toEqual({ kind: 'unready', message });
  expect(lookUp('other.example.com')).toMatchObject({ kind: 'none' });
  definitions.resolve([]);
  await expect.poll(() => checks.conversions?.(), patient).toBeUndefined();
  expect(lookUp('infra.example.com')).toMatchObject({ kind: 'none' });
});

describe('a lookup', () => {
  const GROUP = 'infra.example.com';
  const SERVERS = { group: GROUP, resource: 'servers' };
  const NAME = 'servers.infra.example.com';
  const inForce = compiled();
  const healthy: ConversionState = {
    inForce,
    problem: undefined,
    generation: 1,
    target: SERVERS,
    definition: inForce.definition,
  };
  const broken = (reason: string) => {
    const problem = { reason, message: 'spec.x: no' };
    return { ...healthy, inForce: undefined, problem };
  };
  const converter = (resource: string, name = `handler ${resource}`): Converter => {
    const target = { group: GROUP, resource };
    return { name, target, versions: undefined, convert: (object) => object };
  };
  type NotCompiled = Parameters<typeof createConversionRegistry>[2];
  const kinds: Readonly<Record<string, string>> = { servers: 'Server', racks: 'Rack' };
  const kindOf = ({ resource }: { readonly resource: string }) => kinds[resource];
  const create = (converters: readonly Converter[] = [], notCompiled: NotCompiled = () => []) =>
    createConversionRegistry(converters, kindOf, notCompiled);
  const lookUp = (kind = 'Server', definition?: string, group = GROUP) =>
    registry.lookUp({ group, kind, definition });

  const FOUND = { kind: 'found', converter: inForce.converter };
  const UNREADY = { kind: 'unready' };
  const none = (message: string) => ({ kind: 'none', message: containing(message) });
  const unread = broken('DefinitionNotRead');
  const misplaced = none(`/convert/${NAME}, which converts Server, for`);
  const unknown = (kind: string, group = GROUP) =>
    none(`kind ${kind} of ${group}: no ConversionPolicy or handler found`);

  test.each<[string, ConversionState, Parameters<typeof lookUp>, object]>([
    ['finds a policy by the kind of the objects', healthy, ['Server'], FOUND],
    ['finds a policy by the name in the path', healthy, ['Server', NAME], FOUND],
    ['of another kind', healthy, ['Rack'], unknown('Rack')],
    ['of another group', healthy, ['Server', undefined, 'x.io'], unknown('Server', 'x.io')],
    ['of another definition', healthy, ['Server', 'racks.infra.example.com'], unknown('Server')],
    ['with a wrong path', healthy, ['Rack', NAME], misplaced],
    ['of a policy that never compiled', broken('InvalidPath'), ['Server'], none('InvalidPath: spec.x')],
    ['without a definition', unread, ['Server', NAME], UNREADY],
  ])('%s', (_what, known, where, expected) => {
    registry = create();
    registry.set('servers', known);
    expect(lookUp(...where)).toMatchObject(expected);
  });

  test('is not ready until all policies of the group are read', () => {
    registry = create([], () => undefined);
    expect(lookUp()).toMatchObject({ kind: 'unready', message: containing('read the ConversionPolicies') });
    registry = create([], (group) => (group === GROUP ? ['ConversionPolicy servers'] : []));
    expect(lookUp()).toMatchObject({ kind: 'unready', message: containing('read ConversionPolicy servers') });
    expect(lookUp('Server', undefined, 'other')).toMatchObject({ kind: 'none' });
    registry.set('servers', healthy);
    expect(lookUp()).toMatchObject({ kind: 'found' });
  });

  test('prefers handlers; two handlers for one kind prevent the start', () => {
    registry = create([converter('racks'), converter('servers')]);
    registry.set('servers', healthy);
    expect(lookUp('Rack')).toMatchObject({ converter: { name: 'handler racks' } });
    expect(lookUp()).toMatchObject({ converter: { name: 'handler servers' } });
    expect(() => create([converter('racks'), converter('racks', 'handler other')])).toThrow(
      'handler racks and handler other both convert racks.infra.example.com: remove one of them',
    );
  });
});

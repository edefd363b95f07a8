import { beforeEach, describe, expect, test } from 'vitest';

import type { Converter } from '../../admission/conversion/converter.ts';
import { containing } from '../../../test/support/runtime/fixtures.ts';
import { compiled } from '../../../test/support/admission/conversion.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { createConversionRegistry, type ConversionRegistry, type ConversionState } from './conversions.ts';

const GROUP = 'infra.example.com';
const SERVERS = { group: GROUP, resource: 'servers' };
const KINDS: Readonly<Record<string, string>> = { servers: 'Server', racks: 'Rack' };

const inForce = compiled();
const state = (change: Partial<ConversionState> = {}): ConversionState => ({
  inForce,
  problem: undefined,
  generation: 1,
  target: SERVERS,
  definition: inForce.definition,
  ...change,
});
const handler = (resource: string): Converter => ({
  name: `handler ${resource}`,
  target: { group: GROUP, resource },
  versions: undefined,
  convert: (object) => object,
});

let registry: ConversionRegistry;
const create = (
  handlers: readonly Converter[] = [],
  notCompiled: (group: string) => readonly string[] | undefined = () => [],
) =>
  createConversionRegistry(
    handlers,
    ({ group, resource }) => (group === GROUP ? KINDS[resource] : undefined),
    notCompiled,
  );
beforeEach(() => {
  registry = create();
});

const lookUp = (kind = 'Server', definition?: string, group = GROUP) =>
  registry.lookUp({ group, kind, definition });

test('a policy in force is found by the kind of the objects and by the name in the path', () => {
  registry.set('servers', state());
  expect(lookUp()).toEqual({ kind: 'found', converter: inForce.converter });
  expect(lookUp('Server', groupResourceName(SERVERS))).toMatchObject({ kind: 'found' });
});

test('a path that names another kind is a mistake, and the message explains it', () => {
  registry.set('servers', state());
  expect(lookUp('Rack', groupResourceName(SERVERS))).toMatchObject({
    kind: 'none',
    message: containing(
      '/convert/servers.infra.example.com, which converts Server, for objects of kind Rack',
    ),
  });
});

describe('no converter exists for', () => {
  test.each([
    ['another kind', 'Rack', undefined, GROUP],
    ['another group', 'Server', undefined, 'other.example.com'],
    ['another definition', 'Server', 'racks.infra.example.com', GROUP],
  ])('%s', (_what, kind, definition, group) => {
    registry.set('servers', state());
    expect(lookUp(kind, definition, group)).toEqual({
      kind: 'none',
      message: `Gatehouse has no ConversionPolicy and no handler for kind ${kind} of ${group}: create one, or set spec.conversion of its CustomResourceDefinition to another webhook or to strategy: None`,
    });
  });

  test('the kind of a policy that never compiled, and the message has its problem', () => {
    registry.set(
      'servers',
      state({ inForce: undefined, problem: { reason: 'InvalidPath', message: 'spec.x: no' } }),
    );
    expect(lookUp()).toEqual({
      kind: 'none',
      message: 'ConversionPolicy servers is not in force: InvalidPath: spec.x: no',
    });
  });

  test('the kind of a deleted policy', () => {
    registry.set('servers', state());
    registry.remove('servers');
    expect(lookUp()).toMatchObject({ kind: 'none' });
  });
});

test('an invalid version leaves the previous one in force', () => {
  registry.set('servers', state({ problem: { reason: 'InvalidPath', message: 'no' }, generation: 2 }));
  expect(lookUp()).toMatchObject({ kind: 'found' });
});

test('until all policies are read, the lookup is not ready', () => {
  registry = create([], () => undefined);
  expect(lookUp()).toEqual({
    kind: 'unready',
    message: 'this replica has not read the ConversionPolicies yet',
  });
  registry = create([], (group) => (group === GROUP ? ['ConversionPolicy servers'] : []));
  expect(lookUp()).toEqual({
    kind: 'unready',
    message: 'this replica has not read ConversionPolicy servers yet',
  });
  expect(lookUp('Server', undefined, 'other')).toMatchObject({ kind: 'none' });
  registry.set('servers', state());
  expect(lookUp()).toMatchObject({ kind: 'found' });
});

test('while a definition cannot be read, the lookup is not ready', () => {
  const problem = { reason: 'DefinitionNotRead', message: 'not yet' };
  registry.set('servers', state({ inForce: undefined, problem }));
  expect(lookUp('Server', 'servers.infra.example.com')).toMatchObject({ kind: 'unready' });
});

test('handlers convert too, and take precedence over a policy', () => {
  registry = create([handler('racks'), handler('servers')]);
  registry.set('servers', state());
  expect(lookUp('Rack')).toMatchObject({ converter: { name: 'handler racks' } });
  expect(lookUp()).toMatchObject({ converter: { name: 'handler servers' } });
});

test('two handlers for one kind prevent the start', () => {
  expect(() => create([handler('racks'), { ...handler('racks'), name: 'handler other' }])).toThrow(
    'handler racks and handler other both convert racks.infra.example.com: remove one of them',
  );
});

test('every change notifies the subscribers', () => {
  const told: string[] = [];
  registry.subscribe((name) => told.push(name));
  registry.set('servers', state());
  registry.remove('servers');
  registry.remove('servers');
  expect(told).toEqual(['servers', 'servers']);
});

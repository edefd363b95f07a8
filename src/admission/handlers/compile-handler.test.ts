import { describe, expect, test } from 'vitest';

import {
  compileHandler,
  handlerOfEntry,
  isGoverned,
  mutatedOperations,
  readKindOf,
  validatedOperations,
} from './compile-handler.ts';
import { defineHandler } from './define-handler.ts';
import type { HandlerDefinition } from './handler.ts';
import {
  compiled,
  ENVIRONMENT,
  MATCH,
  requestOf,
  testServer,
} from '../../../test/support/admission/handler.ts';

const nothing = () => undefined;

function problemsOf(definition: Partial<HandlerDefinition>, environment = ENVIRONMENT) {
  const handler = defineHandler({ match: MATCH, validate: nothing, ...definition });
  const result = compileHandler('servers', handler, environment);
  return result.kind === 'rejected' ? result.problems : [];
}

test('what is not said has the defaults of a policy', () => {
  const { match, onError, entryId } = compiled({
    match: { apiGroups: ['infra.example.com'], resources: ['servers'] },
    validate: nothing,
  });
  expect(match).toMatchObject({
    apiVersions: ['*'],
    operations: ['CREATE', 'UPDATE'],
    failurePolicy: 'Fail',
    timeoutSeconds: 5,
  });
  expect({ onError, entryId }).toEqual({ onError: 'failurePolicy', entryId: 'handler-servers' });
  expect(handlerOfEntry(entryId)).toBe('servers');
  expect(handlerOfEntry('fail-5s-0123456789')).toBeUndefined();
});

describe('scopes that are refused to policies are refused to handlers', () => {
  test.each<[string, Partial<HandlerDefinition['match']>, Partial<HandlerDefinition>, RegExp]>([
    ['all groups', { apiGroups: ['*'] }, {}, /^match\.apiGroups: .*leases/],
    [
      'leases',
      { apiGroups: ['coordination.k8s.io'], resources: ['leases'] },
      {},
      /^match\.resources: .*lose/,
    ],
    ['nodes', { apiGroups: [''], resources: ['nodes'] }, {}, /failurePolicy: Ignore/],
    ['policies', { apiGroups: ['gatehouse.dev'], resources: ['admissionpolicies'] }, {}, /^match\.resources/],
    [
      'the namespace of Gatehouse',
      { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'gatehouse-system' } } },
      {},
      /^match\.namespaceSelector: .*in which Gatehouse itself runs/,
    ],
    [
      'a kind instead of a plural',
      { resources: ['Server'] },
      {},
      /^match\.resources: "Server" is not a plural/,
    ],
  ])('%s', (_what, match, definition, message) => {
    expect(problemsOf({ match: { ...MATCH, ...match }, ...definition })).toEqual([
      expect.stringMatching(message) as string,
    ]);
  });

  test('nodes may be governed by one that is not waited for', () => {
    const match = { ...MATCH, apiGroups: [''], resources: ['nodes'] };
    expect(problemsOf({ match, failurePolicy: 'Ignore' })).toEqual([]);
  });

  test('matchConditions need an API server that knows them', () => {
    const match = { ...MATCH, matchConditions: [{ name: 'a', expression: 'true' }] };
    expect(problemsOf({ match })).toEqual([]);
    expect(problemsOf({ match }, { ...ENVIRONMENT, matchConditions: false })).toHaveLength(1);
  });
});

test('mutate is asked about on writes alone, validate on all operations', () => {
  const both = compiled({ mutate: nothing, validate: nothing });
  expect(mutatedOperations(both)).toEqual(['CREATE', 'UPDATE']);
  expect(validatedOperations(both)).toEqual(['CREATE', 'DELETE', 'UPDATE']);
  const validating = compiled({ validate: nothing });
  expect(mutatedOperations(validating)).toEqual([]);
  expect(problemsOf({ match: { ...MATCH, operations: ['DELETE'] }, mutate: nothing })).toEqual([
    expect.stringContaining('it would never be called') as string,
  ]);
});

test.each([
  ['what it asked for', {}, true],
  ['another operation', { operation: 'CONNECT' }, false],
  ['another group', { resource: { group: 'x', version: 'v1', resource: 'servers' } }, false],
  [
    'another version',
    { resource: { group: 'infra.example.com', version: 'v2', resource: 'servers' } },
    false,
  ],
  ['another resource', { resource: { group: 'infra.example.com', version: 'v1', resource: 'racks' } }, false],
  ['a subresource', { subResource: 'status' }, false],
])('whether it governs %s', (_what, fields, expected) => {
  const request = requestOf({ oldObject: testServer(), ...fields });
  expect(isGoverned(compiled({ validate: nothing }), request)).toBe(expected);
});

describe('reads', () => {
  test('are the kinds that it governs when it names none', () => {
    const { reads, namesReads } = compiled({
      match: { ...MATCH, resources: ['servers', 'servers/status', 'racks'] },
      validate: nothing,
    });
    expect(reads.map(({ resource }) => resource)).toEqual(['racks', 'servers']);
    expect(namesReads).toBe(false);
    expect(compiled({ reads: [], validate: nothing })).toMatchObject({ reads: [], namesReads: true });
  });

  test('are found by their whole name, and by their plural when only one is called that', () => {
    const { reads } = compiled({
      reads: [
        'secrets',
        'events',
        'events.events.k8s.io',
        { apiGroup: 'a.b', apiVersion: 'v2', resource: 'racks' },
      ],
      validate: nothing,
    });
    expect(readKindOf(reads, 'racks')).toEqual({
      group: 'a.b',
      resource: 'racks',
      version: 'v2',
      metadataOnly: false,
    });
    expect(readKindOf(reads, 'events')).toMatchObject({ group: '' }); // the full name in the core group
    expect(readKindOf(reads, 'events.events.k8s.io')).toMatchObject({ group: 'events.k8s.io' });
    expect(readKindOf(reads, 'pods')).toContain('add it there');
    expect(readKindOf([], 'pods')).toContain('no kinds');
  });
});

test('a conversion is of one kind', () => {
  const convert = { hub: 'v2', versions: { v1: { toHub: nothing, fromHub: nothing } } };
  expect(compiled({ convert }).converter).toMatchObject({
    name: 'handler servers',
    target: { group: 'infra.example.com', resource: 'servers' },
    versions: ['v2', 'v1'],
  });
  expect(problemsOf({ convert, match: { ...MATCH, resources: ['servers', 'racks'] } })).toHaveLength(1);
  expect(problemsOf({ convert, match: { ...MATCH, resources: ['*'] } })).toHaveLength(1);
});

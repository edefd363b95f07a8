import { expect, test } from 'vitest';

import { acceptedNames, conditionsOf } from './definition.ts';
import { definition, established, NAMES, NOW } from '../../../test/support/sandbox/crd.ts';
import { planDefinitionStatus } from './status.ts';

const LATER = '2026-02-03T04:05:06Z';

test('a definition without conflicting names is accepted and established immediately', () => {
  expect(established().status).toEqual({
    conditions: [
      {
        type: 'NamesAccepted',
        status: 'True',
        lastTransitionTime: NOW,
        reason: 'NoConflicts',
        message: 'no conflicts found',
      },
      {
        type: 'Established',
        status: 'True',
        lastTransitionTime: NOW,
        reason: 'InitialNamesAccepted',
        message: 'the initial names have been accepted',
      },
    ],
    acceptedNames: NAMES,
    storedVersions: ['v1'],
  });
});

test.each([
  ['plural', { plural: 'servers', singular: 'x', kind: 'X', listKind: 'XList' }, 'PluralConflict', 'servers'],
  [
    'singular',
    { plural: 'xs', singular: 'server', kind: 'X', listKind: 'XList' },
    'SingularConflict',
    'server',
  ],
  ['kind', { plural: 'xs', singular: 'x', kind: 'Server', listKind: 'XList' }, 'KindConflict', 'Server'],
  [
    'list kind',
    { plural: 'xs', singular: 'x', kind: 'X', listKind: 'ServerList' },
    'ListKindConflict',
    'ServerList',
  ],
  [
    'short name',
    { plural: 'xs', singular: 'x', kind: 'X', listKind: 'XList', shortNames: ['srv'] },
    'ShortNamesConflict',
    'srv',
  ],
])('a %s that another definition of the group already has is not accepted', (_what, names, reason, taken) => {
  const planned = planDefinitionStatus(definition({ names }), [established()], NOW);
  expect(conditionsOf(planned)).toEqual([
    {
      type: 'NamesAccepted',
      status: 'False',
      lastTransitionTime: NOW,
      reason,
      message: `"${taken}" is already in use`,
    },
    {
      type: 'Established',
      status: 'False',
      lastTransitionTime: NOW,
      reason: 'NotAccepted',
      message: 'not all names are accepted',
    },
  ]);
});

test('an established definition stays established and keeps its names when it asks for a short name that is taken', () => {
  const rival = established({
    names: { plural: 'xs', singular: 'x', kind: 'X', listKind: 'XList', shortNames: ['x2'] },
  });
  const changed = {
    ...established(),
    spec: definition({ names: { ...NAMES, shortNames: ['x2'] } }).spec ?? null,
  };
  const planned = planDefinitionStatus(changed, [rival], LATER);
  expect(acceptedNames(planned).shortNames).toEqual(['srv']);
  expect(conditionsOf(planned)).toMatchObject([
    { type: 'NamesAccepted', status: 'False', reason: 'ShortNamesConflict', lastTransitionTime: LATER },
    { type: 'Established', status: 'True', lastTransitionTime: NOW },
  ]);
});

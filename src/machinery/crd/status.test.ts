import { expect, test } from 'vitest';

import { acceptedNames, conditionsOf } from './definition.ts';
import { definition, established, NAMES, NOW } from '../../../test/support/sandbox/crd.ts';
import { planDefinitionStatus } from './status.ts';

const LATER = '2026-02-03T04:05:06Z';

const FREE = { plural: 'xs', singular: 'x', kind: 'X', listKind: 'XList' };

test.each([
  ['plural', { plural: 'servers' }, 'PluralConflict', 'servers'],
  ['singular', { singular: 'server' }, 'SingularConflict', 'server'],
  ['kind', { kind: 'Server' }, 'KindConflict', 'Server'],
  ['list kind', { listKind: 'ServerList' }, 'ListKindConflict', 'ServerList'],
  ['short name', { shortNames: ['srv'] }, 'ShortNamesConflict', 'srv'],
])('a %s that another definition of the group already has is not accepted', (_what, names, reason, taken) => {
  const planned = planDefinitionStatus(definition({ names: { ...FREE, ...names } }), [established()], NOW);
  expect(conditionsOf(planned)).toMatchObject([
    { type: 'NamesAccepted', status: 'False', reason, message: `"${taken}" is already in use` },
    { type: 'Established', status: 'False', reason: 'NotAccepted', message: 'not all names are accepted' },
  ]);
});

test('an established definition keeps its names when it asks for a short name that is taken', () => {
  const rival = established({ names: { ...FREE, shortNames: ['x2'] } });
  const { spec = null } = definition({ names: { ...NAMES, shortNames: ['x2'] } });
  const changed = { ...established(), spec };
  const planned = planDefinitionStatus(changed, [rival], LATER);
  expect(acceptedNames(planned).shortNames).toEqual(['srv']);
  expect(conditionsOf(planned)).toMatchObject([
    { type: 'NamesAccepted', status: 'False', reason: 'ShortNamesConflict', lastTransitionTime: LATER },
    { type: 'Established', status: 'True', lastTransitionTime: NOW },
  ]);
});

import { expect, test } from 'vitest';

import { withMeta } from '../api-object.ts';
import { acceptedNames, CLEANUP_FINALIZER, conditionsOf } from './definition.ts';
import { definition, established, NAMES, NOW } from '../../../test/support/sandbox/crd.ts';
import { planDefinitionStatus, setCondition } from './status.ts';

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

test('planning again changes nothing and returns the same object', () => {
  const crd = established();
  expect(planDefinitionStatus(crd, [], LATER)).toBe(crd);
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

test('names in another group do not conflict', () => {
  const planned = planDefinitionStatus(definition(), [established({ group: 'other.example.com' })], NOW);
  expect(acceptedNames(planned).plural).toBe('servers');
});

test('a definition is accepted once the conflicting definition is deleted, and its conditions record the time', () => {
  const names = { plural: 'xs', singular: 'x', kind: 'Server', listKind: 'XList' };
  const refused = planDefinitionStatus(definition({ names }), [established()], NOW);
  const accepted = planDefinitionStatus(refused, [], LATER);
  expect(conditionsOf(accepted)).toMatchObject([
    { type: 'NamesAccepted', status: 'True', lastTransitionTime: LATER },
    { type: 'Established', status: 'True', lastTransitionTime: LATER },
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

test('a definition that is being deleted is terminating until its objects are cleaned up', () => {
  const deleted = withMeta(established(), { deletionTimestamp: LATER, finalizers: [CLEANUP_FINALIZER] });
  expect(conditionsOf(planDefinitionStatus(deleted, [], LATER)).at(-1)).toEqual({
    type: 'Terminating',
    status: 'True',
    lastTransitionTime: LATER,
    reason: 'InstanceDeletionInProgress',
    message: 'CustomResource deletion is in progress',
  });
});

test('a group of the Kubernetes community gets a condition about its approval', () => {
  const crd = withMeta(definition({ group: 'infra.k8s.io' }), {
    annotations: { 'api-approved.kubernetes.io': 'unapproved, experimental-only' },
  });
  expect(conditionsOf(planDefinitionStatus(crd, [], NOW)).at(-1)).toMatchObject({
    type: 'KubernetesAPIApprovalPolicyConformant',
    status: 'False',
    reason: 'UnapprovedAnnotation',
    message: 'not approved: "unapproved, experimental-only"',
  });
});

test('a condition keeps its transition time while its status stays the same', () => {
  const finding = { type: 'Established', status: 'True', reason: 'Other', message: 'other' } as const;
  expect(conditionsOf(setCondition(established(), finding, LATER)).at(-1)).toEqual({
    ...finding,
    lastTransitionTime: NOW,
  });
});

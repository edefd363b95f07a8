import { expect, test } from 'vitest';

import { compiled } from '../../../test/support/runtime/fixtures.ts';
import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { conflictsOf } from './conflicts.ts';

const MATCH = { apiGroups: ['infra.example.com'], resources: ['servers'] };
const writing = (name: string, expression: string, spec: Partial<AdmissionPolicySpec> = {}) =>
  compiled(
    { match: MATCH, validate: {}, mutations: [{ name: 'm', expression }], ...spec },
    { name, generation: 1 },
  );
const TIER = '{"spec": {"tier": "x"}}';
const x = writing('x', TIER, { mutations: [{ name: 'm', expression: TIER, condition: 'true' }] });
const patch = (path: string) => ({
  mutations: [
    {
      name: 'm',
      type: 'JSONPatch' as const,
      expression: `[{"op": "add", "path": "${path}", "value": "y"}]`,
    },
  ],
});
const selecting = (key: string) => ({
  match: { ...MATCH, objectSelector: { matchLabels: { [key]: 'a' } } },
});
const filling = (name: string, value: string) =>
  writing(name, '{}', { mutations: [], defaults: [{ path: 'spec.tier', value }] });

test.each([
  ['merge', writing('y', '{"spec": {"tier": "y", "size": 1}}')],
  ['patch', writing('y', '', patch('/spec/tier'))],
  ['change only some objects', writing('y', '{"spec": {"tier": "y"}}', selecting('a'))],
])('two policies that %s the same field are named in a note', (_how, y) => {
  const note =
    /^spec\.tier is also written by AdmissionPolicy [xy], and the names of the policies decide which/;
  expect(conflictsOf(x, [x, y])).toEqual([expect.stringMatching(note)]);
  expect(conflictsOf(y, [x, y])).toEqual([expect.stringMatching(note)]);
});

test('two different defaults of a field are named, and equal ones are not', () => {
  const [one, other] = [filling('one', 'a'), filling('other', 'b')];
  expect(conflictsOf(one, [one, other])).toEqual([expect.stringContaining('by AdmissionPolicy other,')]);
  expect(conflictsOf(one, [one, filling('other', 'a')])).toEqual([]);
});

test.each([
  ['another field', writing('y', '{"spec": {"size": 1}}')],
  ['the same value', writing('y', TIER)],
  ['another kind', writing('y', '{"spec": {"tier": "y"}}', { match: { ...MATCH, resources: ['racks'] } })],
  ['elements of a list', writing('y', '', patch('/spec/tier/-'))],
  ['a default', filling('y', 'y')],
])('a policy that writes %s does not conflict', (_what, y) => {
  expect(conflictsOf(x, [x, y])).toEqual([]);
});

test('policies whose selectors may exclude each other do not conflict', () => {
  const [a, b] = ['a', 'b'].map((key) => writing(key, `{"spec": {"tier": "${key}"}}`, selecting(key)));
  expect(a && b && conflictsOf(a, [a, b])).toEqual([]);
});

const requiring = (resource: string, target: string, more: Partial<AdmissionPolicySpec> = {}) => {
  const reference = { name: target, path: 'spec.x', optional: false };
  return compiled(
    {
      match: { ...MATCH, resources: [resource] },
      validate: {
        references: [{ ...reference, target: { apiGroup: 'infra.example.com', resource: target } }],
      },
      ...more,
    },
    { name: resource, generation: 1 },
  );
};

test('required references in a circle are named, and one that can be deferred or omitted ends it', () => {
  const servers = requiring('servers', 'widgets');
  const widgets = requiring('widgets', 'gadgets');
  const gadgets = requiring('gadgets', 'servers');
  expect(conflictsOf(servers, [servers, requiring('widgets', 'servers')])).toEqual([
    'reference widgets requires widgets.infra.example.com, which in turn require servers.infra.example.com, so neither can be created first: set optional: true in one reference, or initiallyDeferred',
  ]);
  expect(conflictsOf(gadgets, [servers, widgets, gadgets])).toEqual([
    expect.stringContaining('which in turn indirectly require gadgets.infra.example.com'),
  ]);
  const deferred = { initiallyDeferred: { principals: [{ user: 'argocd' }] } };
  for (const last of [requiring('gadgets', 'servers', deferred), requiring('gadgets', 'things')])
    expect(conflictsOf(servers, [servers, widgets, last])).toEqual([]);
});

/** Defaults and mutations with expressions. */
import { describe, expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import type { AdmissionRequest } from '../review/request.ts';
import { applyPatch } from '../../json/json-patch.ts';
import type { JsonObject } from '../../json/json.ts';
import { mutate } from './mutate.ts';
import { OutOfReachError, type RestoreEvidence } from './world.ts';
import {
  clusterOf,
  compileSpec,
  createRequest,
  NIGHTLY,
  policyOf,
  restoringIn,
} from '../../../test/support/admission/policy.ts';

async function mutated(
  spec: Partial<AdmissionPolicySpec>,
  request: AdmissionRequest = createRequest({ units: 3 }),
  cluster = clusterOf(),
): Promise<JsonObject | string> {
  const decision = await mutate(request, [policyOf(spec)], cluster);
  return decision.kind === 'allow' ? applyPatch(request.object ?? {}, decision.patch) : decision.message;
}

const mutation = (expression: string, rest: object = {}) => ({
  mutations: [{ name: 'm', expression, ...rest }],
});

describe('a default with an expression', () => {
  test('with a failing expression is refused and named', async () => {
    const defaults = [{ path: 'spec.x', expression: 'object.spec.missing' }];
    expect(await mutated({ defaults })).toBe(
      'the default of spec.x could not be computed: no such key: missing (policy servers)',
    );
  });

  test.each([
    ['both', { value: 1, expression: '1' }],
    ['neither', {}],
  ])('with %s of value and expression is rejected', (_what, rest) => {
    expect(compileSpec({ defaults: [{ path: 'spec.x', ...rest }] })).toMatchObject({ kind: 'rejected' });
  });
});

describe('a mutation', () => {
  test('sees the result of earlier mutations', async () => {
    const mutations = [
      { name: 'one', expression: '{"spec": {"a": 1}}' },
      { name: 'two', expression: '{"spec": {"b": object.spec.a + 1}}' },
    ];
    expect(await mutated({ mutations })).toMatchObject({ spec: { a: 1, b: 2 } });
  });

  test('is refused if it would change its own result again: the API server may call twice', async () => {
    const growing = mutation('{"spec": {"units": object.spec.units + 1}}');
    expect(await mutated(growing)).toContain('change their own result again');
    const appending = mutation('[{"op": "add", "path": "/spec/tags/-", "value": "x"}]', {
      type: 'JSONPatch',
    });
    expect(await mutated(appending, createRequest({ tags: [] }))).toContain('change their own result again');
  });

  test.each([
    [
      'a path that does not exist',
      '[{"op": "add", "path": "/spec/a/b", "value": 1}]',
      'cannot add /spec/a/b: /spec/a does not exist: if it is absent, first add it with the value {}',
    ],
    [
      'an element of a list that does not exist',
      '[{"op": "add", "path": "/spec/initContainers/-", "value": {"name": "a"}}]',
      '/spec/initContainers does not exist: if it is absent, first add it with the value []',
    ],
    [
      'a field of a text',
      '[{"op": "add", "path": "/metadata/name/b", "value": 1}]',
      'cannot add /metadata/name/b: /metadata/name is neither an object nor a list',
    ],
    [
      'a replacement of what does not exist',
      '[{"op": "replace", "path": "/spec/a", "value": 1}]',
      'cannot replace /spec/a: it does not exist: replace it only if it is there',
    ],
    ['an unknown operation', '[{"op": "move", "path": "/spec/a"}]', 'operation 0 is not one of'],
    ['a value that is not a list', '{"a": 1}', 'a JSON patch needs a list'],
  ])('as a patch with %s is refused and named', async (_what, expression, words) => {
    const message = await mutated(mutation(expression, { type: 'JSONPatch' }));
    expect(message).toContain('mutation m: ');
    expect(message).toContain(words);
  });

  test.each(['{"metadata": {"name": "b"}}', '{"kind": "Other"}', '{"metadata": {"uid": "1"}}'])(
    'cannot change the identity of the object: %s',
    async (expression) => {
      expect(await mutated(mutation(expression))).toContain('identifies the object and cannot be changed');
    },
  );
});

describe('data that mutations read from the cluster', () => {
  const params = { apiGroup: '', resource: 'configmaps', name: 'defaults' };
  const spec = { params, ...mutation('{"spec": {"tier": params.data.tier}}') };

  test('comes from the store or from a live read', async () => {
    const map = { 'configmaps/store/defaults': { data: { tier: 'gold' } } as object };
    expect(await mutated(spec, undefined, clusterOf({ stored: map }))).toMatchObject({
      spec: { tier: 'gold' },
    });
    expect(await mutated(spec, undefined, clusterOf({ live: map }))).toMatchObject({
      spec: { tier: 'gold' },
    });
  });

  test('refuses the request if it is missing, unless the policy skips it', async () => {
    expect(await mutated(spec)).toContain('configmaps "defaults" in namespace "store" not found; create it');
    const request = createRequest({});
    const lenient = { ...spec, params: { ...params, whenMissing: 'Allow' as const } };
    expect(await mutated(lenient, request)).toEqual(request.object);
  });

  test('makes the client retry if it cannot be read', async () => {
    const cluster = clusterOf({ live: { 'configmaps/store/defaults': 'connection refused' } });
    const decision = await mutate(createRequest({}), [policyOf(spec)], cluster);
    expect(decision).toMatchObject({ kind: 'retry' });
  });

  test('refuses the request if Gatehouse never reads it', async () => {
    const cluster = clusterOf();
    const read = () => Promise.reject(new OutOfReachError('Gatehouse does not read namespace other'));
    const context = { ...cluster, world: { ...cluster.world, read } };
    expect(await mutate(createRequest({}), [policyOf(spec)], context)).toMatchObject({
      kind: 'deny',
      code: 403,
      message: expect.stringContaining('Gatehouse does not read namespace other') as string,
    });
  });
});

describe('an object that a restorer writes', () => {
  const counting = { name: 'count', expression: "{'spec': {'edits': 1}}" };
  const policy = (restore: AdmissionPolicySpec['restore'] = {}) =>
    policyOf({ mutations: [counting], defaults: [{ path: 'spec.tier', value: 'standard' }], restore });
  const patched = async (
    restore?: AdmissionPolicySpec['restore'],
    evidence: RestoreEvidence = NIGHTLY,
    mayRestore = true,
  ) => {
    const cluster = clusterOf();
    const world = {
      ...cluster.world,
      mayRestore: () => mayRestore,
      restoreEvidence: () => Promise.resolve(evidence.windows.length === 0 ? undefined : evidence),
    };
    const decision = await mutate(createRequest({}), [policy(restore)], { ...cluster, world });
    return decision.kind === 'allow' ? decision.patch.map(({ path }) => path) : decision.kind;
  };

  test('gets missing fields but no changes: the backup decides', async () => {
    expect(await patched()).toEqual(['/spec/tier']);
  });

  test('is changed if the policy applies mutations to restores', async () => {
    expect(await patched({ mutations: 'Apply' })).toEqual(expect.arrayContaining(['/spec/edits']));
  });

  test('is changed in a window of a user who may open windows only in namespaces', async () => {
    expect(await patched({}, restoringIn({ clusterWide: false }))).toEqual(
      expect.arrayContaining(['/spec/edits']),
    );
    expect(await patched({}, restoringIn({ clusterWide: false }, {}))).toEqual(['/spec/tier']);
  });

  test('is changed as for any other user when no restore runs', async () => {
    expect(await patched({}, restoringIn())).toEqual(expect.arrayContaining(['/spec/edits']));
    expect(await patched({}, NIGHTLY, false)).toEqual(expect.arrayContaining(['/spec/edits']));
  });
});

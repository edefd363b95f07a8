import { expect, test } from 'vitest';

import { clusterOf, createRequest, GROUP, policyOf } from '../../../../test/support/admission/policy.ts';
import { applyPatch } from '../../../json/json-patch.ts';
import type { JsonObject } from '../../../json/json.ts';
import { compileNative } from '../../native/native-policy.ts';
import { knownKinds } from '../match/subresources.ts';
import { mutate } from '../mutate.ts';

const strings = { type: 'array', items: { type: 'string' } };
const port = { type: 'object', properties: { protocol: { default: 'TCP' } } };
const schema = {
  properties: {
    spec: {
      properties: {
        tags: { ...strings, 'x-kubernetes-list-type': 'set' },
        steps: { ...strings, 'x-kubernetes-list-type': 'atomic' },
        names: strings,
        pools: {
          additionalProperties: {
            properties: {
              ports: {
                items: port,
                'x-kubernetes-list-type': 'map',
                'x-kubernetes-list-map-keys': ['number', 'protocol'],
              },
            },
          },
        },
      },
    },
  },
};
const SERVERS = { group: GROUP, resource: 'servers' };
const { lists } = knownKinds([[{ ...SERVERS, schema, scale: undefined }]]);
const PODS = { group: '', resource: 'pods' };

const merging = (change: JsonObject, { group, resource } = SERVERS) => ({
  ...policyOf({
    match: { apiGroups: [group], apiVersions: ['v1'], resources: [resource] },
    mutations: [{ name: 'm', expression: JSON.stringify(change) }],
    restore: { mutations: 'Apply' },
  }),
  lists,
});

async function merged(object: JsonObject, change: JsonObject, kind = SERVERS) {
  const request = createRequest({});
  const whole = { ...request.object, ...object };
  const asked = { ...request, resource: { ...kind, version: 'v1' }, object: whole };
  const decision = await mutate(asked, [merging(change, kind)], clusterOf());
  return decision.kind === 'allow' ? applyPatch(whole, decision.patch) : decision.message;
}

const spec = (fields: JsonObject) => ({ spec: fields });

test.each<[string, JsonObject, JsonObject, JsonObject]>([
  ['a set is united', { tags: ['a', 'b'] }, { tags: ['b', 'c'] }, { tags: ['a', 'b', 'c'] }],
  ['an atomic list is replaced', { steps: ['a'] }, { steps: ['b'] }, { steps: ['b'] }],
  ['a list without a type is replaced', { names: ['a'] }, { names: ['b'] }, { names: ['b'] }],
  ['null removes a list', { tags: ['a'] }, { tags: null }, {}],
  ['a list appears', {}, { tags: ['a'] }, { tags: ['a'] }],
  [
    'an item with the same keys is merged, and a key has the default of the schema',
    {
      pools: {
        a: {
          ports: [
            { number: 1, name: 'x', old: true },
            { number: 1, protocol: 'UDP' },
          ],
        },
      },
    },
    { pools: { a: { ports: [{ number: 1, protocol: 'TCP', old: null, tls: true }, { number: 2 }] } } },
    {
      pools: {
        a: {
          ports: [
            { number: 1, name: 'x', protocol: 'TCP', tls: true },
            { number: 1, protocol: 'UDP' },
            { number: 2 },
          ],
        },
      },
    },
  ],
])('in custom kinds, %s', async (_what, before, change, after) => {
  expect(await merged(spec(before), spec(change))).toMatchObject(spec(after));
  expect(((await merged(spec(before), spec(change))) as JsonObject).spec).toEqual(after);
});

test.each([SERVERS, PODS, { group: 'example.com', resource: 'unknown' }])(
  'finalizers and owner references of others remain: %j',
  async (kind) => {
    const [theirs, ours] = ['theirs', 'ours'].map((uid) => ({
      finalizers: [`example.com/${uid}`],
      ownerReferences: [{ uid, name: uid }],
    }));
    const before = createRequest({}, theirs).object;
    expect(await merged({ metadata: before?.metadata ?? {} }, { metadata: ours ?? {} }, kind)).toMatchObject({
      metadata: {
        finalizers: ['example.com/theirs', 'example.com/ours'],
        ownerReferences: [{ uid: 'theirs' }, { uid: 'ours' }],
      },
    });
  },
);

test('containers of others remain, and duplicate items stay apart', async () => {
  const env = [
    { name: 'A', value: '1' },
    { name: 'A', value: '2' },
  ];
  const before = { containers: [{ name: 'main', image: 'a', env, args: ['x'] }] };
  const change = { containers: [{ name: 'main', args: ['y'], env: [{ name: 'B' }] }, { name: 'sidecar' }] };
  expect(await merged(spec(before), spec(change), PODS)).toMatchObject({
    spec: {
      containers: [
        { name: 'main', image: 'a', env: [...env, { name: 'B' }], args: ['y'] },
        { name: 'sidecar' },
      ],
    },
  });
});

test.each<[JsonObject, string | undefined]>([
  [{ spec: { tags: ['a'] } }, 'only the webhook merges the items of the list spec.tags'],
  [
    { metadata: { finalizers: ['a.b/c'] } },
    'only the webhook merges the items of the list metadata.finalizers',
  ],
  [{ spec: { names: ['a'], steps: ['b'] } }, undefined],
])('the API server makes only changes that merge no list: %j', (change, reason) => {
  const options = { ownNamespace: 'gatehouse-system', restorers: [], others: [] };
  const [check] = compileNative(merging(change), options).checks;
  expect(check?.by === 'Webhook' ? check.reason : undefined).toBe(reason);
});

import { expect, test } from 'vitest';

import {
  clusterOf,
  compileSpec,
  createRequest,
  policyOf,
} from '../../../../test/support/admission/policy.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { applyPatch } from '../../../json/json-patch.ts';
import type { JsonObject } from '../../../json/json.ts';
import { compileNative } from '../../native/native-policy.ts';
import { mutate } from '../mutate.ts';
import { updateNotes } from './update-limits.ts';

type Spec = Partial<AdmissionPolicySpec>;

const governing = (resources: readonly string[], apiGroups = ['']) => ({
  apiGroups,
  apiVersions: ['v1'],
  resources: [...resources],
});
const PODS = governing(['pods']);
const ofOperation = (operation: 'CREATE' | 'UPDATE') => ({ ...PODS, operations: [operation] });
const MAIN = { containers: [{ name: 'main', image: 'a' }] };
const merge = (expression: string): Spec => ({ match: PODS, mutations: [{ name: 'm', expression }] });
const patch = (expression: string): Spec => ({
  match: PODS,
  mutations: [{ name: 'm', type: 'JSONPatch', expression }],
});

/** The object after the changes of the policy, in a request for a resource such as `jobs.batch` or `pods/resize`. */
async function after(
  spec: Spec,
  operation: 'CREATE' | 'UPDATE',
  fields: JsonObject,
  kind = 'pods',
  before = fields,
) {
  const [name = '', group = ''] = kind.split('.');
  const [resource = '', subResource = ''] = name.split('/');
  const request = createRequest({});
  const object = { ...request.object, spec: {}, ...fields };
  const decision = await mutate(
    {
      ...request,
      operation,
      resource: { group, version: 'v1', resource },
      subResource,
      object,
      oldObject: operation === 'UPDATE' ? { ...request.object, spec: {}, ...before } : undefined,
    },
    [policyOf(spec)],
    clusterOf(),
  );
  return decision.kind === 'allow' ? applyPatch(object, decision.patch) : decision.message;
}

function nativeReason(spec: Spec): string | undefined {
  const options = { ownNamespace: 'gatehouse-system', restorers: [], others: [] };
  const policy = policyOf({ ...spec, restore: { mutations: 'Apply' } });
  const [check] = compileNative(policy, options).checks;
  return check?.by === 'Webhook' ? check.reason : check?.mutations?.join();
}

const SIDECAR = '{"name": "sidecar", "image": "b"}';

test.each<[string, Spec, JsonObject]>([
  ['default', { match: PODS, defaults: [{ path: 'spec.hostname', value: 'a' }] }, { hostname: 'a' }],
  ['merge', merge('{"spec": {"hostname": "a"}}'), { hostname: 'a' }],
  [
    'new container',
    patch(
      `object.spec.containers.size() > 1 ? [] : [{"op": "add", "path": "/spec/containers/-", "value": ${SIDECAR}}]`,
    ),
    { containers: [...MAIN.containers, { name: 'sidecar', image: 'b' }] },
  ],
  [
    'computed patch',
    patch('[{"op": "add", "path": "/spec/" + string("hostname"), "value": "a"}]'),
    { hostname: 'a' },
  ],
])('a %s of an immutable field changes new Pods, and not existing ones', async (_what, spec, changed) => {
  expect(await after(spec, 'CREATE', { spec: MAIN })).toMatchObject({ spec: { ...MAIN, ...changed } });
  expect((await after(spec, 'UPDATE', { spec: MAIN })) as JsonObject).toHaveProperty('spec', MAIN);
  expect(await after(spec, 'UPDATE', { spec: MAIN }, 'pods.other.example.com')).toMatchObject({
    spec: changed,
  });
});

test.each<[string, Spec, JsonObject]>([
  ['a label', merge('{"metadata": {"labels": {"a": "x"}}}'), { metadata: { labels: { a: 'x' } } }],
  [
    'an image',
    patch('[{"op": "replace", "path": "/spec/containers/0/image", "value": "b"}]'),
    { spec: { containers: [{ image: 'b' }] } },
  ],
  [
    'all images',
    patch(
      'object.spec.containers.map(one, {"op": "replace", "path": "/spec/containers/" + string(object.spec.containers.map(c, c.name).indexOf(one.name)) + "/image", "value": "b"})',
    ),
    { spec: { containers: [{ image: 'b' }] } },
  ],
  [
    'a label, where the immutable field has its value already',
    merge('{"metadata": {"labels": {"a": "x"}}, "spec": {"containers": object.spec.containers}}'),
    { metadata: { labels: { a: 'x' } } },
  ],
])('existing Pods get %s', async (_what, spec, changed) => {
  expect(await after(spec, 'UPDATE', { spec: MAIN })).toMatchObject(changed);
});

test('a change of several kinds stays in force for updates of those in which its field is mutable', async () => {
  const match = governing(['deployments', 'jobs'], ['apps', 'batch']);
  const path = 'spec.template.spec.hostNetwork';
  const spec: Spec = { match, defaults: [{ path, value: true }] };
  const template = { spec: { template: { spec: {} } } };
  expect(await after(spec, 'UPDATE', template, 'jobs.batch')).toMatchObject(template);
  expect(await after(spec, 'UPDATE', template, 'jobs.batch')).not.toHaveProperty(path);
  expect(await after(spec, 'UPDATE', template, 'deployments.apps')).toHaveProperty(path, true);
  expect(updateNotes(policyOf(spec))).toEqual([
    `the default of ${path} does not apply to updates of jobs.batch, because the API server refuses to change this part of existing objects: write it in a policy with operations: [CREATE]`,
  ]);
});

test('the data of a ConfigMap changes unless it is marked as immutable', async () => {
  const spec: Spec = { match: governing(['configmaps']), defaults: [{ path: 'data.a', value: 'x' }] };
  expect(await after(spec, 'UPDATE', {}, 'configmaps')).toHaveProperty('data.a', 'x');
  expect(await after(spec, 'UPDATE', { immutable: true }, 'configmaps')).not.toHaveProperty('data');
  expect(updateNotes(policyOf(spec))).toEqual([]);
});

test('a manifest without what the policy wrote on CREATE gets it again', async () => {
  const spec: Spec = { match: PODS, defaults: [{ path: 'spec.hostname', value: 'a' }] };
  const update = (hostname: string) =>
    after(spec, 'UPDATE', { spec: MAIN }, 'pods', { spec: { ...MAIN, hostname } });
  expect(await update('a')).toHaveProperty('spec.hostname', 'a');
  expect(await update('b')).not.toHaveProperty('spec.hostname');
});

test('a user cannot change what the policy wrote into a suspended Job', async () => {
  const path = 'spec.template.spec.nodeSelector';
  const spec: Spec = {
    ...merge('{"spec": {"template": {"spec": {"nodeSelector": {"pool": "a"}}}}}'),
    match: governing(['jobs'], ['batch']),
  };
  const job = (pool: string, suspend: boolean, tolerations: JsonObject[] = []) => ({
    spec: { suspend, template: { spec: { nodeSelector: { pool }, tolerations } } },
  });
  const moved = job('b', true, [{ operator: 'Exists' }]);
  expect(await after(spec, 'UPDATE', moved, 'jobs.batch', job('a', true))).toHaveProperty(path, {
    pool: 'a',
  });
  expect(await after(spec, 'UPDATE', moved, 'jobs.batch', job('a', false))).toHaveProperty(path, {
    pool: 'b',
  });
  const old = job('b', true); // older than the policy
  expect(await after(spec, 'UPDATE', old, 'jobs.batch')).toHaveProperty(path, { pool: 'b' });
  expect(nativeReason(spec)).toContain('only the webhook leaves out such changes');
});

test('a Service that becomes a load balancer gets its class', async () => {
  const spec: Spec = {
    match: governing(['services']),
    mutations: [
      {
        name: 'm',
        condition: 'object.spec.type == "LoadBalancer"',
        expression: '{"spec": {"loadBalancerClass": "example.com/internal"}}',
      },
    ],
  };
  const typed = (type: string) => ({ spec: { type } });
  const field = 'spec.loadBalancerClass';
  const exposed = typed('LoadBalancer');
  expect(await after(spec, 'UPDATE', exposed, 'services', typed('ClusterIP'))).toHaveProperty(
    field,
    'example.com/internal',
  );
  expect(await after(spec, 'UPDATE', exposed, 'services')).not.toHaveProperty(field);
  expect(nativeReason(spec)).toContain('only the webhook leaves out such changes');
});

test('a Pod can be resized, and keeps its other fields', async () => {
  const match = governing(['pods/*']);
  const defaults = [
    { path: 'spec.containers[*].resources.limits.cpu', value: '1' },
    { path: 'spec.hostname', value: 'a' },
  ];
  const resized = await after({ match, defaults }, 'UPDATE', { spec: MAIN }, 'pods/resize');
  expect(resized).toHaveProperty('spec', {
    containers: [{ ...MAIN.containers[0], resources: { limits: { cpu: '1' } } }],
  });
});

test.each<[string, Spec, string | undefined]>([
  ['only immutable fields', merge('{"spec": {"hostname": "a"}}'), 'm does not apply to updates of pods'],
  ['also others', merge('{"spec": {"initContainers": []}}'), 'm applies to an update of pods only if'],
  ['only others', merge('{"metadata": {"labels": {"a": "x"}}}'), undefined],
  ['an expression of unknown shape', merge('object.spec'), undefined],
  ['immutable fields of new Pods', { match: ofOperation('CREATE') }, undefined],
])('the note on a mutation that writes %s', (_what, spec, note) => {
  const notes = updateNotes(policyOf({ ...merge('{"spec": {"hostname": "a"}}'), ...spec }));
  expect(notes).toEqual(note === undefined ? [] : [expect.stringContaining(note)]);
});

test('a policy that governs only updates cannot have such a change, unless it is in force already', () => {
  const spec: Spec = { match: ofOperation('UPDATE'), defaults: [{ path: 'spec.hostname', value: 'a' }] };
  expect(compileSpec(spec, 'p', { schemas: [] })).toMatchObject({
    problems: [
      { where: 'spec.defaults[0]', message: expect.stringContaining('never applies to pods') as string },
    ],
  });
  expect(compileSpec(spec)).toMatchObject({ kind: 'compiled' });
});

test.each<[string, Spec, RegExp]>([
  [
    'leaves updates out',
    { match: PODS, defaults: [{ path: 'spec.hostname', value: 'a' }] },
    /"UPDATE" && \(.*"pods"/,
  ],
  [
    'leaves it to the webhook if only that can compare',
    merge('{"metadata": {"labels": {"a": "x"}}, "spec": {"hostname": "a"}}'),
    /only the webhook leaves out such changes/,
  ],
])('a compiled change %s', (_what, spec, expected) => {
  expect(nativeReason(spec)).toMatch(expected);
});

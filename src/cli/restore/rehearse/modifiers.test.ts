import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import type { JsonObject, JsonValue } from '../../../json/json.ts';
import { modifiersOf } from './modifiers.ts';

const DEPLOYMENTS = { group: 'apps', resource: 'deployments' };
const nginx = { name: 'nginx', image: 'nginx:1.14', ports: [{ containerPort: 80 }] };
const deployment = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'web-1', namespace: 'shop', labels: { app: 'web' } },
  spec: { replicas: 1, paused: null, template: { spec: { containers: [nginx] } } },
};
const claim = (storageClassName: string) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: 'data', namespace: 'shop' },
  spec: { storageClassName },
});
const CLAIMS = { group: '', resource: 'persistentvolumeclaims' };

const configMap = (text: string): JsonObject => ({ data: { 'rules.yaml': text } });
const withRules = (...rules: readonly JsonValue[]) =>
  modifiersOf(configMap(stringify({ version: 'v1', resourceModifierRules: rules })));
const replaced = { patches: [{ operation: 'replace', path: '/spec/replicas', value: '2' }] };
const rule = (change: JsonObject, conditions: JsonObject = {}): JsonObject => ({
  conditions: { groupResource: 'deployments.apps', ...conditions },
  ...change,
});
const replicasAfter = (conditions: JsonObject) => {
  const { object, failed } = withRules(rule(replaced, conditions))(deployment, DEPLOYMENTS);
  return [object.spec, failed.map((one) => one.replace(/^\S+ /, ''))];
};

test.each<[what: string, conditions: JsonObject]>([
  ['the resource', {}],
  ['all resources of a group', { groupResource: '*.apps' }],
  ['a namespace', { namespaces: ['other', 'sh?p'] }],
  ['all namespaces', { namespaces: ['*'] }],
  ['a part of the name', { resourceNameRegex: '-[0-9]' }],
  ['labels', { labelSelector: { matchLabels: { app: 'web' } } }],
  ['the values of fields', { matches: [{ path: '/spec/replicas', value: '1' }] }],
  ['a field without a value', { matches: [{ path: '/spec/absent', value: 'null' }] }],
  ['null', { matches: [{ path: '/spec/paused', value: 'null' }] }],
])('a rule applies by %s', (_what, conditions) => {
  expect(replicasAfter(conditions)).toEqual([{ ...deployment.spec, replicas: 2 }, []]);
});

test.each<[what: string, conditions: JsonObject]>([
  ['resource', { groupResource: 'statefulsets.apps' }],
  ['resource: * does not match a dot', { groupResource: '*' }],
  ['namespace', { namespaces: ['other'] }],
  ['name', { resourceNameRegex: '^api' }],
  ['label', { labelSelector: { matchLabels: { app: 'db' } } }],
  ['value', { matches: [{ path: '/spec/replicas', value: '3' }] }],
  ['absent parent', { matches: [{ path: '/status/x/y', value: '3' }] }],
])('a rule does not apply to another %s', (_what, conditions) => {
  expect(replicasAfter(conditions)).toEqual([deployment.spec, []]);
});

test.each<[what: string, conditions: JsonObject, failed: string]>([
  ['class of a glob', { groupResource: 'a[' }, 'is not a glob'],
  ['regular expression', { resourceNameRegex: '(' }, 'missing closing )'],
  ['label selector', { labelSelector: { matchExpressions: [{ key: 'a', operator: 'x' }] } }, 'operator'],
  ['path', { matches: [{ value: '1' }] }, 'path must not be empty'],
  ['index', { matches: [{ path: '/spec/template/spec/containers/4' }] }, 'the index is not in the list'],
])('an invalid %s in a condition fails', (_what, conditions, failed) => {
  expect(replicasAfter(conditions)).toEqual([deployment.spec, [expect.stringContaining(failed)]]);
});

test('conditions judge the object as it was before all rules; a later patch wins', () => {
  const change = (from: string, to: string) => ({
    conditions: {
      groupResource: 'persistentvolumeclaims',
      matches: [{ path: '/spec/storageClassName', value: from }],
    },
    patches: [{ operation: 'replace', path: '/spec/storageClassName', value: to }],
  });
  const after = (...rules: readonly JsonObject[]) => withRules(...rules)(claim('standard'), CLAIMS).object;
  expect(after(change('standard', 'premium'), change('premium', 'gold'))).toEqual(claim('premium'));
  expect(after(change('standard', 'premium'), change('standard', 'gold'))).toEqual(claim('gold'));
});

test('a failed test leaves the object as it is, another failure is reported, and other rules still apply', () => {
  const test = { operation: 'test', path: '/spec/replicas', value: '5' };
  const remove = { operation: 'remove', path: '/spec/absent' };
  const result = (...patches: readonly JsonObject[]) =>
    withRules(rule({ patches }), rule(replaced))(deployment, DEPLOYMENTS);
  const two = { ...deployment, spec: { ...deployment.spec, replicas: 2 } };
  const add = { operation: 'add', path: '/spec/x', value: 'y' };
  expect(result(add, test)).toEqual({ object: two, failed: [] });
  expect(result(add, remove)).toEqual({
    object: two,
    failed: ['resourceModifierRules[0]: remove /spec/absent: not found in the object'],
  });
});

test.each<[value: string | number | boolean, stored: JsonValue]>([
  ['5', 5],
  [5, 5],
  ['"5"', '5'],
  ['1e2', 100],
  ['text', 'text'],
  ['true', true],
  [false, false],
  ['"true"', 'true'],
  ['null', null],
  ['', ''],
  ['{"a": [1]}', { a: [1] }],
  ['[1, "b"]', [1, 'b']],
])('the value %j of a patch is %j', (value, stored) => {
  const patches = [{ operation: 'add', path: '/spec/x', value }];
  const { object } = withRules(rule({ patches }))(deployment, DEPLOYMENTS);
  expect(object.spec).toEqual({ ...deployment.spec, x: stored });
});

test.each<[what: string, patch: JsonObject, failed: string]>([
  ['a value with a quotation mark', { operation: 'add', path: '/spec/x', value: 'a"b' }, 'is not JSON'],
  ['TRUE', { operation: 'add', path: '/spec/x', value: 'TRUE' }, 'is not JSON'],
  [
    'an operation in capitals',
    { operation: 'Replace', path: '/spec/replicas', value: '3' },
    'does not apply',
  ],
  ['replacing an absent field', { operation: 'replace', path: '/spec/x', value: '3' }, 'not found'],
  ['copying an absent field', { operation: 'copy', from: '/spec/x', path: '/spec/y' }, 'not found'],
  ['a parent that is absent', { operation: 'add', path: '/spec/x/y', value: '3' }, 'does not apply'],
  ['a missing slash', { operation: 'replace', path: 'spec', value: '3' }, 'not found'],
  ['removing the kind', { operation: 'remove', path: '/kind' }, 'has no kind'],
])('a patch fails with %s', (_what, patch, failed) => {
  expect(withRules(rule({ patches: [patch] }))(deployment, DEPLOYMENTS)).toEqual({
    object: deployment,
    failed: [expect.stringContaining(failed)],
  });
});

const image = { spec: { template: { spec: { containers: [{ name: 'nginx', image: 'nginx:2' }] } } } };
const containersAfter = (object: JsonObject, change: JsonObject) => {
  const all = rule(change, { groupResource: '**' });
  const { object: after, failed } = withRules(all)(object, DEPLOYMENTS);
  expect(failed).toEqual([]);
  return /"containers":.*\]/.exec(JSON.stringify(after.spec))?.[0];
};

test('a merge patch replaces lists, a strategic patch merges them, also in workloads without known fields', () => {
  const patches = [{ patchData: JSON.stringify(image) }];
  const whole = '"containers":[{"name":"nginx","image":"nginx:2","ports":[{"containerPort":80}]}]';
  expect(containersAfter(deployment, { mergePatches: patches })).toBe(
    '"containers":[{"name":"nginx","image":"nginx:2"}]',
  );
  expect(containersAfter(deployment, { strategicPatches: patches })).toBe(whole);
  const set = { ...deployment, kind: 'StatefulSet' };
  expect(containersAfter(set, { strategicPatches: patches })).toBe(whole);
  const cron = { ...deployment, apiVersion: 'batch/v1', kind: 'CronJob', spec: { jobTemplate: deployment } };
  const inJob = [{ patchData: JSON.stringify({ spec: { jobTemplate: image } }) }];
  expect(containersAfter(cron, { strategicPatches: inJob })).toBe(whole);
});

test('merge patches can be YAML, and null removes a field', () => {
  const change = { mergePatches: [{ patchData: 'metadata: {labels: {app: null, tier: front}}' }] };
  const { object } = withRules(rule(change))(deployment, DEPLOYMENTS);
  expect(object.metadata).toEqual({ ...deployment.metadata, labels: { tier: 'front' } });
});

test.each<[what: string, change: JsonObject, object: JsonObject, failed: string]>([
  ['no patches', {}, deployment, 'it has no patches'],
  ['a list as patch', { mergePatches: [{ patchData: '[]' }] }, deployment, 'cannot unmarshal array'],
  ['invalid YAML', { strategicPatches: [{ patchData: '{' }] }, deployment, 'line 1'],
  [
    'a strategic patch of a kind that Velero does not know',
    { strategicPatches: [{ patchData: '{}' }] },
    { ...deployment, apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role' },
    'Velero applies no strategic patch to Role of rbac.authorization.k8s.io/v1',
  ],
])('a rule fails with %s', (_what, change, object, failed) => {
  expect(withRules(rule(change))(object, DEPLOYMENTS)).toEqual({
    object,
    failed: [expect.stringContaining(failed)],
  });
});

const rules = (text: string, version = 'v1') =>
  configMap(`version: ${version}\nresourceModifierRules: [${text}]`);
const valid = 'conditions: {groupResource: pods}, patches: [{operation: test, path: /a}]';
const first = 'resourceModifierRules[0]';

test.each<[what: string, configMap: JsonObject, problem: string]>([
  ['two keys', { data: { a: 'version: v1', b: 'version: v1' } }, 'data must have exactly one key'],
  ['invalid YAML', configMap('version: [v1'), 'line 1'],
  ['another version', rules(`{${valid}}`, 'v2'), 'version'],
  ['no rules', rules(''), 'resourceModifierRules'],
  ['an unknown field', rules(`{${valid}, x: y}`), `${first}.x: unknown field`],
  ['no resource', rules('{conditions: {namespaces: [a]}}'), `${first}.conditions.groupResource`],
  ['another operation', rules(`{${valid.replace('test', 'x')}}`), `${first}.patches[0].operation`],
  ['no path', rules(`{${valid.replace(', path: /a', '')}}`), `${first}.patches[0].path`],
  ['two kinds of patches', rules(`{${valid}, mergePatches: [{patchData: x}]}`), `${first}: only one of`],
])('a ConfigMap is refused with %s', (_what, given, problem) => {
  expect(() => modifiersOf(given)).toThrow(problem);
});

test('the version and the operation can be in capitals', () => {
  expect(() => modifiersOf(rules(`{${valid.replace('test', 'TEST')}}`, 'V1'))).not.toThrow();
});

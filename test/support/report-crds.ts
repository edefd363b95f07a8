/** The definitions of both kinds of policy reports: their fields, types and enumerations, without descriptions. */
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import { definitionOf, resourceOf, versionOf } from './definitions.ts';

const text = { type: 'string' };
const count = { type: 'integer' };
const list = (items: object) => ({ type: 'array', items });
const map = { type: 'object', additionalProperties: text };
const outcomes = { type: 'string', enum: ['pass', 'fail', 'warn', 'error', 'skip'] };

const fields = (properties: object, ...required: readonly string[]) => ({
  type: 'object',
  properties,
  ...(required.length === 0 ? {} : { required }),
});
const allOf = (type: object, ...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, type]));

const expression = fields({ key: text, operator: text, values: list(text) }, 'key', 'operator');
const selector = fields({ matchLabels: map, matchExpressions: list(expression) });
const reference = fields(
  allOf(text, 'apiVersion', 'fieldPath', 'kind', 'name', 'namespace', 'resourceVersion', 'uid'),
);
const time = {
  nanos: { type: 'integer', format: 'int32' },
  seconds: { type: 'integer', format: 'int64' },
};
const result = fields(
  {
    ...allOf(text, 'category', 'message', 'policy', 'rule', 'source'),
    properties: map,
    resourceSelector: selector,
    resources: list(reference),
    result: outcomes,
    scored: { type: 'boolean' },
    severity: { type: 'string', enum: ['critical', 'high', 'low', 'medium', 'info'] },
    timestamp: fields(time, 'nanos', 'seconds'),
  },
  'policy',
);
const summary = fields(allOf(count, 'pass', 'fail', 'warn', 'error', 'skip'));

const common = { scope: reference, scopeSelector: selector, summary, results: list(result) };

const ofOpenReports = {
  ...common,
  source: text,
  configuration: fields({ limits: fields({ maxResults: count, statusFilter: list(outcomes) }) }, 'limits'),
};

function definition(kind: Resource, properties: object): KubeObject {
  const schema = fields({ apiVersion: text, kind: text, metadata: { type: 'object' }, ...properties });
  const crd = definitionOf(kind, { versions: [versionOf(kind.version, schema)] });
  // The API server protects groups under k8s.io.
  const annotations = { 'api-approved.kubernetes.io': 'unapproved, for tests' };
  return { ...crd, metadata: { ...crd.metadata, annotations } };
}

const open = (kind: string, namespaced: boolean) =>
  resourceOf('openreports.io', `${kind.toLowerCase()}s`, kind, namespaced, 'v1alpha1');
const ofPolicies = (kind: string, namespaced: boolean) =>
  resourceOf('wgpolicyk8s.io', `${kind.toLowerCase()}s`, kind, namespaced, 'v1alpha2');

export const REPORTS = open('Report', true);
export const CLUSTER_REPORTS = open('ClusterReport', false);
export const POLICY_REPORTS = ofPolicies('PolicyReport', true);
export const CLUSTER_POLICY_REPORTS = ofPolicies('ClusterPolicyReport', false);

export const OPEN_REPORTS_CRDS = [REPORTS, CLUSTER_REPORTS].map((one) => definition(one, ofOpenReports));
export const POLICY_REPORTS_CRDS = [POLICY_REPORTS, CLUSTER_POLICY_REPORTS].map((one) =>
  definition(one, common),
);

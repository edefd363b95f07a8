/** The definitions of both kinds of policy reports: their fields, types and enumerations, without descriptions. */
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import { definitionOf, versionOf } from './definitions.ts';

const text = { type: 'string' };
const count = { type: 'integer' };
const list = (items: object) => ({ type: 'array', items });
const map = { type: 'object', additionalProperties: text };
const outcomes = { type: 'string', enum: ['pass', 'fail', 'warn', 'error', 'skip'] };

const selector = {
  type: 'object',
  properties: {
    matchLabels: map,
    matchExpressions: list({
      type: 'object',
      required: ['key', 'operator'],
      properties: { key: text, operator: text, values: list(text) },
    }),
  },
};

const reference = {
  type: 'object',
  properties: {
    apiVersion: text,
    fieldPath: text,
    kind: text,
    name: text,
    namespace: text,
    resourceVersion: text,
    uid: text,
  },
};

const result = {
  type: 'object',
  required: ['policy'],
  properties: {
    category: text,
    message: text,
    policy: text,
    properties: map,
    resourceSelector: selector,
    resources: list(reference),
    result: outcomes,
    rule: text,
    scored: { type: 'boolean' },
    severity: { type: 'string', enum: ['critical', 'high', 'low', 'medium', 'info'] },
    source: text,
    timestamp: {
      type: 'object',
      required: ['nanos', 'seconds'],
      properties: {
        nanos: { type: 'integer', format: 'int32' },
        seconds: { type: 'integer', format: 'int64' },
      },
    },
  },
};

const summary = {
  type: 'object',
  properties: { pass: count, fail: count, warn: count, error: count, skip: count },
};

const common = { scope: reference, scopeSelector: selector, summary, results: list(result) };

const ofOpenReports = {
  ...common,
  source: text,
  configuration: {
    type: 'object',
    required: ['limits'],
    properties: {
      limits: { type: 'object', properties: { maxResults: count, statusFilter: list(outcomes) } },
    },
  },
};

function definition(kind: Resource, properties: object): KubeObject {
  const schema = {
    type: 'object',
    properties: { apiVersion: text, kind: text, metadata: { type: 'object' }, ...properties },
  };
  const crd = definitionOf(kind, { versions: [versionOf(kind.version, schema)] });
  // The API server protects groups under k8s.io.
  const annotations = { 'api-approved.kubernetes.io': 'unapproved, for tests' };
  return { ...crd, metadata: { ...crd.metadata, annotations } };
}

const kind = (
  group: string,
  version: string,
  resource: string,
  name: string,
  namespaced: boolean,
): Resource => ({
  ...{ group, version, resource, kind: name, namespaced },
});

export const REPORTS = kind('openreports.io', 'v1alpha1', 'reports', 'Report', true);
export const CLUSTER_REPORTS = kind('openreports.io', 'v1alpha1', 'clusterreports', 'ClusterReport', false);
export const POLICY_REPORTS = kind('wgpolicyk8s.io', 'v1alpha2', 'policyreports', 'PolicyReport', true);
export const CLUSTER_POLICY_REPORTS = kind(
  'wgpolicyk8s.io',
  'v1alpha2',
  'clusterpolicyreports',
  'ClusterPolicyReport',
  false,
);

export const OPEN_REPORTS_CRDS = [REPORTS, CLUSTER_REPORTS].map((one) => definition(one, ofOpenReports));
export const POLICY_REPORTS_CRDS = [POLICY_REPORTS, CLUSTER_POLICY_REPORTS].map((one) =>
  definition(one, common),
);

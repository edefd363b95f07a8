import { expect, test } from 'vitest';
import type { JsonObject } from '../../json/json.ts';
import { withoutClusterState } from './item-actions.ts';

const service = (spec: JsonObject, metadata: JsonObject = {}): JsonObject => ({ metadata, spec });
const port = { port: 80, protocol: 'TCP', nodePort: 30_080 };
const own = {
  managedFields: [
    { fieldsV1: { 'f:spec': { 'f:ports': { 'k:{"port":80,"protocol":"TCP"}': { 'f:nodePort': {} } } } } },
  ],
};
const applied = (spec: JsonObject): JsonObject => ({
  annotations: { 'kubectl.kubernetes.io/last-applied-configuration': JSON.stringify({ spec }) },
});
const bare = { ports: [{ port: 80, protocol: 'TCP' }] };

test.each<[string, JsonObject, JsonObject]>([
  ['the address', service({ clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.1'] }), {}],
  ['a node port that nobody has chosen', service({ ports: [port], healthCheckNodePort: 30_090 }), bare],
  [
    'another node port than the applied one',
    service({ ports: [port] }, applied({ ports: [{ nodePort: 1 }] })),
    bare,
  ],
])('Velero removes %s of a Service', (_what, object, spec) => {
  expect(withoutClusterState(object, 'services', false).spec).toEqual(spec);
});

test.each<[string, JsonObject]>([
  ['the address of a headless Service', service({ clusterIP: 'None', clusterIPs: ['None'] })],
  ['a node port that somebody has chosen', service({ ports: [port] }, own)],
  ['an applied node port', service({ ports: [port] }, applied({ ports: [port] }))],
  [
    'an applied node port, by its name',
    service({ ports: [{ ...port, name: 'a' }] }, applied({ ports: [{ name: 'a', nodePort: 1 }] })),
  ],
  ['the ports of an external name', service({ type: 'ExternalName', ports: [port] })],
])('Velero keeps %s', (_what, object) => {
  expect(withoutClusterState(object, 'services', false)).toEqual(object);
});

test('Velero keeps all node ports on request', () => {
  const object = service({ ports: [port] });
  expect(withoutClusterState(object, 'services', true)).toEqual(object);
});

test('Velero removes what belonged to the old cluster', () => {
  const labels = { 'controller-uid': 'u', 'batch.kubernetes.io/controller-uid': 'u', app: 'a' };
  const job = { spec: { selector: { matchLabels: labels }, template: { metadata: { labels } } } };
  const kept = { app: 'a' };
  expect(withoutClusterState(job, 'jobs.batch', false)).toEqual({
    spec: { selector: { matchLabels: kept }, template: { metadata: { labels: kept } } },
  });
  const pod = { spec: { nodeName: 'n', priority: 0, containers: [] } };
  expect(withoutClusterState(pod, 'pods', false)).toEqual({ spec: { containers: [] } });
  const volume = { spec: { claimRef: { name: 'c', uid: 'u', resourceVersion: '1' } } };
  expect(withoutClusterState(volume, 'persistentvolumes', false)).toEqual({
    spec: { claimRef: { name: 'c' } },
  });
});
